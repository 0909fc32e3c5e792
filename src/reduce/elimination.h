/* Elimination of units, one after another, from pairs of symmetric matrices A and M of order
 * H = n u (docs/numerics.md, Elimination):
 *
 *   value of unit g       tr(A_gg^-1 M_gg), summed over the pairs
 *   its elimination       D = A_gg^-1 A_g:,   A <- A - A_g:^T D,   M <- M - D^T V - V^T D,
 *                         V = M_g: - M_gg D / 2
 *
 * With A = (G + lambda I)^-1 and M = W^T W the value is the cost of removing the unit with the best
 * repair of the others (OBS; Kurtic et al., arXiv 2302.04089): elimination leaves the inverse and
 * the repaired weights of the units that remain. With A = G and M = G V G it is the gain of keeping
 * the unit (greedy column subset selection): elimination leaves what the kept ones do not explain.
 *
 * Updates are gathered in panels, so that nearly all work is products of matrices. Units are
 * valued, chosen and eliminated where the matrices are: which ones they were, and whether all went
 * well, is seen when the elimination is settled, so that a device is not waited for with every
 * unit. */
#ifndef GRAIL_REDUCE_ELIMINATION_H
#define GRAIL_REDUCE_ELIMINATION_H

#include "backend/operations.h"

typedef struct elimination elimination;

/** An elimination among `units` units of `pairs` pairs of matrices, which elimination_add gives.
 * *out is owned:
 * elimination_free. */
grail_status elimination_create(int64_t units, int pairs, elimination **out) GRAIL_MUST_CHECK;
void elimination_free(elimination *e); /* NULL is allowed */

/** Takes over A[H, H] and M[H, H] of one instance, of which the lower triangles are read; *a and *m
 * are left empty in any case. `jitter` is added to the diagonal of A_gg wherever it is inverted.
 * With `can_be_spent`, a unit of which others have left so little that A_gg is not positive
 * definite is worth 0, and its elimination changes nothing; before any unit is eliminated it is an
 * error. */
grail_status elimination_add(elimination *e, unit_value kind, double jitter, bool can_be_spent,
                             matrix *a, matrix *m) GRAIL_MUST_CHECK;

/** Values all units that are left, by which elimination_take chooses from now on. */
grail_status elimination_value(elimination *e) GRAIL_MUST_CHECK;

/** Eliminates the unit of the least value, or with `largest` of the largest, the first of several,
 * of those that are left and allowed. */
grail_status elimination_take(elimination *e, bool largest) GRAIL_MUST_CHECK;

/** Whether elimination_settle is due before more is valued or taken. */
bool elimination_is_full(const elimination *e);

/** units[.] that were taken since the last call, in their order, and the values[.] at which they
 * were; as many as elimination_take was called. GRAIL_ERROR_NUMERIC names a unit whose value was
 * not finite, or with A_gg that is not positive definite, unless units can be spent. */
grail_status elimination_settle(elimination *e, int64_t *units, double *values) GRAIL_MUST_CHECK;

/** values[n] of the units that are left, 0 for others, with errors as elimination_settle, which
 * must have been called since the last elimination. */
grail_status elimination_values(elimination *e, double *values) GRAIL_MUST_CHECK;

/** Only units with allowed[unit] are taken from now on; NULL: all. What has been taken is settled.
 */
grail_status elimination_allow(elimination *e, const bool *allowed) GRAIL_MUST_CHECK;

#endif
