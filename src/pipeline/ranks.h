/* What the ranks of a run tell each other beside sums: that they do the same, and on what an
 * interrupted run goes on, which rank 0 alone sees. */
#ifndef GRAIL_PIPELINE_RANKS_H
#define GRAIL_PIPELINE_RANKS_H

#include "pipeline/compression.h"

/** Refuses options, files, samples or threads that are not those of rank 0. All ranks fail where
 * one does, as in all these functions. */
grail_status ranks_agree(const compression_request *request,
                         const grail_compress_options *options) GRAIL_MUST_CHECK;

/** Takes over how far the output is, and the network's keep_activations. */
grail_status ranks_begin(grail_compression *c) GRAIL_MUST_CHECK;

/** Restores the results of a recorded block's sites. */
grail_status ranks_restore_block(grail_compression *c, int block) GRAIL_MUST_CHECK;
/** Restores the results of a network that is recorded under this key, or block by block. */
grail_status ranks_restore(grail_compression *c, const char *key) GRAIL_MUST_CHECK;
/** Restores the results and the parameters of a network that is to be healed. */
grail_status ranks_restore_fitted(grail_compression *c,
                                  const recorded_parameters *recorded) GRAIL_MUST_CHECK;
/** Reads a parameter of a finished block, as recorded_parameters.read. */
grail_status ranks_read_parameter(const void *compression, int parameter,
                                  float **out) GRAIL_MUST_CHECK;

#endif
