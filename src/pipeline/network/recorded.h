/* Puts the narrow tensors of finished blocks back into the calibration network when a run is
 * continued. */
#ifndef GRAIL_PIPELINE_NETWORK_RECORDED_H
#define GRAIL_PIPELINE_NETWORK_RECORDED_H

#include "pipeline/network/network.h"

/** Reads the parameters of finished blocks. */
typedef struct recorded_parameters {
    /* the parameter in f32, in its narrow shape; *out is owned */
    grail_status (*read)(const void *from, int parameter, float **out);
    const void *from;
} recorded_parameters;

/** Sets a consumer of a decided site, and the parameter that took its bias, from the recorded
 * tensors. */
grail_status restore_consumer(calibration_network *network, int site, int consumer,
                              const recorded_parameters *recorded) GRAIL_MUST_CHECK;

/** Sets a refitted map, and the parameter that took its bias, from the recorded tensors. The rows
 * of removed units are 0. The sites that cut its rows are decided. */
grail_status widen_map(calibration_network *network, int node_index,
                       const recorded_parameters *recorded) GRAIL_MUST_CHECK;

/** Sets a parameter from its recorded tensor in its narrow shape; nothing where a dropped sublayer
 * read it. */
grail_status restore_parameter(calibration_network *network, int parameter,
                               const recorded_parameters *recorded) GRAIL_MUST_CHECK;

/** Sets all parameters of a trained block, which have their narrow shapes, from the records. */
grail_status restore_trained(calibration_network *network, int block,
                             const recorded_parameters *recorded) GRAIL_MUST_CHECK;

#endif
