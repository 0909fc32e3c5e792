/* Regional gradients: how much the output of a block changes with the weights that read its sites
 * (docs/numerics.md, Scores). */
#ifndef GRAIL_PIPELINE_NETWORK_REGIONAL_H
#define GRAIL_PIPELINE_NETWORK_REGIONAL_H

#include "pipeline/network/network.h"

/** A block as a map from what lives before it to what it leaves behind it. */
typedef struct region {
    int block, begin, end; /* nodes */
    int *outputs;          /* [output_count] values made in the block and read behind it; owned */
    int output_count;
    int64_t *samples; /* [sample_count] those that the fit may use, the ones that it holds out
                         included; owned */
    int64_t sample_count;
} region;

/** region_fini frees, even after a failure. */
grail_status region_init(const compression_request *request, int block,
                         region *out) GRAIL_MUST_CHECK;
void region_fini(region *r); /* works on a zeroed one */

/** Puts one sample before the block into an execution. The current stream waits there. */
grail_status region_place(const calibration_network *network, int64_t sample,
                          execution *e) GRAIL_MUST_CHECK;

/** Whether a site is cut by a selector that needs gradients. */
bool site_needs_gradients(const compression_request *request, int site);

/**
 * Measures, for each consumer of the block's sites whose selector needs it, G[outputs, inputs]:
 *
 *   G = sqrt((1/N) sum_n (dL_n/dW)^2), L_n = ||Y_n||_F,
 *
 * Y_n all values that sample n leaves behind the block, over the samples of the region. The current
 * sample stream waits before the block, whose weights are those that it has then. Does nothing
 * where no selector needs them. A norm that is not finite is GRAIL_ERROR_NUMERIC naming the block
 * and the sample.
 */
grail_status regional_gradients_measure(calibration_network *network, int block) GRAIL_MUST_CHECK;

/** G of a consumer's weight; NULL where it was not measured. Borrowed until it is dropped. */
const float *regional_gradients_of(const calibration_network *network, int parameter);

#endif
