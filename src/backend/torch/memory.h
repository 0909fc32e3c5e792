/* Memory of an instance of the backend for torch. */
#ifndef GRAIL_BACKEND_TORCH_MEMORY_H
#define GRAIL_BACKEND_TORCH_MEMORY_H

#include "backend/kind.h"

/** The fields of backend_kind that have to do with memory. An allocation is a tensor's handle. */
grail_status torch_enter(backend *b) GRAIL_MUST_CHECK;
grail_status torch_allocate(backend *b, size_t bytes, bool zeroed, void **out) GRAIL_MUST_CHECK;
void *torch_address(void *allocation);
void torch_release(backend *b, void *allocation, size_t bytes);
void torch_describe(const backend *b, grail_device *out);
grail_status torch_upload(matrix m, const void *values) GRAIL_MUST_CHECK;
grail_status torch_download(matrix m, void *values) GRAIL_MUST_CHECK;

#define TORCH_MEMORY                                                                               \
    .enter = torch_enter, .allocate = torch_allocate, .address = torch_address,                    \
    .release = torch_release, .describe = torch_describe, .upload = torch_upload,                  \
    .download = torch_download

/** Whether PyTorch is there and has a GPU. */
bool torch_has_gpu(void);

#endif
