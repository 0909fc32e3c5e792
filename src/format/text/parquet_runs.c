#include "format/text/parquet_runs.h"

#include "base/bytes.h"

parquet_runs parquet_runs_of(const unsigned char *bytes, size_t size, int width)
{
    return (parquet_runs){.reader = {.at = bytes, .end = bytes + size}, .width = width};
}

/* Eight numbers of `width` bits take as many bytes. */
static bool begin_packed(parquet_runs *runs, uint64_t groups)
{
    thrift_reader *r = &runs->reader;
    const uint64_t room = (uint64_t)(r->end - r->at);
    if (runs->width > 0 && groups > room / (uint64_t)runs->width) {
        return false;
    }
    runs->packed = true;
    runs->packed_at = r->at;
    runs->bit = 0;
    runs->left = groups * 8;
    r->at += groups * (uint64_t)runs->width;
    return true;
}

static bool begin_equal(parquet_runs *runs, uint64_t count)
{
    thrift_reader *r = &runs->reader;
    const size_t bytes = ((size_t)runs->width + 7) / 8;
    if ((size_t)(r->end - r->at) < bytes) {
        return false;
    }
    runs->packed = false;
    runs->value = (uint32_t)load_little(r->at, bytes);
    runs->left = count;
    r->at += bytes;
    return true;
}

static bool begin_run(parquet_runs *runs)
{
    const uint64_t head = thrift_varint(&runs->reader);
    if (runs->reader.failed || head >> 1 == 0 || head >> 1 > INT32_MAX) {
        return false;
    }
    return (head & 1) != 0 ? begin_packed(runs, head >> 1) : begin_equal(runs, head >> 1);
}

static uint32_t next_packed(parquet_runs *runs)
{
    uint32_t value = 0;
    for (int i = 0; i < runs->width; i++, runs->bit++) {
        const unsigned byte = runs->packed_at[runs->bit / 8];
        const uint32_t bit = byte >> (runs->bit % 8) & 1U;
        value |= bit << i;
    }
    return value;
}

bool parquet_runs_next(parquet_runs *runs, uint32_t *out)
{
    if (runs->left == 0 && !begin_run(runs)) {
        return false;
    }
    runs->left--;
    *out = runs->packed ? next_packed(runs) : runs->value;
    return true;
}
