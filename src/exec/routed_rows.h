/* The rows that a router chose for its outputs, as lists where the matrices are: the host has how
 * many there are, by one reading for all outputs. */
#ifndef GRAIL_EXEC_ROUTED_ROWS_H
#define GRAIL_EXEC_ROUTED_ROWS_H

#include "backend/matrix.h"

/** Those of all outputs; owned. Without `begin` nothing is listed. */
typedef struct routed_lists {
    matrix rows, shares; /* [1, all] output after output */
    double *begin;       /* [outputs + 1] where those of each output begin, and the end */
    int64_t outputs;
} routed_lists;

/** Those of one output; borrowed. */
typedef struct routed_rows {
    int64_t count;
    matrix rows;   /* [1, count] ascending */
    matrix shares; /* [1, count], above 0 */
} routed_rows;

/** Lists the rows in which each output of shares[rows, outputs] has a share. *out is released with
 * routed_lists_fini, also after a failure. */
grail_status routed_lists_make(matrix shares, routed_lists *out) GRAIL_MUST_CHECK;
/** A copy; likewise. */
grail_status routed_lists_copy(const routed_lists *l, routed_lists *out) GRAIL_MUST_CHECK;
void routed_lists_fini(routed_lists *l); /* works on a zeroed one, and leaves one */

/** None for an output that a narrowed router lacks. */
routed_rows routed_rows_of(const routed_lists *l, int64_t output);

#endif
