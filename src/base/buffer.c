#include "base/buffer.h"

#include <stdio.h>
#include <string.h>

enum { SMALLEST = 64 };

void buffer_init(buffer *b, size_t maximum)
{
    *b = (buffer){.maximum = maximum};
}

grail_status buffer_reserve(buffer *b, size_t extra)
{
    size_t needed = 0;
    if (!size_add(b->size, extra, &needed) || needed > b->maximum) {
        return error_set(GRAIL_ERROR_FORMAT, "more than the allowed %zu bytes", b->maximum);
    }
    if (needed < b->capacity) {
        return GRAIL_OK;
    }
    size_t capacity = b->capacity + b->capacity / 2;
    if (capacity <= needed && !size_add(needed, SMALLEST, &capacity)) {
        return error_set(GRAIL_ERROR_MEMORY, "out of memory: cannot hold %zu bytes", needed);
    }
    CHECK(memory_resize(&b->bytes, capacity, 1));
    b->capacity = capacity;
    b->bytes[b->size] = 0;
    return GRAIL_OK;
}

grail_status buffer_append(buffer *b, const void *bytes, size_t count)
{
    CHECK(buffer_reserve(b, count));
    if (count > 0) {
        memcpy(b->bytes + b->size, bytes, count);
    }
    b->size += count;
    b->bytes[b->size] = 0;
    return GRAIL_OK;
}

grail_status buffer_append_string(buffer *b, const char *text)
{
    return buffer_append(b, text, strlen(text));
}

static grail_status buffer_format_list(buffer *b, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    const grail_status status = length < 0
                                    ? error_set(GRAIL_ERROR_INTERNAL, "cannot format a string")
                                    : buffer_reserve(b, (size_t)length);
    if (status == GRAIL_OK) {
        vsnprintf((char *)b->bytes + b->size, (size_t)length + 1, format, again);
        b->size += (size_t)length;
    }
    va_end(again);
    return status;
}

grail_status buffer_format(buffer *b, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const grail_status status = buffer_format_list(b, format, arguments);
    va_end(arguments);
    return status;
}

void buffer_fini(buffer *b)
{
    memory_free(b->bytes);
    *b = (buffer){.maximum = b->maximum};
}
