/* Any bytes as a Parquet file with a column "text". The texts of an accepted file lie in memory
 * that can be read. */
#include "fuzz.h"

#include "format/text/parquet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MOST_TEXTS = 10000 };
    parquet *p = NULL;
    const char *text = NULL;
    size_t length = 0;
    size_t last = 0;
    bool found = true;
    unsigned sum = 0;
    if (parquet_open(data, size, "text", &p) != GRAIL_OK) {
        return 0;
    }
    for (int i = 0; i < MOST_TEXTS && found; i++) {
        if (parquet_next(p, &text, &length, &found) != GRAIL_OK) {
            break;
        }
        for (size_t k = 0; found && k < length; k += 1 + length / 64) {
            sum += (unsigned char)text[k];
        }
        fuzz_require(parquet_read(p) >= last);
        last = parquet_read(p);
    }
    fuzz_require(sum < UINT32_MAX);
    parquet_close(p);
    return 0;
}
