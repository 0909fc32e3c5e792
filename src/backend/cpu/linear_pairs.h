/* Y = X W^T + bias in bf16 with f32 sums, over squares of pairs (pairs.h): where the processor has
 * matrix units, they are kept busier than by oneDNN, and X is rounded and Y searched for NaN on the
 * way. */
#ifndef GRAIL_BACKEND_CPU_LINEAR_PAIRS_H
#define GRAIL_BACKEND_CPU_LINEAR_PAIRS_H

#include "backend/host/host.h"

/** Bytes of W[out, in] in squares, and from row-major bf16 values to these and back. */
grail_status pairs_weight_bytes(int64_t out, int64_t in, size_t *bytes) GRAIL_MUST_CHECK;
grail_status pairs_weight_order(int64_t out, int64_t in, const void *values,
                                void *weight) GRAIL_MUST_CHECK;
grail_status pairs_weight_restore(int64_t out, int64_t in, const void *weight,
                                  void *values) GRAIL_MUST_CHECK;

/** W^T in squares, of so many rows of W from `first` on, a multiple of 32; W is of values or in
 * squares. `low`, NULL for these, gets what is left of the rounded values. */
void pairs_weight_transpose(matrix weight, int64_t first, int64_t rows, void *transposed,
                            void *low);

/** W of values f32 as two parts in squares, that which is rounded and what is left of it, each of
 * pairs_weight_bytes. */
void pairs_weight_split(matrix weight, void *high, void *low);

/** Y[rows, out] = X[rows, in] W^T + 1 bias; bias may be NULL, and is where the product is added to
 * Y. With the low part of W, which may be NULL, X is taken in two parts, too, and three of their
 * four products are added, all but low low. A row has the same bits whatever rows are beside it.
 * *finite: whether all of Y is. */
grail_status pairs_linear(matrix x, const void *weight, const void *low, const float *bias,
                          bool adds, matrix y, bool *finite) GRAIL_MUST_CHECK;

#endif
