/* Attributes of operators that both the graph and the backends use. */
#ifndef GRAIL_GRAPH_ATTRIBUTES_H
#define GRAIL_GRAPH_ATTRIBUTES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum activation_kind {
#define ACTIVATION(kind, name) ACTIVATION_##kind,
#include "graph/activation_list.h"
#undef ACTIVATION
    ACTIVATION_KINDS
} activation_kind;

/** Positions of one sample: an image's height and width, or a sequence's length and 1. */
typedef struct extent {
    int64_t height, width;
} extent;

/** How a window moves along one axis. */
typedef struct window_axis {
    int64_t kernel; /* positions (taps) that it reads, `dilation` apart */
    int64_t stride, dilation;
    int64_t before, behind; /* positions around the input that it moves over, too */
} window_axis;

/** A window that moves over positions. Taps outside the input count as zero, or as -infinity for a
 * maximum. Output positions along an axis: (in + before + behind - dilation (kernel - 1) - 1) /
 * stride + 1, rounded down; with `rounds_up` rounded up, but none whose first tap lies behind the
 * input. */
typedef struct window2d {
    window_axis height, width;
    bool rounds_up;
} window2d;

/** A constant: one that moves alike along both axes, with as much padding on all sides. */
#define WINDOW2D(kernel_height, kernel_width, stride, padding, dilation)                           \
    {                                                                                              \
        {kernel_height, stride, dilation, padding, padding},                                       \
            {kernel_width, stride, dilation, padding, padding}, false                              \
    }

static inline int64_t window_taps(const window2d *w)
{
    return w->height.kernel * w->width.kernel;
}

/* -- what nodes of one kind are told ----------------------------------------------------------- */

/** RMS norm, batch norm, layer norm, group norm. */
typedef struct norm_attributes {
    double epsilon;
    int64_t group; /* RMS norm, group norm: features of a group, 0 = the entire width */
} norm_attributes;

/** Rotary positions. */
typedef struct rope_attributes {
    int64_t head_dim;
    int64_t turned;               /* the first features of each head; the others stay */
    double factor;                /* of what is turned */
    const double *frequency;      /* [turned / 2], borrowed from the graph */
    const double *long_frequency; /* likewise, in samples of more than `longest` positions; NULL:
                                     `frequency` there, too */
    int64_t longest;
    const double *angles; /* [positions, turned / 2], in place of position times frequency, borrowed
                             from the graph; NULL: none */
    int64_t positions;    /* that `angles` has, at most */
    bool neighbours;      /* a pair is two features side by side, not one of each half */
} rope_attributes;

typedef struct attention_attributes {
    int64_t head_dim;
    int64_t window;      /* rows seen, its own and those before; 0 = all */
    bool bidirectional;  /* each row also sees the rows after it, as many as before */
    bool narrows_values; /* a checkpoint states the width of values apart from that of keys, so that
                            it can be cut */
    double scale;        /* of the scores */
    double cap;          /* of scaled scores s, cap tanh(s / cap); 0: none */
    /* Added to scores, where the node's bias does not do so: */
    const double *biases; /* of bias_heads heads, each [2 positions - 1] or [positions, positions],
                             borrowed from the graph; NULL: none */
    int64_t bias_heads;   /* 1: those of all heads */
    int64_t positions;    /* at most, of biases or of the node's bias */
    bool by_distance;     /* of the key from the query, from -(positions - 1) on */
    int64_t bias_windows; /* squares of a table, one for each window; 0: one for all */
    extent windows;       /* rows and columns of windows, each attended to by itself; 0: none */
    bool spans_windows;   /* a row sees those at its place in all windows, in place of its own */
    extent roll;          /* rows and columns from which the first window begins */
} attention_attributes;

/** min(max(x, low), high) + offset */
typedef struct clamp_attributes {
    double low, high, offset;
} clamp_attributes;

/** scale x + offset, beside what parameters multiply and add */
typedef struct affine_attributes {
    double scale, offset;
} affine_attributes;

/** How a router chooses: in each row the outputs of the largest scores. Their shares are parts of a
 * sum over the chosen ones, or over all: of exp(score), or of sigmoid(score), which over all is the
 * share itself. */
typedef struct route_attributes {
    int64_t chosen; /* outputs of each row; of equal scores the first ones */
    bool over_all;
    bool sigmoid;          /* what is chosen by has the node's weight added */
    int64_t groups;        /* equal runs of outputs, of which those are chosen from whose */
    int64_t chosen_groups; /* best ones have the largest sums; 0: there are none */
    int64_t best;          /* outputs of a group that its sum counts */
    double scale;          /* of all shares; 0 counts as 1 */
} route_attributes;

/** Heads side by side of features that two inputs have of each. */
typedef struct join_attributes {
    int64_t first, second; /* features of a head in each input */
    bool shared;           /* the second one has a single head, which all of the first one's get */
} join_attributes;

/** How positions of another number are found between those that are there. */
typedef enum resize_values {
    RESIZE_LINEAR, /* by their distance from the two nearest ones */
    RESIZE_FLOOR,  /* that of one position alone */
    RESIZE_CEIL,
    RESIZE_NEAREST_LOWER, /* of two as near the first */
    RESIZE_NEAREST_UPPER
} resize_values;

/** Where position i of the output lies in the input, at a scale s = output / input. */
typedef enum resize_coordinates {
    RESIZE_HALF_PIXEL,      /* (i + 0.5) / s - 0.5 */
    RESIZE_HALF_PIXEL_OR_0, /* the same, 0 of a single one */
    RESIZE_ASYMMETRIC,      /* i / s */
    RESIZE_ALIGN_CORNERS    /* i (input - 1) / (output - 1), 0 of a single one */
} resize_coordinates;

typedef struct resize_attributes {
    resize_values values;
    resize_coordinates coordinates;
    double scale_height, scale_width; /* 0: that which makes `size` */
    extent size;
} resize_attributes;

/** A run of channels. */
typedef struct slice_attributes {
    int64_t first, length;
    bool stays;      /* nothing could tell another length */
    bool may_follow; /* but where the parts of what it reads keep as many channels each, it is right
                        by itself */
} slice_attributes;

/** Positions of each sample that are taken: all behind the first ones. */
typedef struct token_attributes {
    int64_t left_out;
    extent size; /* the image that they are; 0 x 0: none */
} token_attributes;

/** A run of what lies side by side in one position, as positions of channels. */
typedef struct unpack_attributes {
    int64_t first, channels;
    extent positions;
} unpack_attributes;

/** Which of the numbers that an id is made of (graph_input) an embedding takes rows by: what is
 * left of id / divisor, divided by the rows. Divisor 0: the id is the row. */
typedef struct embedding_attributes {
    int64_t divisor;
} embedding_attributes;

/** Squares of positions, each of which becomes one. */
typedef struct merge_attributes {
    int64_t height, width;
    bool columns_first; /* channels of a column side by side, then those of the next one; else rows
                         */
} merge_attributes;

/** Positions, of a parameter or, where there is none, of a table. */
typedef struct position_attributes {
    int64_t count;       /* of the table */
    const double *table; /* [count, width], borrowed from the graph */
    int64_t first;       /* rows of the parameter before that of the first position */
    bool may_be_fewer;   /* in the input, which then has the first ones */
    bool one_for_all;    /* all positions get the first row of the parameter, however many it has */
} position_attributes;

#endif
