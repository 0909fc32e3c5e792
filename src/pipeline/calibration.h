/* Calibration samples: windows of text or images, in batches. */
#ifndef GRAIL_PIPELINE_CALIBRATION_H
#define GRAIL_PIPELINE_CALIBRATION_H

#include "arch/model.h"
#include "exec/execution.h"
#include "format/windows.h"

#include <grail/compress.h>

typedef struct calibration {
    token_windows windows; /* of text */
    shingle_set shingles;
    char tokenizer_hash[65];
    float *pixels;    /* images [count, height, width, 3], owned */
    int64_t count;    /* samples; 0 when nothing needs data */
    extent positions; /* of one sample */
    int64_t batch_samples, batch_count;
    json_t *description; /* what the report says about it, owned */
} calibration;

/** Reads the samples that the options name for this model. *out is filled; calibration_fini. */
grail_status calibration_read(const grail_model *model, const grail_compress_options *options,
                              calibration *out) GRAIL_MUST_CHECK;
/** The description of a run that needs no data. */
grail_status calibration_empty(calibration *out) GRAIL_MUST_CHECK;
void calibration_fini(calibration *c); /* works on a zeroed one */

batch_shape calibration_shape(const calibration *c, int64_t batch);
batch_input calibration_input(const calibration *c, int64_t batch);

/** Every fourth batch judges alpha and the error; with two or three batches the last one. */
bool calibration_holds_out(const calibration *c, int64_t batch);

#endif
