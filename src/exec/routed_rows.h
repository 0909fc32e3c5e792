/* The rows that a router chose for one of its outputs, on the host. */
#ifndef GRAIL_EXEC_ROUTED_ROWS_H
#define GRAIL_EXEC_ROUTED_ROWS_H

#include "backend/matrix.h"

typedef struct routed_rows {
    int64_t count;
    int64_t *rows;  /* [count] ascending */
    double *shares; /* [count], above 0 */
} routed_rows;

/** The rows of shares[rows, outputs] in which `output` has a share; none of an output that a
 * narrowed router lacks. *out is released with
 * routed_rows_fini, also after a failure. */
grail_status routed_rows_find(matrix shares, int64_t output, routed_rows *out) GRAIL_MUST_CHECK;
void routed_rows_fini(routed_rows *r); /* works on a zeroed one */

#endif
