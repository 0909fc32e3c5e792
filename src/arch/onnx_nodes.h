/* The nodes of an ONNX file as nodes of a graph. A value of the graph is rows of channels; of a
 * value of ONNX it is known which dimension is the channel: the second one of [N, C, H, W] and [N,
 * C]. A reader that has no row for its node refuses it by GRAIL_ERROR_UNSUPPORTED, and it becomes
 * part of a region (onnx_regions.h). */
#ifndef GRAIL_ARCH_ONNX_NODES_H
#define GRAIL_ARCH_ONNX_NODES_H

#include "format/onnx/onnx_copies.h"
#include "graph/graph.h"

enum { IMAGE_RANK = 4, FLAT_RANK = 2, ONNX_PIECES = 3, ONNX_LAYOUT_SIZE = 32 };

/* How many positions a sequence has where the file leaves that open: a prime that no size is a
 * multiple of, and that nothing of the graph depends on. */
enum { ONNX_OPEN_LENGTH = 99999989 };

/* Values at the end of those of a reading's file, which are made within a node (onnx_fused.c). */
enum { ONNX_SCRATCH_VALUES = 8 };

/* Whose channels a number of the file counts: of a value of the graph, or of a Linear (NULL:
 * neither). `outer` and `second`: the outermost of the pieces that they are seen as is in it, and
 * the next one. */
typedef struct onnx_channels {
    int value;  /* GRAPH_NONE: none */
    int linear; /* 0: none */
    bool outer, second;
} onnx_channels;

/* A number that the file states, or computes from sizes. */
typedef struct onnx_number {
    int64_t factor;
    double real;             /* where is_real */
    bool is_real, is_open;   /* open: it is not known */
    bool per_sample;         /* times the number of samples, which is not known */
    int64_t tensor, element; /* the constant that states it; -1: it is computed */
    int64_t reader;          /* the node by whose `input` that constant is read */
    int input;
    onnx_channels of; /* that it is computed from, in proportion */
    int64_t above;    /* more than that, which a division is to round off */
} onnx_number;

typedef struct onnx_numbers {
    bool is_known;
    int rank; /* 0 to 2 */
    int count;
    int columns; /* of a matrix */
    onnx_number *items;
} onnx_numbers;

/* A Linear, a convolution of single positions whose channels other nodes part, or some of its rows,
 * which is added to the graph where its output is read as a value:
 * until then it may get a bias, or be parted. */
typedef struct onnx_linear {
    int input; /* value of the graph */
    const tensor_view *weight, *bias;
    bool transposed;
    extent window;              /* positions that lie beside each channel of the input; 0: one */
    bool channels_last;         /* the channels of each of these positions do */
    bool is_convolution, mixes; /* it mixes positions, not channels */
    int64_t first, count;       /* rows; count 0: all */
    int64_t run, stride; /* of a part of each head: rows that follow each other, and from those of
                            one head to the next; 0: all do */
    int parent;          /* of a run: the Linear it is a part of; 0: none */
    int value;           /* its output; GRAPH_NONE before */
    int64_t node;        /* of the file: that makes it, or parts it */
} onnx_linear;

/* What a value is that is no value of the graph. */
typedef enum onnx_form {
    ONNX_VALUE,
    ONNX_SCORES,        /* of query and key, times the factor */
    ONNX_SHARES,        /* their softmax */
    ONNX_PROBABILITIES, /* of logits, which are the value; at the output alone */
    ONNX_TOKEN,         /* a constant [1, 1, C], repeated for each sample: `copy` */
    ONNX_TABLE,         /* `table`, `shape`: made of constants alone */
    ONNX_INDICES, /* a number for each sample, `width` apart; with `one` so many that follow it */
    ONNX_IDS,     /* an input of the network, rows of a table: onnx_inputs.h */
    ONNX_BOUNDED, /* depends on no sample: `bounds` */
    ONNX_ROWS,    /* of the table `copy`, from `bounds` on: onnx_bounds.h */
    ONNX_SUM,     /* of a value, over its positions */
    ONNX_PART     /* rows or columns of the value `query`, from `behind` up to `ahead` */
} onnx_form;

