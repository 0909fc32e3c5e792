/* Folding: clustering of units by Hartigan's k-means on inner products.
 *
 * Points x_i are rows of a feature matrix that is never formed: only its Gram matrix
 * P[n, n] = X X^T is needed, since ||x_i - c_t||^2 = P_ii - 2 S_it / n_t + Q_t / n_t^2 with
 * S_it = sum_{j in t} P_ij and Q_t = sum_{i in t} S_it. Row S_i is summed when point i is visited,
 * in one pass over row i of P: n^2 additions per sweep however many points move, and no S[n, K].
 * Source: docs/numerics.md, Folding (Hartigan's rule, balanced random start, stop at 2 % changes).
 * The first start is spread out instead of random: with as many clusters as different points it
 * puts equal ones together, so duplicated units fold without loss. */
#ifndef GRAIL_REDUCE_FOLD_H
#define GRAIL_REDUCE_FOLD_H

#include "backend/operations.h"
#include "reduce/reducer.h"

typedef struct kmeans_options {
    int restarts;        /* number of starts; the lowest inertia wins; usually 4 */
    int sweeps;          /* at most this many; usually 20 */
    double stop_changes; /* stop when at most this fraction moved (usually 0.02), or none did */
    uint64_t seed;
    uint64_t stream;
} kmeans_options;

/**
 * labels[n] in 0..K-1 with no cluster empty, clusters numbered by their first member.
 * `products` P[n, n], f64: the lower triangle is read, the upper one becomes its mirror.
 * *inertia = sum_i ||x_i - c_label(i)||^2. When `inertia_trace` is not NULL it receives the inertia
 * after each sweep of the chosen start ([sweeps], rest NaN), for tests. 0 < K <= n.
 */
grail_status kmeans_hartigan(int64_t clusters, matrix products, const kmeans_options *options,
                             int64_t *labels, double *inertia,
                             double *inertia_trace) GRAIL_MUST_CHECK;

/** Renumbers the labels 0..K-1 of n units by the first unit of each; none may be missing. */
grail_status labels_renumber(int64_t units, int64_t clusters, int64_t *labels) GRAIL_MUST_CHECK;

/** Adds the inner products of rows to the lower triangle of P[n, n], f64, with products formed by
 * its instance: in[n * u, columns], row block j is unit j. */
grail_status fold_add_rows(int64_t features_per_unit, int64_t columns, const float *in,
                           matrix products) GRAIL_MUST_CHECK;
/** Likewise for column blocks: in[rows, n * u]. */
grail_status fold_add_columns(int64_t features_per_unit, int64_t rows, const float *in,
                              matrix products) GRAIL_MUST_CHECK;

/* Exchangeable sub-blocks: bringing the query heads of folded KV groups into a common order. */

/** order[n * subunits]: the sub-blocks of every unit of in[n * u, columns] by descending norm, so
 * that groups which are permutations of one another get the same order. */
void subunits_by_norm(int64_t units, int64_t subunits, int64_t features_per_unit, int64_t columns,
                      const float *in, int64_t *order);

/**
 * Improves `order`: the sub-blocks of every member are assigned to those of its cluster's centroid,
 * taking the closest pair first, until nothing changes (at most eight rounds).
 * labels[n] in 0..clusters-1.
 */
grail_status subunits_to_centroid(int64_t units, int64_t subunits, int64_t clusters,
                                  const int64_t *labels, int64_t features_per_unit, int64_t columns,
                                  const float *in, int64_t *order) GRAIL_MUST_CHECK;

/** out = in with the sub-blocks of every unit moved to their order: rows in[n * u, columns]. */
void subunits_apply_rows(int64_t units, int64_t subunits, const int64_t *order,
                         int64_t features_per_unit, int64_t columns, const float *in, float *out);
/** Likewise for columns in[rows, n * u]. */
void subunits_apply_columns(int64_t units, int64_t subunits, const int64_t *order,
                            int64_t features_per_unit, int64_t rows, const float *in, float *out);

#endif
