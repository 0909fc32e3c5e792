/* Nodes: what a graph holds of each, and what follows from that alone. */
#ifndef GRAIL_GRAPH_NODE_H
#define GRAIL_GRAPH_NODE_H

#include "graph/attributes.h"
#include "runtime/region.h"

typedef enum node_kind {
#define OPERATOR(kind, name, ...) NODE_##kind,
#include "graph/operator_list.h"
#undef OPERATOR
} node_kind;

enum { GRAPH_NONE = -1, NODE_MAX_INPUTS = 8, NODE_MAX_PARAMETERS = 4 };

typedef struct node {
    node_kind kind;
    int block; /* GRAPH_NONE before the first block; block_count after the last */
    int input_count;
    int inputs[NODE_MAX_INPUTS]; /* values */
    int output;                  /* value */
    int weight, bias;            /* parameters or GRAPH_NONE */
    int mean, variance;          /* batch norm: parameters */
    union {                      /* what its kind is told (attributes.h), zeroed where nothing */
        activation_kind activation;
        norm_attributes norm;
        rope_attributes rope;
        attention_attributes attention;
        struct { /* convolution, maximum, mean over a window, shortcut, patches */
            window2d window;
            double ceiling; /* convolution, each channel's own, too: where not 0, min(max(., 0),
                               ceiling) follows in the same pass, after adding a second input if
                               there is one; only in fused graphs (exec/fuse.h) */
            int64_t groups; /* convolution: runs of channels, each made of the same run of those
                               that it reads alone; 0: one (node_groups) */
            bool is_whole;  /* convolution, maximum: the window is the image; the channels and
                               positions of a convolution lie side by side in its tensor, a matrix */
            bool counts_padding; /* mean over a window: as zeros */
            extent more; /* patches that are put: positions behind those that windows reach */
            int64_t pad; /* shortcut: zero channels on each side */
        };
        unpack_attributes unpack;
        embedding_attributes embedding;
        position_attributes positions;
        token_attributes tokens;
        route_attributes route;
        int64_t share; /* rows that are taken or put back: the router's output */
        double cap;    /* soft cap */
        clamp_attributes clamp;
        affine_attributes affine;
        double slope; /* prelu */
        join_attributes join;
        resize_attributes resize;
        slice_attributes slice;
        merge_attributes merge;
        int64_t zeros;  /* channels */
        region *region; /* borrowed from the graph */
        int64_t runs; /* shuffle: equal runs of channels, whose first ones come first, and so on */
        bool repeats_second; /* product, sum: the second input has one position per sample, or one
                                channel, or both, which stands for all of the first one's */
    };
} node;

/** Writes the parameters of a node in a fixed order to out[NODE_MAX_PARAMETERS]; returns their
 * number. */
int node_parameters(const node *n, int out[NODE_MAX_PARAMETERS]);

/** Output positions for those of an input; 0 along an axis where the window does not fit. */
extent window_positions(const window2d *w, extent in);

#endif