/* Between which numbers all elements of a value lie, whatever the samples hold. */
typedef struct onnx_bounds {
    double low, high;
    bool counts_up; /* by one from each position to the next, from `low` on */
    bool is_length; /* it is the number of positions */
} onnx_bounds;

/* An integer of the file that counts channels, or must stay as it is. */
typedef struct onnx_count {
    int64_t tensor; /* -1: an attribute; and without one, a number that is computed from `by` */
    int64_t node;   /* that counts by it */
    int64_t reader; /* of the tensor, by its `input` */
    int input;
    const onnx_attribute *attribute;
    int64_t element;
    onnx_channels of, by; /* of none: it stays */
    int slice;            /* 1 + the node that takes a run of the channels of a value, whose begin
                             the number is, or its end; 0: none */
    bool is_end;
    int grouped_by; /* 1 + the weight that has a column for each channel of a group, where it
                       counts the groups of `of`; 0: channels */
} onnx_count;

/* What is known of a value of ONNX. */
typedef struct onnx_known {
    int value;               /* of the graph; GRAPH_NONE: a constant, or not made yet */
    int linear;              /* that makes it; 0: none */
    int64_t tensor;          /* the constant; -1: none */
    const tensor_view *copy; /* of the constant, which is read in its place; NULL: none */
    bool transposed;         /* a matrix, and the other way round in its tensor */
    bool reshaped; /* has `rank` dimensions `shape`, which the constant's tensor has not */
    int rank;      /* of dimensions */
    int64_t shape[IMAGE_RANK];
    onnx_count count; /* of `shape`, once it is known of what channels; element -1: none */
    bool one;         /* position in each sample */
    int64_t pads[4];  /* zeros that a Pad puts above, left, below and right, which no value holds */
    bool pads_lowest; /* they are minus infinity, for maxima */
    int64_t width;
    /* "" where the dimensions are [N, C, H, W] or [N, C]. Else what each of them goes through,
     * between commas (nothing: a size of 1), the last letter the fastest: N samples, Y and X rows
     * and columns, T all positions, S those of keys, C channels; or these in pieces, P, H and D
     * from the outermost one on, H and D where they are two; R repeats of each head. Where rows and
     * columns are parted into windows, V rows and U columns of these, and Y and X those within. */
    char layout[ONNX_LAYOUT_SIZE];
    int64_t pieces[ONNX_PIECES]; /* sizes of P, H, D; 0: it is none */
    int64_t repeats;             /* size of R; 0: there is none */
    extent windows;              /* sizes of V and U, 1 where it is none; 0: there are none */
    bool spans_windows;          /* of scores: S are V and U, not Y and X */
    extent roll; /* rows and columns by which positions are moved up and left, and come in again */
    onnx_form form;
    onnx_bounds bounds;
    int input;      /* of ids: of the graph's */
    double factor;  /* that heads are to be multiplied by; 0 counts as 1 */
    double slope;   /* of scores: they are factor tanh(slope q . k); 0: factor q . k */
    int query, key; /* of scores and shares: values of the graph */
    int64_t behind; /* of scores and shares: rows seen up to a row's own, which counts */
    int64_t ahead;  /* and from there on; 0: all */
    int64_t biased; /* of scores and shares: 1 + the mask of the barriers that has biases; 0:
                       none */
    const tensor_view *biases; /* the tensor that has them for each head; NULL: that mask */
    int64_t window_masks;      /* 1 + the mask that hides keys in each window; 0: none */
    const double *table;       /* borrowed from the graph */
    int64_t readers;           /* inputs of nodes, and outputs of the network */
    int64_t depth;             /* nodes on the longest way to it */
} onnx_known;

