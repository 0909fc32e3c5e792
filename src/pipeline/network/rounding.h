/* Rounds matrices of a run's result to what they will be stored as, by what they read on the sample
 * stream of the network rounded so far, while the walk goes on.
 *
 * Attention is parked at the first token of a window, whose keys and values therefore reach all
 * others; as one row among hundreds its error is nearly free, and feedback would spend it. So where
 * attention reads what a matrix gives, that row counts as a sixteenth of its window. Rows that are
 * far longer than usual (massive activations) count as if they were 4 times as long as usual: what
 * they add to the residual stream is divided by its length again. */
#ifndef GRAIL_PIPELINE_NETWORK_ROUNDING_H
#define GRAIL_PIPELINE_NETWORK_ROUNDING_H

#include "pipeline/network/pass.h"
#include "pipeline/request/rounded_types.h"
#include "solve/feedback.h"

/** *out[1, x.rows], owned even after a failure: the roots of the weights of the current batch's
 * rows x, which the Linear `first` and those behind it read together. */
grail_status rounding_weight_roots(const execution *e, int first, matrix x,
                                   matrix *out) GRAIL_MUST_CHECK;

/** Whether the matrix of a node is rounded in the result. */
bool node_is_rounded(const rounded_types *types, const node *n);

/** Rounds those of `count` Linears from node `first` on that are: they read one value, and are
 * fitted. The current network computes with what they become, which rounded[parameter_count] keeps
 * as it will be stored. */
grail_status round_maps(sample_passes *passes, const rounded_types *types, int first, int count,
                        unsigned char **rounded) GRAIL_MUST_CHECK;

/** Rounds a matrix that other nodes than Linears read, by itself; likewise. */
grail_status round_table(const network_run *current, const rounded_types *types, int parameter,
                         unsigned char **rounded) GRAIL_MUST_CHECK;

#endif
