/* Any bytes as a pickle. An accepted pickle must be a finite tree of bounded depth. Its texts lie
 * in the input or in the pickle's own memory, and every lookup in it ends. */
#include "fuzz.h"

#include "format/torch/pickle.h"

#include <string.h>

enum { DEEPEST = 200, MOST_STEPS = 1 << 16 };

static size_t sum_bytes(const char *bytes, size_t size)
{
    size_t sum = 0;
    for (size_t i = 0; i < size; i++) {
        sum += (unsigned char)bytes[i];
    }
    return sum;
}

static void check_array(const pickle_value *value)
{
    pickle_array array = {0};
    if (pickle_read_array(value, &array) == GRAIL_OK) {
        fuzz_require(array.rank >= 0 && array.rank <= PICKLE_ARRAY_MOST_RANK);
        fuzz_require(sum_bytes((const char *)array.data, array.bytes) <= 255 * array.bytes);
    }
}

/* Values may be shared any number of times, so the walk stops after some steps. */
static void walk(const pickle_value *value, int depth, int64_t *steps)
{
    pickle_span span = {0};
    fuzz_require(depth <= DEEPEST);
    if (value == NULL || ++*steps > MOST_STEPS) {
        return;
    }
    fuzz_require(strlen(pickle_kind_text(value)) > 0);
    if (pickle_text(value, &span)) {
        fuzz_require(sum_bytes(span.data, span.size) <= 255 * span.size);
    }
    if (value->kind == PICKLE_CALL) {
        check_array(value);
        walk(value->call.arguments, depth + 1, steps);
        walk(value->call.state, depth + 1, steps);
    }
    for (int64_t i = 0; i < pickle_count(value); i++) {
        walk(pickle_key(value, i), depth + 1, steps);
        walk(pickle_item(value, i), depth + 1, steps);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pickle *p = NULL;
    int64_t steps = 0;
    if (pickle_read(data, size, &p) != GRAIL_OK) {
        return 0;
    }
    walk(pickle_root(p), 1, &steps);
    (void)pickle_find(pickle_root(p), "data");
    pickle_close(p);
    return 0;
}
