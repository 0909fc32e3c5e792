/* What stands behind a consumer: where its bias can go, and the residual Add that reads it. */
#ifndef GRAIL_PIPELINE_REQUEST_CONSUMER_TAIL_H
#define GRAIL_PIPELINE_REQUEST_CONSUMER_TAIL_H

#include "graph/graph.h"

/** What stands between a consumer and the residual Add that its output goes to. */
typedef struct consumer_tail {
    int batch_norm; /* node, or GRAPH_NONE */
    int skip; /* the Add's other operand when it is there before the consumer, or GRAPH_NONE */
} consumer_tail;
consumer_tail consumer_tail_of(const graph *g, int consumer);

/** Where a consumer's bias can go: its own, or the mean of the BatchNorm that reads it alone. */
typedef struct bias_slot {
    int parameter; /* GRAPH_NONE: nowhere */
    double sign;   /* of the change there */
} bias_slot;
bias_slot consumer_bias_slot(const graph *g, int consumer);

#endif
