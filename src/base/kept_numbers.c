#include "base/kept_numbers.h"

#include <stdio.h>
#include <string.h>

/* What an array takes; false where it is beyond the bound alone. */
static bool measure(size_t count, size_t *bytes)
{
    return size_multiply(count, sizeof(double), bytes) &&
           size_add(*bytes, sizeof(kept_array), bytes) && *bytes <= KEPT_NUMBERS_BYTES;
}

const double *kept_numbers_find(const kept_numbers *k, const char *key, size_t count)
{
    for (size_t i = 0; i < k->count; i++) {
        if (k->arrays[i].count == count && strcmp(k->arrays[i].key, key) == 0) {
            return k->arrays[i].numbers;
        }
    }
    return NULL;
}

grail_status kept_numbers_add(kept_numbers *k, const char *key, const double *numbers, size_t count)
{
    size_t bytes = 0;
    double *copy = NULL;
    if (!measure(count, &bytes)) {
        return GRAIL_OK;
    }
    CHECK(memory_reserve(&k->arrays, k->count + 1, sizeof k->arrays[0]));
    CHECK(memory_new_unset(&copy, count, sizeof copy[0]));
    memcpy(copy, numbers, count * sizeof copy[0]);
    /* Makes room for so many bytes more. */
    size_t gone = 0;
    while (k->bytes + bytes > KEPT_NUMBERS_BYTES) {
        size_t freed = 0;
        (void)measure(k->arrays[gone].count, &freed);
        memory_free(k->arrays[gone].numbers);
        k->bytes -= freed;
        gone++;
    }
    if (gone > 0) {
        k->count -= gone;
        memmove(k->arrays, k->arrays + gone, k->count * sizeof k->arrays[0]);
    }
    kept_array *added = &k->arrays[k->count++];
    snprintf(added->key, sizeof added->key, "%s", key);
    added->numbers = copy;
    added->count = count;
    k->bytes += bytes;
    return GRAIL_OK;
}

void kept_numbers_fini(kept_numbers *k)
{
    for (size_t i = 0; i < k->count; i++) {
        memory_free(k->arrays[i].numbers);
    }
    memory_free(k->arrays);
    *k = (kept_numbers){0};
}
