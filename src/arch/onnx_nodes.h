/* The nodes of an ONNX file as nodes of a graph. A value of the graph is rows of channels; of a
 * value of ONNX it is known which dimension is the channel: the second one of [N, C, H, W] and [N,
 * C]. A node that the graph has no row for is refused by its name. */
#ifndef GRAIL_ARCH_ONNX_NODES_H
#define GRAIL_ARCH_ONNX_NODES_H

#include "format/onnx/onnx_copies.h"
#include "graph/graph.h"

enum { IMAGE_RANK = 4, FLAT_RANK = 2, RUNS_RANK = 5, GROUPS_RANK = 3 };

/* What is known of a value of ONNX. */
typedef struct onnx_known {
    int value;       /* of the graph; GRAPH_NONE: a constant, or not made yet */
    int64_t tensor;  /* the constant; -1: none */
    bool transposed; /* a matrix, and the other way round in its tensor */
    int rank;        /* IMAGE_RANK or FLAT_RANK: then positions lie beside channels, each channel
                        with all of its own, unless there is one */
    int64_t runs;    /* RUNS_RANK: [N, runs, C / runs, H, W]; GROUPS_RANK: [N, runs, C / runs H W],
                        each of which a norm runs over */
    bool one;        /* position in each sample */
    int64_t pads[4]; /* zeros that a Pad puts above, left, below and right, which no value holds */
    int64_t width;
    int64_t readers; /* inputs of nodes, and outputs of the network */
    int64_t depth;   /* nodes on the longest way to it */
} onnx_known;

/* An integer of the file that counts channels of a value of the graph. */
typedef struct onnx_count {
    int64_t tensor; /* -1: an attribute */
    int64_t node;
    const onnx_attribute *attribute;
    int64_t element;
    int value;
    int64_t times; /* positions that lie beside each channel; 0 counts as 1 */
} onnx_count;

typedef struct onnx_reading {
    const onnx_file *file;
    const onnx_copy_list *copies;
    graph *g;
    onnx_known *values;
    bool *is_read; /* of nodes */
    onnx_count *counts;
    int64_t count_count;
    const onnx_file_node *node; /* at hand */
} onnx_reading;

/** A refusal, whose message names the node at hand. */
grail_status onnx_in_node(const onnx_reading *r, grail_status status) GRAIL_MUST_CHECK;
grail_status onnx_misfit(const char *format, ...) GRAIL_PRINTF(1, 2) GRAIL_MUST_CHECK;

/** One for each operator: adds the node at hand, of that operator, to the graph. */
#define ONNX_OPERATOR(Name, name) grail_status onnx_read_##name(onnx_reading *r) GRAIL_MUST_CHECK;
#include "arch/onnx_operator_list.h"
#undef ONNX_OPERATOR

/** Adds node i of the file to the graph; what it reads is known. */
grail_status onnx_read_node(onnx_reading *r, int64_t i) GRAIL_MUST_CHECK;

#endif
