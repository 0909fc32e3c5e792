/* How much rows count where a matrix is rounded by what it reads.
 *
 * Attention is parked at the first token of a window, whose keys and values therefore reach all
 * others; as one row among hundreds its error is nearly free, and feedback would spend it. So where
 * attention reads what the matrix gives, that row counts as a sixteenth of its window. Rows that
 * are far longer than usual (massive activations) count as if they were 4 times as long as usual:
 * what they add to the residual stream is divided by its length again. */
#ifndef GRAIL_PIPELINE_NETWORK_ROUNDING_WEIGHTS_H
#define GRAIL_PIPELINE_NETWORK_ROUNDING_WEIGHTS_H

#include "exec/execution.h"

/** *out[x.rows], owned: the roots of the weights of the current batch's rows x, which the Linear
 * `first` and those behind it read together. */
grail_status rounding_weight_roots(const execution *e, int first, matrix x,
                                   double **out) GRAIL_MUST_CHECK;

#endif
