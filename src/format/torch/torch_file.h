/* Torch checkpoints. The zip format (torch 1.6 and later), the legacy format before it, and
 * TorchScript archives are read without executing anything; the zip format is written.
 *
 * Tensors are contiguous little-endian views. A stored tensor that is contiguous is mapped at its
 * offset in the file. A tensor that is strided, or whose member is deflated, is copied by
 * torch_file_load; its name and shape are known before. Everything but tensors is skipped. Names
 * are the keys of the dictionary that holds the tensors, or the attribute paths of a TorchScript
 * module. */
#ifndef GRAIL_FORMAT_TORCH_TORCH_FILE_H
#define GRAIL_FORMAT_TORCH_TORCH_FILE_H

#include "base/file.h"
#include "format/tensor_writer.h"
#include "tensor/tensor.h"

typedef struct torch_file torch_file;

/** Maps and reads a file; *out is owned: torch_file_close. Messages name file and tensor. */
grail_status torch_file_open(const char *path, torch_file **out) GRAIL_MUST_CHECK;
/** Reads bytes in memory (for fuzzing and tests); `bytes` must outlive *out. */
grail_status torch_file_open_bytes(const char *name, const void *bytes, size_t size,
                                   torch_file **out) GRAIL_MUST_CHECK;
void torch_file_close(torch_file *file); /* NULL is allowed */

/** The identity of the file when it was opened; zero for bytes in memory. */
file_identity torch_file_identity(const torch_file *file);

/** Copies the tensors that cannot be mapped (strided or deflated); their data is NULL until then.
 * Messages name the tensor, not the file. */
grail_status torch_file_load(torch_file *file) GRAIL_MUST_CHECK;

/** Tensors in the order of the dictionary; borrowed until close. Names are as stored in the wrapper
 * ("module.conv1.weight"). */
int64_t torch_file_count(const torch_file *file);
const tensor_view *torch_file_at(const torch_file *file, int64_t i);
void torch_file_release(const torch_file *file, const tensor_view *tensor);

/** Key of the dictionary that the tensors were found in ("state_dict"), "" when bare. */
const char *torch_file_wrapper(const torch_file *file);

/** Whether this is a TorchScript archive, whose root is a module. */
bool torch_file_is_script(const torch_file *file);

/** Opens a writer that lays out `count` tensors at `path`, in a dictionary under `wrapper` ("" =
 * bare). No reader opens the file until it is sealed; the result loads with weights_only. *out is
 * owned: tensor_writer_close. */
grail_status torch_writer_open(const char *path, const char *wrapper, int64_t count,
                               const tensor_view tensors[], layout_start start,
                               tensor_writer **out) GRAIL_MUST_CHECK;

#endif
