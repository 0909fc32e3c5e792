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

#include "exec/stream.h"
#include "pipeline/request/request.h"

typedef struct site_result {
    grail_site_report report;
    grail_reducer *reducer; /* owned; NULL until decided, and for sites that keep everything */
    grail_fit *fits;        /* owned, [report.fit_count]; report.fits borrows it */
} site_result;

/** One of the two networks: its parameters, what runs it, and how far the samples have come. */
typedef struct network_run {
    parameter_store *parameters;
    execution *execution;
    stream stream;
} network_run;

typedef struct calibration_network {
    network_run dense;
    network_run current; /* its parameters lie over the dense ones */
    buffer_pool *pool;   /* of both executions */
    bool has_dense_stream;
    bool keep_activations; /* a consumer's input is kept between observing and advancing */
    site_result *results;  /* [sites] */
    double started;        /* seconds, monotonic */
    int blocks_replayed;
    double calibrate_seconds, compensate_seconds;
} calibration_network;

#endif
