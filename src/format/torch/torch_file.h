/* Torch checkpoints in the zip format (torch 1.6 and later), which are read without executing
 * anything, and written. The format before it, compressed members and TorchScript archives are
 * refused with the lines of Python that save them again.
 *
 * Tensors are contiguous little-endian views. A tensor that is contiguous is mapped at its offset
 * in the file. One that is strided is copied by tensor_file_load; its name and shape are known
 * before. Everything but tensors is skipped. Names are the keys of the dictionary that holds the
 * tensors. */
#ifndef GRAIL_FORMAT_TORCH_TORCH_FILE_H
#define GRAIL_FORMAT_TORCH_TORCH_FILE_H

#include "format/tensor_file.h"
#include "format/tensor_writer.h"

/** Maps and reads a file, whose tensors come in the order of the dictionary, with names as stored
 * in the wrapper ("module.conv1.weight"); *out is owned: tensor_file_close. Messages name file and
 * tensor. */
grail_status torch_file_open(const char *path, tensor_file **out) GRAIL_MUST_CHECK;
/** Reads bytes in memory (for fuzzing and tests); `bytes` must outlive *out. */
grail_status torch_file_open_bytes(const char *name, const void *bytes, size_t size,
                                   tensor_file **out) GRAIL_MUST_CHECK;

/** Opens a writer that lays out `count` tensors at `path`, in a dictionary under `wrapper` ("" =
 * bare). No reader opens the file until it is sealed; the result loads with weights_only. *out is
 * owned: tensor_writer_close. */
grail_status torch_writer_open(const char *path, const char *wrapper, int64_t count,
                               const tensor_view tensors[], layout_start start,
                               tensor_writer **out) GRAIL_MUST_CHECK;

#endif
