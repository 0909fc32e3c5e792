/* The graph: nodes in topological order over values, built per architecture.
 *
 * A value is a matrix [rows, width], rows = samples x positions (sequence positions, or height x
 * width of an image, channel last), or as many of them as a router chose; a node reads up to eight
 * values and makes one. Widths are not stored; they follow from the shapes of the parameters, so a
 * narrowed model is the same graph with other shapes. */
#ifndef GRAIL_GRAPH_GRAPH_H
#define GRAIL_GRAPH_GRAPH_H

#include "base/slot_table.h"
#include "graph/node.h"
#include "graph/storage.h"

typedef enum input_kind { INPUT_TOKENS, INPUT_IMAGES } input_kind;

enum { IMAGE_CHANNELS = 3, GRAPH_LARGEST_INTEGER = 1 << 24 /* which F32 holds with all before */ };

/* A parameter lies in a tensor of the checkpoint as its map says, which is that of the dense
 * network also where the graph is narrowed. */
typedef struct graph_parameter {
    char *name; /* name of the checkpoint tensor; for a part, followed by "[first row]" */
    char *tensor;
    storage_map map;
    int rank;
    int64_t shape[PARAMETER_MAX_RANK];
} graph_parameter;

/* One of several inputs of a network. Integers for each position are one id together, where all
 * inputs are such: the sum of each one times its divisor. Others lie side by side in a sample of
 * one position, each as its positions, channels last; integers beside them as exact values in
 * columns, up to GRAPH_LARGEST_INTEGER. */
typedef struct graph_input {
    char *name;
    extent positions;   /* of inputs side by side */
    int64_t channels;   /* of those; 0: it is a part of an id */
    int64_t first;      /* column of a sample in which it begins */
    int rank;           /* dimensions of its arrays, that of the samples among them */
    bool channels_last; /* of three, so lie its arrays */
    bool are_integers;
    bool are_truths; /* integers 0 and 1 */
    int64_t rows; /* of the tables that it chooses from; 0: it chooses from none, and as a part of
                     an id is a mask, 1 where positions count */
    int64_t divisor; /* 0: of a mask */
    int64_t padding; /* which its network's file takes for padding, so that no sample has it;
                        GRAPH_NONE: none */
} graph_input;

/* Sizes of inputs for a run, where the network's file leaves them open: of images, and positions of
 * what lies beside them; 0: none. */
enum { GRAPH_NAMED_SIZES = 16 };
typedef struct graph_sizes {
    int64_t height, width, length;
    struct named_size {
        const char *name; /* that the file has for a size, of which it is */
        int64_t size;
    } named[GRAPH_NAMED_SIZES];
    int named_count;
} graph_sizes;

/* What the network gives. Its channels are never cut. */
typedef struct graph_output {
    int value;
    char *name;       /* in the network's file; NULL: it has none there */
    char *stands_for; /* outputs of the file that other nodes make of it; NULL: it is one itself */
    bool is_logits;   /* of classes or tokens: what a softmax makes probabilities of */
} graph_output;

typedef struct graph {
    node *nodes;
    int node_count;
    graph_parameter *parameters;
    int parameter_count;
    slot_table names; /* of the parameters */
    int value_count;
    int *value_source; /* node that makes each value, GRAPH_NONE for the input */
    int *last_use;     /* last node that reads each value, node_count for outputs */
    int *routes;       /* the value that was made by taking the rows that each value has; GRAPH_NONE
                          where its rows are samples x positions */
    int block_count;
    int input, output;     /* values: token ids or pixels, the first of the outputs */
    graph_output *outputs; /* [output_count] */
    int output_count;
    int *pinned; /* [pinned_count] values whose channels stay */
    int pinned_count;
    input_kind input_kind;
    graph_input *inputs; /* [input_count], of a file that names them: those that ids are made of */
    int input_count;
    int64_t context;    /* positions that samples of ids have at most; 0: what describes the network
                           says it */
    extent image;       /* positions that the network expects; 0 = any */
    graph_sizes asked;  /* by settings */
    bool in_row;        /* it reads [samples, channels, positions]: images of width 1 */
    bool channels_last; /* its file reads [samples, height, width, channels] */
    int64_t channels;   /* of images; usually IMAGE_CHANNELS */
    double **tables;    /* [table_count] owned: what rope and position nodes borrow */
    int table_count;
    region **regions; /* [region_count] owned, which nodes of other programs borrow */
    int region_count;
    int64_t vocabulary; /* token ids are below it */
    bool one_width; /* in a block the FFNs of branches have one width, and others a multiple of it:
                       what describes the network has one number for them */
    bool gives_hidden;   /* networks that read tokens: the output is hidden states, no logits */
    bool before_softmax; /* a Softmax of the file is behind the output, which is its logits */
    int64_t classes; /* networks that read images: outputs of the head; 0 = no head, the output is
                        features */
} graph;

/** An empty graph with one value, the input. *out is owned: graph_free. */
grail_status graph_create(graph **out) GRAIL_MUST_CHECK;
void graph_free(graph *g); /* NULL is allowed */

