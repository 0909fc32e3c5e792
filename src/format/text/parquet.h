/* A text column of a Parquet file: a flat column of byte arrays, required or optional, in pages
 * that are plain or use a dictionary, uncompressed or compressed by snappy, zstd or gzip.
 * Everything else is refused by name. Source: apache/parquet-format, README.md, Encodings.md,
 * parquet.thrift. */
#ifndef GRAIL_FORMAT_TEXT_PARQUET_H
#define GRAIL_FORMAT_TEXT_PARQUET_H

#include "base/memory.h"

typedef struct parquet parquet;

/** Reads the description of a file in memory, which must outlive *out, and finds the column.
 * Messages do not name the file. *out is owned: parquet_close. */
grail_status parquet_open(const unsigned char *bytes, size_t size, const char *column,
                          parquet **out) GRAIL_MUST_CHECK;
void parquet_close(parquet *p); /* NULL is allowed */

/** The next value, valid until the next call, any bytes; rows without one are left out. *found is
 * false at the end. */
grail_status parquet_next(parquet *p, const char **text, size_t *size,
                          bool *found) GRAIL_MUST_CHECK;

/** How many bytes of the file the values so far needed. */
size_t parquet_read(const parquet *p);

#endif
