/* Exchangeable sub-blocks: bringing the query heads of folded KV groups into a common order. */
#ifndef GRAIL_REDUCE_ALIGN_SUBUNITS_H
#define GRAIL_REDUCE_ALIGN_SUBUNITS_H

#include "reduce/reducer.h"

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
