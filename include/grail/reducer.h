#ifndef GRAIL_REDUCER_H
#define GRAIL_REDUCER_H

#include <grail/status.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The map from n units to K: a selection (pruning) or cluster labels (folding). A unit has u
 * features; feature j*u + i is feature i of unit j. Narrow input X M, plain consumer W U:
 *   pruning: M = columns e_p of the kept units;  folding: M[h,k] = 1/|C_k| if h in C_k, U[h,k] = 1.
 * Source: GRAIL paper, section 3.1, M_prune and M_fold; eq. (kron-llm) for units of u features.
 */
typedef struct grail_reducer grail_reducer;

/** Keeps kept[0..K-1], ascending, distinct, in 0..n-1; 0 < K <= n. *out is owned. */
GRAIL_API grail_status grail_reducer_from_selection(int64_t units, int64_t kept_count,
                                                    const int64_t *kept,
                                                    grail_reducer **out) GRAIL_MUST_CHECK;
/** Folds unit j into cluster labels[j] in 0..K-1; no cluster may be empty. *out is owned. */
GRAIL_API grail_status grail_reducer_from_labels(int64_t units, int64_t clusters,
                                                 const int64_t *labels,
                                                 grail_reducer **out) GRAIL_MUST_CHECK;
GRAIL_API void grail_reducer_free(grail_reducer *reducer); /* NULL is allowed */

GRAIL_API int64_t grail_reducer_units(const grail_reducer *reducer); /* n */
GRAIL_API int64_t grail_reducer_kept(const grail_reducer *reducer);  /* K */
GRAIL_API int grail_reducer_folds(const grail_reducer *reducer);     /* 1: cluster labels */
/** 1: the units that it was chosen from all scored equal, so their index alone decided. */
GRAIL_API int grail_reducer_tied(const grail_reducer *reducer);
/** Position among the kept, or cluster, of unit j; -1 for a removed unit, or for no unit. */
GRAIL_API int64_t grail_reducer_label(const grail_reducer *reducer, int64_t unit);
/** All labels: labels[n]. */
GRAIL_API void grail_reducer_labels(const grail_reducer *reducer, int64_t *labels);

/**
 * Some units consist of blocks that can be reordered, such as the query heads of a key/value group.
 * A folding brings the blocks of its units into a common order first. Blocks of a unit: 1 where
 * none are reordered.
 */
GRAIL_API int64_t grail_reducer_subunits(const grail_reducer *reducer);
/** order[n * subunits]: block s of unit j is taken from its position order[j * subunits + s]. */
GRAIL_API void grail_reducer_order(const grail_reducer *reducer, int64_t *order);

/**
 * Narrows a producer: in[n*u, columns] -> out[K*u, columns], M^T in. Kept rows for pruning, the
 * mean of the members' rows (in f64) for folding. A bias or per-channel vector has columns = 1.
 * `exchangeable`: 1 where the axis consists of the blocks above. `out` must not overlap `in`.
 */
GRAIL_API grail_status grail_reducer_narrow_rows(const grail_reducer *reducer, int exchangeable,
                                                 int64_t features_per_unit, int64_t columns,
                                                 const float *in, float *out) GRAIL_MUST_CHECK;
/**
 * The data-free consumer: in[rows, n*u] -> out[rows, K*u]. Kept columns for pruning (in M), the SUM
 * of the members' columns (in U) for folding: exact for exactly duplicated units.
 */
GRAIL_API grail_status grail_reducer_merge_columns(const grail_reducer *reducer, int exchangeable,
                                                   int64_t features_per_unit, int64_t rows,
                                                   const float *in, float *out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
