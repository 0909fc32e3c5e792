/* Puts the narrow tensors of finished blocks back into the current network when a run is
 * continued. */
#ifndef GRAIL_PIPELINE_NETWORK_RECORDED_H
#define GRAIL_PIPELINE_NETWORK_RECORDED_H

#include "exec/parameters.h"
#include "pipeline/network/site_result.h"
#include "pipeline/request/cuts.h"

/** Reads the parameters of finished blocks. */
typedef struct recorded_parameters {
    /* the parameter in f32, in its narrow shape; *out is owned */
    grail_status (*read)(const void *from, int parameter, float **out);
    const void *from;
    const graph *narrowed; /* whose shapes they have; borrowed */
} recorded_parameters;

/** Sets a consumer of a site that has this reducer, and the parameter that took its bias, from the
 * recorded tensors. */
grail_status restore_consumer(const cutting *cut, const grail_reducer *reducer, int site,
                              int consumer, const recorded_parameters *recorded,
                              parameter_store *current) GRAIL_MUST_CHECK;

/** Sets a refitted map, and the parameter that took its bias, from the recorded tensors. The rows
 * of removed units are 0. The sites that cut its rows are decided. */
grail_status widen_map(const cutting *cut, const site_result *results, int node_index,
                       const recorded_parameters *recorded,
                       parameter_store *current) GRAIL_MUST_CHECK;

/** Sets a parameter from its recorded tensor in its narrow shape; nothing where a dropped sublayer
 * read it. */
grail_status restore_parameter(int parameter, const recorded_parameters *recorded,
                               parameter_store *current) GRAIL_MUST_CHECK;

/** Sets all parameters of a trained block, which have their narrow shapes, from the records. */
grail_status restore_trained(const graph *g, int block, const recorded_parameters *recorded,
                             parameter_store *current) GRAIL_MUST_CHECK;

#endif