/** Adds a parameter; *out is its index. The name is copied. An existing name must have the same
 * shape and gives the same index (tied weights). */
grail_status graph_add_parameter(graph *g, const char *name, int rank, const int64_t shape[],
                                 int *out) GRAIL_MUST_CHECK;

/** Adds a parameter that lies in a tensor as `map` says. The name is its own in the graph. */
grail_status graph_add_stored(graph *g, const char *name, const char *tensor,
                              const storage_map *map, int rank, const int64_t shape[],
                              int *out) GRAIL_MUST_CHECK;

/** Shape and place of a parameter. */
stored_matrix graph_stored(const graph_parameter *p);

/** Kernel positions of a weight: 1 of a Linear. */
int64_t weight_taps(const graph_parameter *weight);

/** Whether the node that read the parameter was taken out of the graph (graph_bypass). */
bool graph_parameter_is_gone(const graph_parameter *p);

/** Whether embeddings alone read the parameter, which is then never in memory as a whole. */
bool graph_is_table(const graph *g, int parameter);

/** Whether the parameter is the weight of Linears and nothing else. */
bool graph_is_linear_weight(const graph *g, int parameter);

/** A node of that kind and block with up to two inputs (GRAPH_NONE = none) and no parameters. */
node node_of(node_kind kind, int block, int left, int right);

/** Index of the parameter of that name, or GRAPH_NONE. */
int graph_find_parameter(const graph *g, const char *name);

/** Adds a copy of `n`; its output field is set to a new value, also stored in *out. It must read as
 * many values as the row of its kind says (operator_list.h), all of which are there. */
grail_status graph_add_node(graph *g, const node *n, int *out) GRAIL_MUST_CHECK;

/** Takes *table over, which nodes of the graph may borrow from then on, and leaves NULL. */
grail_status graph_own_table(graph *g, double **table) GRAIL_MUST_CHECK;

/** The same of a region. */
grail_status graph_own_region(graph *g, region **r) GRAIL_MUST_CHECK;

/** Adds an input that ids are made of. The name is copied. */
grail_status graph_add_input(graph *g, const char *name, int64_t rows) GRAIL_MUST_CHECK;

/** The channels of a value stay, though nodes would let them go. */
grail_status graph_pin(graph *g, int value) GRAIL_MUST_CHECK;

/** Adds an output, of which the first is g->output. The name is copied; NULL: none. */
grail_status graph_add_output(graph *g, int value, const char *name,
                              bool is_logits) GRAIL_MUST_CHECK;

/** Notes of output i of the graph that it stands for the one of that name in the network's file,
 * which is made of it by nodes that the graph has not. */
grail_status graph_stand_for(graph *g, int i, const char *name) GRAIL_MUST_CHECK;

/** Fills the indices of values, and checks shapes: graph_widths must succeed, and what reads routed
 * rows must work on each row alone. */
grail_status graph_index(graph *g) GRAIL_MUST_CHECK;

/** graph_index, with `output` for the only output: logits where graph_gives_features says so. */
grail_status graph_finish(graph *g, int output) GRAIL_MUST_CHECK;

/** Between which numbers the integers of an input lie that samples hold as values. */
void graph_integer_range(const graph_input *input, int64_t *least, int64_t *most);

/** Whether samples hold integers as values, which must be exact. */
bool graph_holds_integers(const graph *g);

/** Whether the first output is features or hidden states, not logits. */
bool graph_gives_features(const graph *g);

/** The node that reads a value, if it is the only one and reads it once; GRAPH_NONE otherwise, and
 * for outputs of the network. */
int graph_sole_reader(const graph *g, int value);

/** The nodes of a block: *begin .. *end - 1. `block` may be block_count (the nodes after the last
 * block) or GRAPH_NONE (those before the first). */
void graph_block_range(const graph *g, int block, int *begin, int *end);

/** Fills widths[value_count] from the parameters' shapes. The message about a mismatch names the
 * node's parameter. */
grail_status graph_widths(const graph *g, int64_t *widths) GRAIL_MUST_CHECK;

/** The width of the first output. */
grail_status graph_output_width(const graph *g, int64_t *out) GRAIL_MUST_CHECK;

/** Fills extents[value_count] for an input of these positions. An error names the node whose window
 * does not fit, or which expects another number of positions. */
grail_status graph_extents(const graph *g, extent input, extent *extents) GRAIL_MUST_CHECK;

/** Elements of the largest value of one sample that nodes [begin, end) make, and for node 0 of the
 * input, which has these positions; 1 where there are none. */
grail_status graph_largest_value(const graph *g, extent input, int begin, int end,
                                 int64_t *elements) GRAIL_MUST_CHECK;

/** Takes nodes [begin, end) out: what read the value of the last of them reads `instead`, a value
 * that is made before them, and no other node may read the values of the others. Values and
 * parameters keep their indices; a parameter that no node reads any more has no elements. */
grail_status graph_bypass(graph *g, int begin, int end, int instead) GRAIL_MUST_CHECK;

/** Writes the values that are made before node `position` and read at or after it to
 * live[value_count]; returns their number. */
int graph_live_values(const graph *g, int position, int *live);

#endif
