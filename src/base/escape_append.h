/* Escaped text in buffers. Apart from escape.h, which messages of errors need before there is
 * memory. */
#ifndef GRAIL_BASE_ESCAPE_APPEND_H
#define GRAIL_BASE_ESCAPE_APPEND_H

#include "base/buffer.h"

#include <grail/escape.h>

/** Appends `size` bytes of text; with the same result as grail_escape. */
grail_status escape_append(grail_escape_use use, const void *text, size_t size,
                           buffer *out) GRAIL_MUST_CHECK;

#endif
