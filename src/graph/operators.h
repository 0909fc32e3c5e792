/* What is known of every kind of node: one row each, in operator_list.h. Graph, sites and all that
 * works on graphs ask for these properties and rules; running a node is exec/ops/NAME.c. */
#ifndef GRAIL_GRAPH_OPERATORS_H
#define GRAIL_GRAPH_OPERATORS_H

#include "graph/graph.h"

/** What a node does with the channel axis of its inputs. */
typedef enum axis_rule {
    AXIS_CARRIES, /* the output has the channels of the input */
    AXIS_STARTS,  /* ends the input's axis and starts another one: a map by weight[out, in, ...] */
    AXIS_ENDS,    /* what it reads and what it makes are no channels that could be cut */
    AXIS_JOINS,   /* both inputs have the channels of the output, unless the second has but one */
    AXIS_SUMS,    /* the same, and the output is a residual stream */
    AXIS_BESIDE,  /* the output has the channels of both inputs, unless the second is shared */
    AXIS_HEADS,   /* couples heads of q, k and v; the output has the channels of q */
    AXIS_ROUTED,  /* the output has the channels of the first input, and of a sum that it is added
                     to, by shares that are not cut */
    AXIS_PATCHES, /* the output has a channel for each run of positions' channels of the input */
    AXIS_CONCAT,  /* those of all inputs, one after the other */
    AXIS_SLICE,   /* a run of those of the input */
    AXIS_FRESH    /* channels that no input has, and no parameter makes */
} axis_rule;

/** Which inputs' memory the output may take when nothing else reads them. */
typedef enum in_place_rule {
    IN_PLACE_NEVER,
    IN_PLACE_ANY,
    IN_PLACE_SECOND, /* of the second and later inputs */
    IN_PLACE_THIRD
} in_place_rule;

/** What a node does with rows. */
typedef enum row_rule {
    ROWS_BY_POSITION, /* looks at samples and positions, which the rows are */
    ROWS_ALONE,       /* makes each row from that row, so that rows may be any */
    ROWS_TAKEN,       /* data choose the rows: there may be none */
    ROWS_PUT          /* back in their places */
} row_rule;

/** The output's width. */
typedef enum width_rule {
    WIDTH_KEPT,     /* that of the first input */
    WIDTH_ROWS,     /* of the weight */
    WIDTH_COLUMNS,  /* of the weight */
    WIDTH_PADDED,   /* by `pad` channels on both sides */
    WIDTH_WINDOWS,  /* all positions of a window side by side */
    WIDTH_MERGED,   /* those of a square */
    WIDTH_PATCHES,  /* of the channels of which all positions of a window are side by side */
    WIDTH_BESIDE,   /* of both inputs, head by head */
    WIDTH_HEADS,    /* as many heads as the first input has, as wide as those of the third */
    WIDTH_SUM,      /* of all inputs */
    WIDTH_SLICE,    /* of the run */
    WIDTH_FRESH,    /* `zeros` */
    WIDTH_UNPACKED, /* as the node states them */
    WIDTH_REGION    /* as the region states it */
} width_rule;

typedef struct operator_rules {
    const char *name;
    int inputs;      /* values that it reads; only a fused graph adds one (exec/fuse.h) */
    int most_inputs; /* where it can read more than that; 0: it cannot */
    axis_rule axis;
    row_rule rows;
    /** Whether the axis that it carries cannot be cut; NULL: it can. */
    bool (*pins)(const node *n);
    /** Whether it divides by a mean over all channels, of their squares or lengths, so that those
     * that are left change when others go; it has a weight for each. NULL: it does not. */
    bool (*norms_width)(const node *n);
    width_rule width;
    /** Whether the inputs' widths fit the parameters and each other; NULL: they do. */
    grail_status (*check)(const graph *g, const node *n, const int64_t *in);
    /** The output's positions, from those of the inputs; NULL: those of the first one. */
    grail_status (*extent)(const graph *g, const node *n, const extent *in, extent *out);
    in_place_rule in_place;
    bool gathers;         /* token ids pick rows of its weight, which is never loaded as a whole */
    bool moves_window;    /* over positions */
    bool per_channel;     /* its parameters have as many rows for each channel or head, which are
                             cut with it */
    bool keeps_zeros;     /* of a row of zeros it makes zeros */
    bool may_overflow;    /* its output is searched for NaN and infinity */
    bool looks_at_inputs; /* on the way back, and at the output */
    bool looks_at_output;
} operator_rules;

