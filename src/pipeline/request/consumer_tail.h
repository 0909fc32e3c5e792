/* The nodes behind a consumer: where a change of its bias can be stored, and the residual Add that
 * reads its output. */
#ifndef GRAIL_PIPELINE_REQUEST_CONSUMER_TAIL_H
#define GRAIL_PIPELINE_REQUEST_CONSUMER_TAIL_H

#include "graph/graph.h"
#include "reduce/plan.h"

/** The nodes between a consumer and the residual Add that reads its output. */
typedef struct consumer_tail {
    int batch_norm; /* the BatchNorm between them, or GRAPH_NONE */
    int row_norm;   /* the norm of each row between them, or GRAPH_NONE */
    int scale;      /* the scale of each channel between them (of a layer), or GRAPH_NONE */
    int put;    /* the node that puts rows which a router chose back into the sum, or GRAPH_NONE */
    int factor; /* the value that has one factor for each row between them, or GRAPH_NONE */
    int skip;   /* the Add's other operand if it is computed before the consumer, or GRAPH_NONE */
} consumer_tail;
consumer_tail consumer_tail_of(const graph *g, int consumer);

/** The parameter that can store a change of a consumer's bias: its own bias, or the mean of a
 * BatchNorm that is the only reader. */
typedef struct bias_slot {
    int parameter; /* GRAPH_NONE: there is none */
    double sign;   /* 1: the change is added to the parameter; -1: subtracted */
} bias_slot;
bias_slot consumer_bias_slot(const graph *g, int consumer);
/** Whether each kernel position of a map is fitted by itself, on patches of what it reads. */
bool map_is_fitted_by_tap(const compensation *how, const node *n);
/** Whether a bias is fitted with the consumer's weight. */
bool consumer_fits_bias(const graph *g, const compensation *how, int consumer);

#endif
