/* Z = X M: how the features of n units become those of K.
 *
 * A selection keeps features, M = I[:, P]. A folding takes means: M[j u + f, k u + f] = 1 / n_k for
 * the n_k members j of cluster k. What is summed over rows is projected as the rows are:
 *
 *   z = x M      s_Z = s M      C_Z = C M      A = M^T G M */
#ifndef GRAIL_ALGEBRA_PROJECTION_H
#define GRAIL_ALGEBRA_PROJECTION_H

#include "stats/statistics.h"

typedef struct projection {
    int64_t units, features; /* n, u */
    int64_t width;           /* K u */
    const int64_t *labels;   /* [n] place among the K; below 0: removed. Borrowed */
    double *shares;          /* [K] 1 / n_k; NULL: a selection */
    int64_t *kept, *removed; /* features of X that a selection keeps and those that it does not,
                                ascending */
    int64_t removed_count;
} projection;

/** `members` [kept] n_k for a folding, NULL for a selection. projection_fini frees. */
grail_status projection_init(int64_t units, int64_t features, int64_t kept, const int64_t *labels,
                             const int64_t *members, projection *out) GRAIL_MUST_CHECK;
void projection_fini(projection *p); /* works on a zeroed one */

/** OUT[., K u] = IN[., n u] M; both of one type. */
grail_status project(const projection *p, matrix in, matrix out) GRAIL_MUST_CHECK;

/** The sums over X become those over Z, those of a target included. The Gram matrix is read and
 * left in both triangles. A selection stays in the memory of the sums. */
grail_status project_statistics(const projection *p, grail_statistics *s) GRAIL_MUST_CHECK;

#endif
