/* How many calibration samples a run takes where nobody says it. */
#ifndef GRAIL_PIPELINE_REQUEST_USUAL_SAMPLES_H
#define GRAIL_PIPELINE_REQUEST_USUAL_SAMPLES_H

#include "graph/graph.h"

/** 128 images, or 128 windows of `length` tokens; of wide networks that read text as many windows
 * as give 64 tokens for each feature of the widest matrix in a block (docs/numerics.md, How many
 * samples). */
int64_t usual_samples(const graph *g, int64_t length);

#endif
