/* Arrays of numbers that are kept under keys for whoever would compute them again, within a bound:
 * where there are too many, those that came first go. */
#ifndef GRAIL_BASE_KEPT_NUMBERS_H
#define GRAIL_BASE_KEPT_NUMBERS_H

#include "base/hash.h"
#include "base/memory.h"

enum { KEPT_NUMBERS_BYTES = 64 << 20 };

typedef struct kept_array {
    char key[HASH_TEXT_SIZE];
    double *numbers; /* [count], owned */
    size_t count;
} kept_array;

typedef struct kept_numbers {
    kept_array *arrays; /* [count], those that came first before the others */
    size_t count;
    size_t bytes; /* of all, at most KEPT_NUMBERS_BYTES */
} kept_numbers;

/** The numbers under a key, if there are so many; NULL otherwise. They are borrowed until others
 * are added. */
const double *kept_numbers_find(const kept_numbers *k, const char *key, size_t count);

/** Keeps a copy under a key (the hash of what the numbers follow from) that has none yet. Numbers
 * that alone are beyond the bound are not kept. A failure changes nothing. */
grail_status kept_numbers_add(kept_numbers *k, const char *key, const double *numbers,
                              size_t count) GRAIL_MUST_CHECK;

void kept_numbers_fini(kept_numbers *k); /* works on a zeroed one */

#endif
