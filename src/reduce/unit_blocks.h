/* The diagonal blocks of the units in the matrices A and M of an elimination, on the host, and the
 * values that follow from them (elimination.h). */
#ifndef GRAIL_REDUCE_UNIT_BLOCKS_H
#define GRAIL_REDUCE_UNIT_BLOCKS_H

#include "reduce/elimination.h"

typedef struct unit_blocks {
    int64_t features; /* u */
    unit_value kind;
    double jitter;   /* added to the diagonal of A_gg */
    double *a, *m;   /* [units, u, u] */
    double *scratch; /* [units, u + 1, u] */
} unit_blocks;

/** Unset blocks; unit_blocks_fini frees, even after a failure. */
grail_status unit_blocks_init(int64_t units, int64_t features, unit_value kind, double jitter,
                              unit_blocks *out) GRAIL_MUST_CHECK;
void unit_blocks_fini(unit_blocks *b); /* works on a zeroed one */

/** Those of the first `count` units, from the lower triangles of A and M. */
grail_status unit_blocks_read(matrix a, matrix m, int64_t count, unit_blocks *b) GRAIL_MUST_CHECK;

/** Subtracts u pairs of rows pairs[2 u, count u], U and V in turn: A_gg -= U_g^T U_g,
 * M_gg -= U_g^T V_g + V_g^T U_g. */
void unit_blocks_subtract(int64_t count, const double *pairs, unit_blocks *b);

/** values[count], negative only where A_gg is not positive definite. */
void unit_blocks_values(const unit_blocks *b, int64_t count, double *values);

/** T[u, u] = L^-1 with A_gg + jitter I = L L^T, and zeros above the diagonal; false where it is not
 * positive definite. */
bool unit_blocks_factor(const unit_blocks *b, int64_t unit, double *t);

#endif
