/* The input of drawn samples, for a step of a training. */
#ifndef GRAIL_PIPELINE_NETWORK_PART_INPUT_H
#define GRAIL_PIPELINE_NETWORK_PART_INPUT_H

#include "pipeline/network/heal_training.h"

/** The tokens or pixels of some samples, one after the other. */
typedef struct part_input {
    int32_t *ids;  /* [samples * positions], owned; NULL for images */
    float *pixels; /* [samples, height, width, channels], owned; NULL for text */
} part_input;

/** Copies the input of a part. With a seed other than 0, each image is mirrored or not and shifted
 * by up to an eighth of its side, with reflected borders, as drawn from seed, step and sample; text
 * stays, and so do arrays of other than three channels. part_input_fini frees. */
grail_status part_input_copy(const calibration *c, const sample_part *part, uint64_t seed,
                             int64_t step, part_input *out) GRAIL_MUST_CHECK;
void part_input_fini(part_input *input);

/** Borrowed. */
batch_input part_input_batch(const part_input *input);

#endif
