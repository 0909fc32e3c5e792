/* What the runtime of CUDA, which PyTorch has loaded, tells of GPUs: PyTorch's functions of C tell
 * nothing of them. Where one of its functions is missing, that is said by name, and the rest works.
 */
#ifndef GRAIL_BACKEND_TORCH_DEVICE_H
#define GRAIL_BACKEND_TORCH_DEVICE_H

#include "backend/kind.h"

/** GRAIL_ERROR_UNSUPPORTED unless the runtime sees GPU `index`, or cannot be asked. */
grail_status torch_gpu_check(int index) GRAIL_MUST_CHECK;

/** Bytes of GPU `index`, -1 where they are not known, which *missing then says: the name of the
 * function that the runtime lacks, or its error. */
void torch_gpu_memory(int index, int64_t *free, int64_t *total, const char **missing);

/** Its name, of at most 128 characters with the end; "" where the driver does not tell it. */
void torch_gpu_name(int index, char name[128]);

/** Whether a text of PyTorch tells that a device is full. */
bool torch_text_tells_full(const char *text);
/** Whether it tells of an error after which no call of this process for the GPU works. */
bool torch_text_tells_loss(const char *text);

/** Notes once for the process that the context of a GPU is lost, with the first error's message. */
void torch_gpu_note_loss(const char *message);
/** That message; NULL: none is lost. */
const char *torch_gpu_loss(void);

#endif
