/* The backend "guarded": cpu, on memory that only the instance may touch.
 *
 * Its matrices lie in pages that cannot be read or written except while one of its operations,
 * uploads or downloads runs, so host code that follows a matrix's address crashes, as does a kernel
 * that runs past the end of a matrix. What matrix_new leaves unset is NaN. Results have the bits of
 * cpu. Some operations are left out, so that they are done on the host. It wants 300 rows at a
 * time, or as many as guarded_want says. */
#ifndef GRAIL_TESTS_GUARDED_H
#define GRAIL_TESTS_GUARDED_H

#include <stddef.h>
#include <stdint.h>

/** Adds the backend to those that backend_open finds; later calls do nothing. */
void guarded_add(void);
/** The most bytes that matrices may have together from now on: what passes it is
 * GRAIL_ERROR_MEMORY, as on a device that is full. 0: any number. Gives the most that they had
 * since the last call. */
size_t guarded_limit(size_t bytes);

/** Rows that are worth a call from now on, 0: as many as cpu takes, whose sums have their order. */
void guarded_want(int64_t rows);

#endif
