/* Decompressing snappy, as Parquet files use it: without frames. Source: google/snappy,
 * format_description.txt. */
#ifndef GRAIL_FORMAT_TEXT_SNAPPY_H
#define GRAIL_FORMAT_TEXT_SNAPPY_H

#include "base/status.h"

#include <stddef.h>

/** out[out_size] <- the bytes; GRAIL_ERROR_FORMAT unless they are exactly as many. */
grail_status snappy_decompress(const unsigned char *bytes, size_t size, unsigned char *out,
                               size_t out_size) GRAIL_MUST_CHECK;

#endif
