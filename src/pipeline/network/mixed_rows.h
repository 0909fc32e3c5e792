/* The mixed target of a folding (solve/mixed_target.h). The statistics of a folding are of the
 * merged columns alone, from which W Z^T of the unfolded ones cannot be had, so its targets are
 * mixed row by row: beta is that of the rows of one batch, or of one piece of it. */
#ifndef GRAIL_PIPELINE_NETWORK_MIXED_ROWS_H
#define GRAIL_PIPELINE_NETWORK_MIXED_ROWS_H

#include "exec/pool.h"
#include "pipeline/network/observation.h"

/** y[rows, outputs] <- l + beta (y - l) with l = in W^T + 1 bias^T, for `in` with all its columns.
 * root[rows], unless NULL, are the roots of the weights of rows. Adds to the observation's gap. */
grail_status mix_target_rows(observation *o, matrix_pool *pool, const double *root, matrix in,
                             matrix y) GRAIL_MUST_CHECK;

#endif
