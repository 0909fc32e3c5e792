/* Elimination of units, one after another, from a pair of symmetric matrices A and M of order
 * H = n u (docs/numerics.md, Elimination):
 *
 *   value of unit g       tr(A_gg^-1 M_gg)
 *   its elimination       D = A_gg^-1 A_g:,   A <- A - A_g:^T D,   M <- M - D^T V - V^T D,
 *                         V = M_g: - M_gg D / 2
 *
 * With A = (G + lambda I)^-1 and M = W^T W the value is the cost of removing the unit with the best
 * repair of the others (OBS; Kurtic et al., arXiv 2302.04089): elimination leaves the inverse and
 * the repaired weights of the units that remain. With A = G and M = G V G it is the gain of keeping
 * the unit (greedy column subset selection): elimination leaves what the kept ones do not explain.
 *
 * Updates are gathered in panels, so that nearly all work is products of matrices. */
#ifndef GRAIL_REDUCE_ELIMINATION_H
#define GRAIL_REDUCE_ELIMINATION_H

#include "backend/operations.h"

/** What is taken as the value of a unit; the elimination is the same. */
typedef enum unit_value {
    VALUE_EXACT,   /* tr(A_gg^-1 M_gg) */
    VALUE_CHOLESKY /* sum_j M_jj / L_jj^2 with A_gg = L L^T */
} unit_value;

typedef struct elimination elimination;

/** Takes over A[H, H] and M[H, H] of one instance, of which the lower triangles are read; *a and *m
 * are left empty in any case. `jitter` is added to the diagonal of A_gg wherever it is inverted.
 * With `can_be_spent`, a unit of which others have left so little that A_gg is not positive
 * definite is worth 0, and its elimination changes nothing; before any unit is eliminated it is an
 * error. *out is owned: elimination_free. */
grail_status elimination_create(int64_t units, unit_value kind, double jitter, bool can_be_spent,
                                matrix *a, matrix *m, elimination **out) GRAIL_MUST_CHECK;
void elimination_free(elimination *e); /* NULL is allowed */

/** values[n] += the value of each unit that is not eliminated; 0 where rounding made it negative.
 * GRAIL_ERROR_NUMERIC where A_gg is not positive definite, unless units can be spent. */
grail_status elimination_add_values(elimination *e, double *values) GRAIL_MUST_CHECK;

/** Eliminates a unit that was not eliminated before. */
grail_status elimination_take(elimination *e, int64_t unit) GRAIL_MUST_CHECK;

#endif
