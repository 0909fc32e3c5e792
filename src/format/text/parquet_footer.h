/* What the end of a Parquet file says of one column. */
#ifndef GRAIL_FORMAT_TEXT_PARQUET_FOOTER_H
#define GRAIL_FORMAT_TEXT_PARQUET_FOOTER_H

#include "format/text/parquet_codec.h"

/** The pages of the column in one group of rows; they lie inside the file. */
typedef struct parquet_chunk {
    size_t begin, size;
    int64_t values; /* with those that are missing */
    parquet_codec codec;
} parquet_chunk;

typedef struct parquet_column {
    bool optional;         /* a row may lack a value */
    parquet_chunk *chunks; /* [count], owned */
    int64_t count;
} parquet_column;

/** memory_free(out->chunks), even after a failure. */
grail_status parquet_footer_read(const unsigned char *bytes, size_t size, const char *column,
                                 parquet_column *out) GRAIL_MUST_CHECK;

#endif
