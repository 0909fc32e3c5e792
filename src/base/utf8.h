/* Checks whether bytes are UTF-8. */
#ifndef GRAIL_BASE_UTF8_H
#define GRAIL_BASE_UTF8_H

#include <stddef.h>

/**
 * Offset of the first byte that does not begin a well-formed sequence (RFC 3629: no overlong forms,
 * no surrogates, at most U+10FFFF), or `size` when all bytes are UTF-8.
 */
size_t utf8_valid_prefix(const void *bytes, size_t size);

/** The length of the well-formed sequence at the start of `bytes`, or 0 when there is none. Reads
 * at most `left` bytes; left >= 1. */
size_t utf8_sequence_length(const void *bytes, size_t left);

#endif
