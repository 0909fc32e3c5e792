/* What is observed of a consumer: statistics of its input, and of the target it should produce. */
#ifndef GRAIL_PIPELINE_NETWORK_OBSERVATION_H
#define GRAIL_PIPELINE_NETWORK_OBSERVATION_H

#include "pipeline/network/consumer.h"
#include "stats/statistics.h"

typedef enum observed_target {
    OBSERVES_INPUT_ALONE,
    OBSERVES_DENSE_OUTPUT, /* the dense network's own output there, plus the drift (target.h) */
    OBSERVES_PRODUCT,      /* W times the observed rows before their reduction */
    OBSERVES_DENSE_PRODUCT /* W times the dense network's input, tap by tap */
} observed_target;

typedef struct observation {
    int site, consumer;
    int node;
    bool folds;      /* of the reduced columns alone, those behind the `unreduced` features */
    bool of_patches; /* a convolution that is fitted tap by tap: rows are unfolded patches */
    observed_target target;
    consumer_layout layout;
    int64_t unreduced;            /* features in front of the folded ones in the input's columns */
    float *weight;                /* W in the layout, owned */
    void *target_weight;          /* elements: what makes the target of a product; owned */
    grail_statistics *fit, *held; /* owned */
} observation;

/** Allocates statistics. A folding's reducer must be decided. observation_fini frees. */
grail_status observation_init(const calibration_network *network, int site, int consumer,
                              observation *o) GRAIL_MUST_CHECK;
/** The same for the dense network's statistics in an open loop: of the input alone, without W. */
grail_status observation_init_input(const compression_request *request, int site, int consumer,
                                    observation *o) GRAIL_MUST_CHECK;
void observation_fini(observation *o); /* works on a zeroed one */

/** Node before which the dense network must stand for the target; GRAPH_NONE: it is not needed. */
int observation_dense_end(const observation *o);

#endif
