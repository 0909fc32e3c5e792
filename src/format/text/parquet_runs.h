/* Runs of small numbers, of equal ones or packed into bits, in which Parquet stores levels and
 * indices. Source: apache/parquet-format, Encodings.md (RLE). */
#ifndef GRAIL_FORMAT_TEXT_PARQUET_RUNS_H
#define GRAIL_FORMAT_TEXT_PARQUET_RUNS_H

#include "format/text/thrift_compact.h"

typedef struct parquet_runs {
    thrift_reader reader;
    int width;     /* bits of a number, 0 to 32 */
    uint64_t left; /* numbers of this run */
    bool packed;
    uint32_t value;                 /* of a run of equal numbers */
    const unsigned char *packed_at; /* of a run of packed ones */
    uint64_t bit;                   /* place of the next one there */
} parquet_runs;

parquet_runs parquet_runs_of(const unsigned char *bytes, size_t size, int width);
/** The next number; false where the bytes do not have it. */
bool parquet_runs_next(parquet_runs *runs, uint32_t *out);

#endif
