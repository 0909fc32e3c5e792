/* SHA-256 (libmd) of bytes and files, as hexadecimal text. */
#ifndef GRAIL_BASE_HASH_H
#define GRAIL_BASE_HASH_H

#include "base/status.h"

#include <stddef.h>

enum { HASH_TEXT_SIZE = 65 };

void hash_bytes(const void *bytes, size_t size, char out[HASH_TEXT_SIZE]);
grail_status hash_file(const char *path, char out[HASH_TEXT_SIZE]) GRAIL_MUST_CHECK;

#endif
