/* Pages of Parquet files as they are stored: their compression, by the libraries of each method. */
#ifndef GRAIL_FORMAT_TEXT_PARQUET_CODEC_H
#define GRAIL_FORMAT_TEXT_PARQUET_CODEC_H

#include "base/memory.h"

/** The numbers are the format's (apache/parquet-format, parquet.thrift). */
typedef enum parquet_codec {
    PARQUET_UNCOMPRESSED = 0,
    PARQUET_SNAPPY = 1,
    PARQUET_GZIP = 2,
    PARQUET_ZSTD = 6
} parquet_codec;

/** Whether a page that is stored with this number can be decompressed; if not, the error says so.
 */
grail_status parquet_codec_check(int64_t number) GRAIL_MUST_CHECK;

/** Decompresses `size` bytes, by any codec but PARQUET_UNCOMPRESSED, to exactly `out_size` bytes.
 */
grail_status parquet_codec_expand(parquet_codec codec, const unsigned char *bytes, size_t size,
                                  unsigned char *out, size_t out_size) GRAIL_MUST_CHECK;

#endif
