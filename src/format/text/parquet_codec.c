#include "format/text/parquet_codec.h"

#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

static const char *const names[] = {"nothing", "snappy", "gzip", "LZO",
                                    "brotli",  "LZ4",    "zstd", "LZ4"};

grail_status parquet_codec_check(int64_t number)
{
    const bool known = number >= 0 && number < (int64_t)(sizeof names / sizeof names[0]);
    if (number == PARQUET_UNCOMPRESSED || number == PARQUET_SNAPPY || number == PARQUET_GZIP ||
        number == PARQUET_ZSTD) {
        return GRAIL_OK;
    }
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "is compressed by %s; write it again uncompressed, or with snappy, zstd or "
                     "gzip",
                     known ? names[number] : "an unknown method");
}

static grail_status no_memory(void)
{
    return error_set(GRAIL_ERROR_MEMORY, "no memory to decompress a page");
}

/* Whether the bytes are sound and fill `out`. */
static grail_status expand_gzip(const unsigned char *bytes, size_t size, unsigned char *out,
                                size_t out_size, bool *sound)
{
    enum { GZIP_OR_ZLIB = 32 };
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)bytes,
                  .avail_in = (unsigned)size,
                  .next_out = out,
                  .avail_out = (unsigned)out_size};
    if (inflateInit2(&z, MAX_WBITS + GZIP_OR_ZLIB) != Z_OK) {
        return no_memory();
    }
    const int code = inflate(&z, Z_FINISH);
    *sound = code == Z_STREAM_END && z.total_out == out_size;
    (void)inflateEnd(&z);
    return code == Z_MEM_ERROR ? no_memory() : GRAIL_OK;
}

static grail_status expand_zstd(const unsigned char *bytes, size_t size, unsigned char *out,
                                size_t out_size, bool *sound)
{
    const size_t made = ZSTD_decompress(out, out_size, bytes, size);
    *sound = ZSTD_isError(made) == 0 && made == out_size;
    return ZSTD_getErrorCode(made) == ZSTD_error_memory_allocation ? no_memory() : GRAIL_OK;
}

static bool expand_snappy(const unsigned char *bytes, size_t size, unsigned char *out,
                          size_t out_size)
{
    size_t made = out_size;
    return snappy_uncompress((const char *)bytes, size, (char *)out, &made) == SNAPPY_OK &&
           made == out_size;
}

grail_status parquet_codec_expand(parquet_codec codec, const unsigned char *bytes, size_t size,
                                  unsigned char *out, size_t out_size)
{
    bool sound = false;
    if (codec == PARQUET_SNAPPY) {
        sound = expand_snappy(bytes, size, out, out_size);
    } else if (codec == PARQUET_ZSTD) {
        CHECK(expand_zstd(bytes, size, out, out_size, &sound));
    } else {
        CHECK(expand_gzip(bytes, size, out, out_size, &sound));
    }
    return sound ? GRAIL_OK
                 : error_set(GRAIL_ERROR_FORMAT,
                             "its %s data are damaged, or do not expand to the %zu bytes that it "
                             "states",
                             names[codec], out_size);
}
