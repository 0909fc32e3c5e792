/* Torch checkpoints by hand, for tests: pickles as torch writes them, but with any number in any
 * place, and zip archives around them. */
#ifndef GRAIL_TESTS_TORCH_BYTES_H
#define GRAIL_TESTS_TORCH_BYTES_H

#include "base/buffer.h"

/** A literal and its size, for buffer_append. */
#define BYTES(text) (text), sizeof(text) - 1

enum { TORCH_BYTES_MOST_RANK = 9 };

/* The description of a tensor in a pickle; members left 0 or NULL take the values in the
 * comments. */
typedef struct torch_tensor_bytes {
    const char *name;
    const char *function; /* "_rebuild_tensor_v2" of torch._utils */
    const char *class;    /* "FloatStorage" of torch */
    const char *key;      /* "0" */
    const char *dtype;    /* of torch; for _rebuild_tensor_v3 */
    int64_t elements;
    int64_t offset;
    int rank;
    int strides; /* as many as the rank */
    int64_t shape[TORCH_BYTES_MOST_RANK];
    int64_t stride[TORCH_BYTES_MOST_RANK];
} torch_tensor_bytes;

void torch_bytes_text(buffer *out, const char *text);
void torch_bytes_integer(buffer *out, int64_t value);
/** Appends the value alone, or a key and value of a dictionary. */
void torch_bytes_tensor(buffer *out, const torch_tensor_bytes *tensor);
void torch_bytes_item(buffer *out, const torch_tensor_bytes *tensor);
/** A pickle of a dictionary. */
void torch_bytes_dict(buffer *out, int count, const torch_tensor_bytes tensors[]);

/** A file of `members`, which are stored. Owned: memory_free. */
typedef struct torch_member {
    const char *name;
    const void *data;
    size_t size;
} torch_member;

void torch_bytes_zip(int count, const torch_member members[], buffer *out);

#endif
