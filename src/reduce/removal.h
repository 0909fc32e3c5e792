/* The elimination from a site's consumers, and the loop that takes unit after unit. */
#ifndef GRAIL_REDUCE_REMOVAL_H
#define GRAIL_REDUCE_REMOVAL_H

#include "reduce/elimination.h"
#include "reduce/reducer.h"
#include "reduce/site_view.h"

/** The update of the methods that remove units by what this costs when the others are refitted
 * (SlimGPT, ZipLM): W' = W H[:,P] H[P,P]^-1 with H = G + 0.01 mean(diag G) I of all features. */
extern const struct compensation removal_update;

/** The elimination from all consumers whose statistics the view has; the value of a unit is the sum
 * over them. */
typedef struct removal {
    elimination *elimination; /* owned */
    int64_t units;
    bool *taken; /* [n] */
} removal;

void removal_fini(removal *r); /* works on a zeroed one */

typedef struct removal_options {
    unit_value kind;
    double damping; /* lambda = damping * mean diag G */
    double jitter;  /* added to the diagonal of the inverse's blocks */
    bool refits;    /* costs are those of the fit that follows: to its target, with its bias */
} removal_options;

/**
 * With options, costs of removing units: A = (G + lambda I)^-1, M = W^T W. A feature that is always
 * 0 costs nothing. When G + lambda I cannot be factored, lambda is raised (algebra/damped.h). With
 * `refits` all sums are centred where the view fits a bias and has means, so that a constant
 * feature (stats/constant_features.h) costs nothing; and where the view has cross sums C of a
 * target, W is W_r = (C + lambda W) A, the weights refitted on all units.
 *
 * Without (NULL), gains of keeping units: A = G, M = G W^T W G.
 *
 * Takes over the view's Gram matrices, and centres its cross sums in place. GRAIL_ERROR_NUMERIC as
 * damped_inverse, or when a Gram matrix is 0. removal_fini frees.
 */
grail_status removal_init(const site_view *v, const removal_options *options,
                          removal *out) GRAIL_MUST_CHECK;

/** values[n] of the units that are not taken; 0 for the others. */
grail_status removal_values(removal *r, double *values) GRAIL_MUST_CHECK;

/** How many units are taken with the same values, when `done` of `wanted` were taken. */
typedef int64_t (*batch_rule)(int64_t wanted, int64_t done);
/** One: every unit is valued after the one before it was taken. */
int64_t batch_of_one(int64_t wanted, int64_t done);
/** SlimGPT's: floor((m - 512) / 2) of m wanted, then half of what 512 leave of the size before,
 * each within 64 .. 1024 (Ling et al., arXiv 2412.18110, published code). */
int64_t batch_shrinking(int64_t wanted, int64_t done);

/** Takes `count` units more, evenly from each of `groups` equal runs of units: those of the least
 * value, or with `largest` of the largest, the one with the lower index on a tie. values_at[i],
 * unless NULL, is the value at which the i-th of them was taken. GRAIL_ERROR_ARGUMENT when there
 * are not as many; GRAIL_ERROR_NUMERIC names the unit whose value is not finite. */
grail_status removal_take(removal *r, int64_t groups, int64_t count, bool largest, batch_rule batch,
                          double *values_at) GRAIL_MUST_CHECK;

/** Removes units by cost until the view's number of them is kept. *out is owned. */
grail_status removal_decide(const site_view *v, const removal_options *options, batch_rule batch,
                            grail_reducer **out) GRAIL_MUST_CHECK;

/** The reducer that keeps the units that are taken, or those that are not. *out is owned. */
grail_status removal_reducer(const removal *r, bool keeps_taken,
                             grail_reducer **out) GRAIL_MUST_CHECK;

/** Takes all units, one of each group at a time. losses[n + 1]: the sum of the costs of all that
 * are taken when K units remain, for multiples K of `groups`; between them that of the next one
 * below.
 */
grail_status removal_losses(removal *r, int64_t groups, double *losses) GRAIL_MUST_CHECK;

/* Factors and inverses of Gram matrices with a little of the identity added. */

/**
 * Lower triangle of G[n, n] <- L with L L^T = G + lambda I, of which the lower triangle is read,
 * with lambda and errors as damped_inverse. The strict upper triangle is scratch.
 */
grail_status damped_cholesky(double damping, matrix gram, double *lambda) GRAIL_MUST_CHECK;

/**
 * Both triangles of G[n, n] <- (G + lambda I)^-1, of which the lower triangle is read, with
 * lambda = damping * mean diag G, or as it has to be raised (algebra/damped.h). GRAIL_ERROR_NUMERIC
 * as check_diagonal, or when G is indefinite. G is lost after a failure.
 */
grail_status damped_inverse(double damping, matrix gram, double *lambda) GRAIL_MUST_CHECK;

#endif
