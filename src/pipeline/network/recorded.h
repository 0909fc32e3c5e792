/* Finished blocks of a run that is continued: narrow tensors back into the calibration network. */
#ifndef GRAIL_PIPELINE_NETWORK_RECORDED_H
#define GRAIL_PIPELINE_NETWORK_RECORDED_H

#include "pipeline/network/network.h"

/** Where the parameters of finished blocks are. */
typedef struct recorded_parameters {
    /* f32 values of the parameter's narrow shape; *out is owned */
    grail_status (*read)(const void *from, int parameter, float **out);
    const void *from;
} recorded_parameters;

/** Sets a consumer of a decided site, and what took its bias, from its recorded tensors. */
grail_status widen_consumer(calibration_network *network, int site, int consumer,
                            const recorded_parameters *recorded) GRAIL_MUST_CHECK;

#endif
