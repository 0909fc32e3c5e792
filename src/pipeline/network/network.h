/* The calibration network: the dense network, and the network as it is narrowed so far, both with
 * what runs them, and what was decided and measured at each site.
 *
 * It keeps the dense shapes: columns of what was removed are zero in the consumers, and a folded
 * axis of n units carries its K merged units behind the n it came from, which the consumers no
 * longer read. So the unreduced input X and what the reduced producers really emit, Z, are both
 * columns of one value:
 *
 *   selection: Z = X[:, P]          folding: value = [X | Z], Z made by the merged producers
 *
 * and a pruned network is run as the dense one with zero columns. The narrow tensors are cut out
 * of it when they are written. */
#ifndef GRAIL_PIPELINE_NETWORK_NETWORK_H
#define GRAIL_PIPELINE_NETWORK_NETWORK_H

#include "exec/sample_stream.h"
#include "pipeline/network/progress.h"
#include "pipeline/network/site_result.h"

/** One of the two networks: its parameters, what runs it, and how far the samples have come. */
typedef struct network_run {
    parameter_store *parameters;
    execution *execution;
    sample_stream stream;
} network_run;

typedef struct calibration_network {
    const compression_request *request; /* borrowed */
    network_run dense;
    network_run current; /* as narrowed so far; its parameters lie over the dense ones */
    buffer_pool *pool;   /* of both executions */
    bool has_dense_stream;
    bool keep_activations; /* a consumer's input is kept between observing and advancing; in a run
                              that is continued, as in the one that was interrupted */
    site_result *results;  /* [sites] */
    double calibrate_seconds, compensate_seconds; /* so far */
    progress progress;
} calibration_network;

/** The dense network, with both sample streams before node 0. `memory` is that of the options. *out
 * is owned: network_free, before the request is closed. */
grail_status network_create(const compression_request *request, int64_t memory,
                            calibration_network **out) GRAIL_MUST_CHECK;
void network_free(calibration_network *network); /* NULL is allowed */

/** Drops the parameters of a finished block. */
void network_release_block(calibration_network *network, int block);

#endif
