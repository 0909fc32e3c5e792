/* How much a loss changes with the outputs of consumers, which selectors can measure errors by
 * (docs/numerics.md, Elimination). */
#ifndef GRAIL_PIPELINE_NETWORK_FISHER_H
#define GRAIL_PIPELINE_NETWORK_FISHER_H

#include "pipeline/network/network.h"

/**
 * Measures, for the deciding consumer of each site whose selector takes it (site_takes_metric), the
 * Fisher information of its output,
 *
 *   F[O, O] = (1/T) sum_t g_t g_t^T + 0.01 mean(diag) I,
 *
 * g_t the gradient of -log p(label) with respect to row t of the output, T all rows of at most 16
 * windows or 128 images that do not judge, and a label for each row of the logits, drawn from the
 * network's own distribution. The network is still dense. Outputs that are no logits have normal
 * numbers divided by the row's length for their gradients. Ranks take the samples in turns, and all
 * have the sums of all, in the same bits as one. A gradient that is not finite is
 * GRAIL_ERROR_NUMERIC naming the consumer. Where there are no samples, or no site takes it, nothing
 * is done. Frees what was measured before.
 */
grail_status fisher_measure(calibration_network *network) GRAIL_MUST_CHECK;

/** How many of `count` samples it takes at most. */
int64_t fisher_samples(const graph *g, int64_t count);

#endif
