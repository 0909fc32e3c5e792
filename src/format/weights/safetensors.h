/* safetensors files: mapped files are read strictly; tensors are written at offsets that are known
 * in advance.
 *
 * Layout (huggingface/safetensors README): u64 little-endian header length N, N bytes of JSON
 * {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ..., "__metadata__": {str: str}},
 * then the data; offsets are relative to the end of the header. The data is covered without holes,
 * overlaps or trailing bytes. */
#ifndef GRAIL_FORMAT_WEIGHTS_SAFETENSORS_H
#define GRAIL_FORMAT_WEIGHTS_SAFETENSORS_H

#include "base/file.h"
#include "format/tensor_writer.h"
#include "format/weights/weights_limits.h"
#include "tensor/tensor.h"

typedef struct safetensors safetensors;

/** Maps and validates a file; *out is owned: safetensors_close. Messages name file and tensor. */
grail_status safetensors_open(const char *path, safetensors **out) GRAIL_MUST_CHECK;

/** Validates bytes in memory (for fuzzing and tests); `bytes` must outlive *out. */
grail_status safetensors_open_bytes(const char *name, const void *bytes, size_t size,
                                    safetensors **out) GRAIL_MUST_CHECK;
void safetensors_close(safetensors *file); /* NULL is allowed */

/** The identity of the file when it was opened; zero for bytes in memory. */
file_identity safetensors_identity(const safetensors *file);

int64_t safetensors_count(const safetensors *file);
/** i-th tensor in the order of the data; borrowed until close. */
const tensor_view *safetensors_at(const safetensors *file, int64_t i);
/** NULL when there is none of that name. */
const tensor_view *safetensors_find(const safetensors *file, const char *name);
/** Tells the system that a tensor's pages are not needed for now. */
void safetensors_release(const safetensors *file, const tensor_view *tensor);

/**
 * Opens a writer that lays out `count` tensors (name, dtype, rank, shape are read; data is ignored)
 * at `path`: sorted by dtype as the reference writer does (largest alignment first), then by name,
 * metadata
 * {"format": "pt"}. No reader opens the file until it is sealed. *out is owned:
 * tensor_writer_close.
 */
grail_status safetensors_writer_open(const char *path, int64_t count, const tensor_view tensors[],
                                     layout_start start, tensor_writer **out) GRAIL_MUST_CHECK;

/** Writes the file `path` with these tensors and their data. The file appears when it is complete;
 * `replaces` is as in output_file_open. */
grail_status safetensors_write_file(const char *path, bool replaces, int64_t count,
                                    const tensor_view tensors[]) GRAIL_MUST_CHECK;

#endif
