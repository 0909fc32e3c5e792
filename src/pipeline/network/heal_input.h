/* The network's input for samples that are drawn one by one. */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_INPUT_H
#define GRAIL_PIPELINE_NETWORK_HEAL_INPUT_H

#include "pipeline/request/request.h"

/** A part of some samples that is run at once; all have equal positions. */
typedef struct sample_part {
    const int64_t *samples; /* [count] */
    int64_t count;
} sample_part;

/** Shape of a part. */
batch_shape part_shape(const compression_request *request, const sample_part *part);

/** The tokens or pixels of some samples, one after the other. */
typedef struct heal_input {
    int32_t *ids;  /* [samples * positions], owned; NULL for images */
    float *pixels; /* [samples, height, width, 3], owned; NULL for text */
} heal_input;

/** Copies the input of a part. With a seed other than 0, each image is mirrored or not and shifted
 * by up to an eighth of its side, with reflected borders, as drawn from seed, step and sample; text
 * stays. heal_input_fini frees. */
grail_status heal_input_of(const compression_request *request, const sample_part *part,
                           uint64_t seed, int64_t step, heal_input *out) GRAIL_MUST_CHECK;
void heal_input_fini(heal_input *input); /* works on a zeroed one */

batch_input heal_batch_input(const heal_input *input);

#endif
