/* safetensors files: mapped files are read strictly; tensors are written at offsets that are known
 * in advance.
 *
 * Layout (huggingface/safetensors README): u64 little-endian header length N, N bytes of JSON
 * {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ..., "__metadata__": {str: str}},
 * then the data; offsets are relative to the end of the header. The data is covered without holes,
 * overlaps or trailing bytes. */
#ifndef GRAIL_FORMAT_WEIGHTS_SAFETENSORS_H
#define GRAIL_FORMAT_WEIGHTS_SAFETENSORS_H

#include "format/tensor_file.h"
#include "format/tensor_writer.h"

/** Maps and validates a file, whose tensors come in the order of the data; *out is owned:
 * tensor_file_close. Messages name file and tensor. */
grail_status safetensors_open(const char *path, tensor_file **out) GRAIL_MUST_CHECK;

/** Validates bytes in memory (for fuzzing and tests); `bytes` must outlive *out. */
grail_status safetensors_open_bytes(const char *name, const void *bytes, size_t size,
                                    tensor_file **out) GRAIL_MUST_CHECK;
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

/* Limits for weights files, in addition to those for every JSON text (base/json.h) and every
 * file of tensors (format/tensor_limits.h). The table in docs/formats.md lists them. */

enum {
    /* A limit of the reference reader, which this reader enforces and the writer keeps. */
    SAFETENSORS_LARGEST_HEADER = 100000000,
    SAFETENSORS_DEEPEST = 3, /* header, entry, shape */
    CHECKPOINT_LARGEST_INDEX = 100000000
};

#endif