typedef enum onnx_pattern_kind {
    ONNX_GELU,
    ONNX_GELU_TANH,
    ONNX_SLOPE, /* the larger one of a value and its multiple by `number` */
    ONNX_LAYER_NORM,
    ONNX_RMS_NORM,
    ONNX_ROTATION, /* by the cosines `number` and the sines `weight` */
    ONNX_RESPONSE_NORM
} onnx_pattern_kind;

/* Nodes of the file that are one of the graph: what they make of `input`. */
typedef struct onnx_pattern {
    onnx_pattern_kind kind;
    int64_t last, input;            /* node and value of the file */
    int64_t weight_node, bias_node; /* that read the weight and the bias */
    int64_t weight, bias;           /* of a norm; values of the file, -1 without */
    int64_t number;                 /* the slope, or a norm's epsilon; a value of the file */
    int64_t axis;                   /* of a norm */
    int64_t lengths;                /* of a response norm: the node that takes them of channels */
    int64_t reshapes[2];            /* of a rotation: nodes that state sizes; -1: none */
    bool is_doubled;                /* of a GELU: its 1/2 is not there */
} onnx_pattern;

typedef struct onnx_barriers onnx_barriers;

/* A value of the graph that stands for what a region will make. */
typedef struct onnx_stand_in {
    int value;
    extent positions;
} onnx_stand_in;

typedef struct onnx_reading {
    const onnx_file *original; /* which regions keep */
    onnx_file own;             /* the same with values of its own, owned, and more of them */
    const onnx_file *file;     /* own */
    const onnx_copy_list *copies;
    graph *g;
    onnx_known *values;
    bool *is_read; /* of nodes */
    onnx_count *counts;
    int64_t count_count;
    onnx_numbers *numbers; /* [values] */
    onnx_linear *linears;  /* the first one is none */
    int linear_count;
    extent *extents; /* of values of the graph */
    int extent_count;
    int64_t samples; /* that the file is for; 0: any number */
    graph_sizes asked;
    int64_t length;  /* positions of sequences, perhaps ONNX_OPEN_LENGTH */
    int64_t longest; /* sequences of which it is known what is seen */
    onnx_pattern *patterns;
    int64_t pattern_count;
    const onnx_file_node *node;  /* at hand */
    const onnx_file_node *fused; /* of which that is a step (onnx_fused.c); NULL: none */
    const int *places;           /* inputs of it that the step has as its own */
    bool *is_held;               /* of tensors: a node reads it that no row does */
    onnx_stand_in *stand_ins;
    int stand_in_count;
    onnx_barriers *barriers; /* what no row reads (onnx_regions.h) */
} onnx_reading;

/** The node at hand by its number in the file, and its input i by that of the file's node, -1 where
 * it has none. */
static inline int64_t onnx_node_number(const onnx_reading *r)
{
    return (r->fused != NULL ? r->fused : r->node) - r->file->nodes;
}

static inline int onnx_input_number(const onnx_reading *r, int i)
{
    return r->fused != NULL ? r->places[i] : i;
}

/** A refusal, whose message names the node at hand. */
grail_status onnx_in_node(const onnx_reading *r, grail_status status) GRAIL_MUST_CHECK;
grail_status onnx_misfit(const char *format, ...) GRAIL_PRINTF(1, 2) GRAIL_MUST_CHECK;

/** One for each operator: adds the node at hand, of that operator, to the graph. */
#define ONNX_OPERATOR(Name, name) grail_status onnx_read_##name(onnx_reading *r) GRAIL_MUST_CHECK;
#include "arch/onnx_operator_list.h"

/** The node at hand by the row of its operator. */
grail_status onnx_read_by_operator(onnx_reading *r) GRAIL_MUST_CHECK;
/** Adds node i of the file to the graph; what it reads is known. */
grail_status onnx_read_node(onnx_reading *r, int64_t i) GRAIL_MUST_CHECK;

#endif
