/* Writing GGUF files of version 3: keys and values are collected, then a file is laid out with them
 * and its tensors, which are written one by one (format/tensor_writer.h). */
#ifndef GRAIL_FORMAT_GGUF_GGUF_WRITE_H
#define GRAIL_FORMAT_GGUF_GGUF_WRITE_H

#include "base/buffer.h"
#include "format/gguf/gguf.h"
#include "format/tensor_writer.h"

/** Keys and values as they are stored. */
typedef struct gguf_pairs {
    buffer bytes;
    uint64_t count;
    size_t alignment; /* of the tensors */
} gguf_pairs;

void gguf_pairs_init(gguf_pairs *pairs);
void gguf_pairs_fini(gguf_pairs *pairs); /* works on a zeroed one */

/* A key must be new. */
grail_status gguf_put_integer(gguf_pairs *pairs, const char *key, gguf_type type,
                              int64_t value) GRAIL_MUST_CHECK;
grail_status gguf_put_real(gguf_pairs *pairs, const char *key, double value) GRAIL_MUST_CHECK;
grail_status gguf_put_boolean(gguf_pairs *pairs, const char *key, bool value) GRAIL_MUST_CHECK;
grail_status gguf_put_text(gguf_pairs *pairs, const char *key, const char *text) GRAIL_MUST_CHECK;
/** The caller appends `count` elements. */
grail_status gguf_put_array(gguf_pairs *pairs, const char *key, gguf_type type,
                            uint64_t count) GRAIL_MUST_CHECK;
grail_status gguf_append_integer(gguf_pairs *pairs, gguf_type type, int64_t value) GRAIL_MUST_CHECK;
grail_status gguf_append_real(gguf_pairs *pairs, double value) GRAIL_MUST_CHECK;
grail_status gguf_append_text(gguf_pairs *pairs, const char *bytes, size_t size) GRAIL_MUST_CHECK;
/** Copies a value of a file under this key. The alignment is that of what is written, so the key
 * that states it sets it. */
grail_status gguf_put_value(gguf_pairs *pairs, const char *key,
                            const gguf_value *value) GRAIL_MUST_CHECK;

/** Opens a writer that lays out these keys and `count` tensors (name, dtype, rank, shape are read)
 * at `path`. The first word is the seal. *out is owned: tensor_writer_close. */
grail_status gguf_writer_open(const char *path, const gguf_pairs *pairs, int64_t count,
                              const tensor_view tensors[], layout_start start,
                              tensor_writer **out) GRAIL_MUST_CHECK;

#endif
