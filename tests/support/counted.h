/* Kinds of backends that count what passes between their memory and the host's: `counted` has the
 * kernels of cpu behind memory of its own, `counted torch` those of torch:cpu. */
#ifndef GRAIL_TESTS_COUNTED_H
#define GRAIL_TESTS_COUNTED_H

#include <stdint.h>

/** Since the program began. A reading is an operation that gives numbers to the host; an upload one
 * of a matrix, or of a list of an operation. Bytes are those of matrices. */
typedef struct transfers {
    int64_t uploads, downloads, readings;
    int64_t bytes_up, bytes_down;
    int64_t calls; /* of operators of PyTorch */
} transfers;

extern transfers counted;

/** Adds the kinds, before any backend is opened. */
void counted_add(void);

#endif
