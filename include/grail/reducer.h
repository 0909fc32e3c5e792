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
/** Position among the kept, or cluster, of unit j; -1 for a removed unit. */
GRAIL_API int64_t grail_reducer_label(const grail_reducer *reducer, int64_t unit);

/**
 * Narrows a producer: in[n*u, columns] -> out[K*u, columns], M^T in. Kept rows for pruning, the
 * mean of the members' rows (in f64) for folding. A bias or per-channel vector has columns = 1.
 */
GRAIL_API void grail_reducer_narrow_rows(const grail_reducer *reducer, int64_t features_per_unit,
                                         int64_t columns, const float *in, float *out);
/**
 * The data-free consumer: in[rows, n*u] -> out[rows, K*u]. Kept columns for pruning (in M), the SUM
 * of the members' columns (in U) for folding: exact for exactly duplicated units.
 */
GRAIL_API void grail_reducer_merge_columns(const grail_reducer *reducer, int64_t features_per_unit,
                                           int64_t rows, const float *in, float *out);

#ifdef __cplusplus
}
#endif
#endif
