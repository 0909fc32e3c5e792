/* A byte buffer that grows up to a stated maximum. */
#ifndef GRAIL_BASE_BUFFER_H
#define GRAIL_BASE_BUFFER_H

#include "base/memory.h"

#include <stdarg.h>

typedef struct buffer {
    unsigned char *bytes; /* owned; NUL-terminated beyond `size` once anything was added */
    size_t size;
    size_t capacity;
    size_t maximum;
} buffer;

/** An empty buffer; exceeding `maximum` bytes is GRAIL_ERROR_FORMAT. Nothing is allocated yet. */
void buffer_init(buffer *b, size_t maximum);

/** Makes room for `extra` more bytes without changing the size. */
grail_status buffer_reserve(buffer *b, size_t extra) GRAIL_MUST_CHECK;

grail_status buffer_append(buffer *b, const void *bytes, size_t count) GRAIL_MUST_CHECK;
grail_status buffer_append_string(buffer *b, const char *text) GRAIL_MUST_CHECK;
grail_status buffer_format(buffer *b, const char *format, ...) GRAIL_PRINTF(2, 3) GRAIL_MUST_CHECK;

/** Frees the bytes and leaves an empty buffer; works on a zeroed one. */
void buffer_fini(buffer *b);

#endif
