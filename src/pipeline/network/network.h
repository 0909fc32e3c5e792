/* The calibration network: the dense network and the network as narrowed so far, each with its
 * execution, and what was decided and measured at each site.
 *
 * It keeps the dense shapes. In the consumers, the columns of removed units are zero. A folded axis
 * of n units has its K merged units behind the original n, which the consumers no longer read. So
 * the unreduced input X and the output Z of the reduced producers are columns of one value:
 *
 *   selection: Z = X[:, P]          folding: value = [X | Z], Z made by the merged producers
 *
 * A pruned network therefore runs as the dense one with zero columns. The narrow tensors are cut
 * out when they are written or evaluated. */
#ifndef GRAIL_PIPELINE_NETWORK_NETWORK_H
#define GRAIL_PIPELINE_NETWORK_NETWORK_H

#include "exec/sample_stream.h"
#include "pipeline/network/progress.h"
#include "pipeline/network/site_result.h"

/** One of the two networks: its parameters, its execution and its sample stream. */
typedef struct network_run {
    parameter_store *parameters;
    execution *execution;
    sample_stream stream;
} network_run;

typedef struct calibration_network {
    const compression_request *request; /* borrowed */
    network_run dense;
    network_run current; /* as narrowed so far; its store has the dense one as parent */
    matrix_pool *pool;   /* shared by both executions */
    bool has_dense_stream;
    bool keep_activations; /* whether the stream of `current` advances with every pass, not only at
                              the borders of blocks; a continued run uses the value of the
                              interrupted one */
    site_result *results;  /* [sites] */
    double calibrate_seconds, compensate_seconds; /* so far */
    progress progress;
} calibration_network;

/** Creates the network, still dense, with the sample streams before node 0. `memory` is that of the
 * options. *out is owned: network_free, before the request is closed. */
grail_status network_create(const compression_request *request, int64_t memory,
                            calibration_network **out) GRAIL_MUST_CHECK;
void network_free(calibration_network *network); /* NULL is allowed */

/** Drops the parameters of a finished block. */
void network_release_block(calibration_network *network, int block);

#endif
