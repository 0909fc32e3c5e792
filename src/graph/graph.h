/* The graph: nodes in topological order over values, built per architecture.
 *
 * A value is a matrix [rows, width]; a node reads up to three values and makes one. Parameters are
 * named as in the checkpoint. Widths are not stored but follow from parameter shapes, so that a
 * narrowed model is the same graph with other shapes. */
#ifndef GRAIL_GRAPH_GRAPH_H
#define GRAIL_GRAPH_GRAPH_H

#include "base/memory.h"
#include "graph/operator.h"

typedef enum node_kind {
    NODE_EMBEDDING, /* ids -> rows of weight[V, E] */
    NODE_LINEAR,    /* y = x W^T + b, weight[out, in] */
    NODE_RMS_NORM,  /* over groups of `group` features; group 0 means the whole width */
    NODE_ROPE,      /* rotary positions on heads of head_dim */
    NODE_ATTENTION, /* (q, k, v) -> heads side by side */
    NODE_ACTIVATION,
    NODE_MULTIPLY,
    NODE_ADD
} node_kind;

enum { GRAPH_NONE = -1, NODE_MAX_INPUTS = 3, PARAMETER_MAX_RANK = 4 };

typedef struct node {
    node_kind kind;
    int block; /* GRAPH_NONE before the first block; block_count after the last */
    int input_count;
    int inputs[NODE_MAX_INPUTS]; /* values */
    int output;                  /* value */
    int weight, bias;            /* parameters or GRAPH_NONE */
    activation_kind activation;
    double epsilon;
    int64_t group;
    int64_t head_dim;
    int64_t window;          /* attention: rows seen, 0 = all before */
    double scale;            /* attention scores */
    const double *frequency; /* rope [head_dim / 2]; borrowed from the graph */
} node;

typedef struct graph_parameter {
    char *name; /* of the checkpoint tensor */
    int rank;
    int64_t shape[PARAMETER_MAX_RANK];
} graph_parameter;

typedef struct graph {
    node *nodes;
    int node_count, node_capacity;
    graph_parameter *parameters;
    int parameter_count, parameter_capacity;
    int *name_slots; /* [slot_count] hash table: index of a parameter, GRAPH_NONE where free */
    int slot_count;  /* a power of two, more than parameter_count */
    int value_count;
    int *value_source; /* node that makes each value, GRAPH_NONE for the input */
    int *last_use;     /* last node that reads each value, node_count for the output */
    int block_count;
    int input, output;  /* values: token ids, logits */
    double *frequency;  /* owned table for rope nodes, NULL without */
    int64_t vocabulary; /* ids are below it */
} graph;

/** An empty graph with one value, the input. *out is owned: graph_free. */
grail_status graph_create(graph **out) GRAIL_MUST_CHECK;
void graph_free(graph *g); /* NULL is allowed */

/** Adds a parameter; its index in *out. The name is copied. A name already there must have the same
 * shape and gives the same index (tied weights). */
grail_status graph_add_parameter(graph *g, const char *name, int rank, const int64_t shape[],
                                 int *out) GRAIL_MUST_CHECK;

/** Index of the parameter of that name, or GRAPH_NONE. */
int graph_find_parameter(const graph *g, const char *name);

/** Adds a copy of `n`; its output field is set to a new value, also stored in *out. */
grail_status graph_add_node(graph *g, const node *n, int *out) GRAIL_MUST_CHECK;

/** Fixes the output, fills last_use, and checks shapes: graph_widths must succeed. */
grail_status graph_finish(graph *g, int output) GRAIL_MUST_CHECK;

/** First node of a block, and one past its last. block may be block_count (what follows the last)
 * or GRAPH_NONE (what comes before the first). */
void graph_block_range(const graph *g, int block, int *begin, int *end);

/** widths[value_count] from the parameters' shapes; a mismatch names the node's parameter. */
grail_status graph_widths(const graph *g, int64_t *widths) GRAIL_MUST_CHECK;

/** Values made before node `position` and read at or after it: live[] gets at most value_count
 * ids; returns how many. */
int graph_live_values(const graph *g, int position, int *live);

#endif