const operator_rules *operator_of(const node *n);

/** Whether the node is a map by weight[out, in, ...]: a producer or consumer of sites. */
bool node_is_map(const node *n);
/** Whether it is a map of every row on its own, y = W x + b. */
bool node_is_linear(const node *n);
/** Whether it is a map of patches: its weight has kernel positions. */
bool node_is_convolution(const node *n);
/** Whether it is one whose kernel positions can be fitted each by itself: there are few, and each
 * image has many outputs. */
bool node_fits_taps(const node *n);
/** Whether it divides rows by what all of their channels are, so that each changes with the others.
 */
bool node_norms_width(const node *n);
/** Whether it is a norm of each row by itself, or of its groups. */
bool node_norms_rows(const node *n);
/** Whether its parameters have as many rows for each channel or head. */
bool node_has_channels(const node *n);
/** Whether it multiplies what a window reads by kernels. */
bool node_has_kernels(const graph *g, const node *n);
/** The groups of its channels that read each other alone; 1 of most. */
int64_t node_groups(const node *n);
/** Whether it adds two values of one shape. */
bool node_is_sum(const node *n);
/** Whether it makes shares of a router's scores. */
bool node_is_route(const node *n);
/** Whether any of its outputs could be missing: none is in a group. */
bool node_routes_freely(const node *n);
/** Whether it multiplies each channel by a number, and may add one. */
bool node_scales_channels(const node *n);
/** Whether it normalises by a stored mean and variance per channel. */
bool node_has_moments(const node *n);
/** The largest value that it lets through where it is min(max(., 0), that), which convolutions can
 * do in their own pass; else 0. */
double node_ceiling(const node *n);

/** Multiply-accumulates for one sample with an output of these positions: at each of them, one for
 * every element of the weight of a map, or of kernels per channel; of rows that a router chose, as
 * many as each output gets on average. One factor per channel is no such product. */
int64_t node_products(const graph *g, const node *n, extent output);

/** Channels that an output shares with an input: those from `from` on are those from `to` on of the
 * output. */
typedef struct channel_run {
    int input;
    int64_t from, to, length;
} channel_run;

/** The runs of channels that the node passes on, for inputs of these widths; returns their number.
 * None of a map, and of a node whose rule looks at heads. */
int node_channel_runs(const node *n, const int64_t in[NODE_MAX_INPUTS],
                      channel_run out[NODE_MAX_INPUTS]);

/** The width of the node's output, where its weight (NULL without) has this shape. */
int64_t node_width(const node *n, const int64_t *weight, const int64_t in[NODE_MAX_INPUTS]);
/** Whether its inputs' widths fit its parameters and each other. */
grail_status node_check(const graph *g, const node *n,
                        const int64_t in[NODE_MAX_INPUTS]) GRAIL_MUST_CHECK;
/** Where its output has rows that were chosen: what chose them (graph.routes), else GRAPH_NONE. */
int node_route(const graph *g, const node *n);
/** The node that chose the rows that it reads, NULL where they are all, and in *outputs from how
 * many outputs. */
const node *node_router(const graph *g, const node *n, int64_t *outputs);
/** The share of all rows that it reads, on average over what a router chooses from; 1 without one.
 */
double node_row_share(const graph *g, const node *n);
/** Whether it can work on the rows that its inputs have. */
grail_status node_check_rows(const graph *g, const node *n) GRAIL_MUST_CHECK;
/** The positions of its output, from those of its inputs and, last, of the network's; of chosen
 * rows, all that they were chosen from. */
grail_status node_extent(const graph *g, const node *n, const extent in[NODE_MAX_INPUTS + 1],
                         extent *out) GRAIL_MUST_CHECK;

#endif
