/* Sites: the places where width can be cut, derived from the graph by following the channel axis.
 *
 * Linear and Conv2d start a new axis; BatchNorm, activations, pooling, rotary positions, norms by
 * the mean square, Add and Multiply pass it on and join it; a concatenation passes its inputs on as
 * segments of one value, and a slice a segment of its input; Attention couples the q, k and v head
 * axes and passes v's axis to its output; an embedding, scores and shares that route rows, a
 * LayerNorm, a node that mixes channels with positions, the network's input and its output pin it.
 * A convolution in groups requires that of each group as many channels stay, of what it reads and
 * of what it makes; which ones is free. An axis that is not pinned and has producers and consumers
 * is a site, and so are the outputs of a router, and the channels of values where a checkpoint
 * states their width. Where whole groups go instead, such a convolution passes them on as one for
 * each channel does: a group is a unit of a site beside those of its channels. */
#ifndef GRAIL_GRAPH_SITE_H
#define GRAIL_GRAPH_SITE_H

#include "graph/branches.h"

typedef enum site_kind {
    SITE_FFN,     /* neurons between Linears */
    SITE_HEADS,   /* attention heads or key/value groups */
    SITE_CONV,    /* channels between convolutions */
    SITE_STREAM,  /* channels of a residual stream, which residual Adds share */
    SITE_LATENT,  /* channels of a vector that a norm runs over, between Linears */
    SITE_VALUES,  /* channels of the values of attention: each head's, as many of all */
    SITE_EXPERTS, /* whole branches that a router chooses for rows; the router is the producer, and
                     there is no consumer, since what an expert makes goes with it */
    SITE_GROUPS,  /* whole groups of convolutions in groups: of what they read and what they make,
                     which are channels of other sites, too */
    SITE_KINDS
} site_kind;

typedef enum gqa_mode {
    GQA_KV_GROUPS,      /* unit = one key/value head with its query heads */
    GQA_QUERY_PER_GROUP /* unit = one query head; every group keeps the same number; k and v stay
                           uncut */
} gqa_mode;

/** One end of a site: a node whose rows (producer) or columns (consumer) are cut, or whose
 * parameters per channel are. */
typedef struct site_end {
    int node;
    int64_t first; /* row or column of the node's that is the first one of unit 0; columns of a
                      convolution count without its taps, and those of all groups one after the
                      other: group g has the g-th of equal runs of units */
    int64_t features_per_unit;
    bool exchangeable; /* a unit's features form `subunits` blocks that can be reordered */
} site_end;

/** Channels of a value that belong to a site: all of its units, one after the other. */
typedef struct site_segment {
    int value;
    int64_t first, features_per_unit;
} site_segment;

typedef struct site {
    char *name; /* the first consumer's parameter without its suffix, "....mlp.down_proj"; of
                   experts, latents and values the producer's, "....mlp.gate". Where it reads (or
                   makes) other channels, too, "[first channel]" follows. Whole groups have that
                   of the first convolution in groups, and "[groups]" */
    site_kind kind;
    int block;
    int64_t units;    /* n */
    int64_t groups;   /* equal runs of units that all keep the same number of units; 1 = no
                         constraint */
    int64_t subunits; /* blocks in a unit that can be reordered; 1 = none */
    site_end *producers;
    int producer_count;
    site_end *consumers;
    int consumer_count;
    site_end
        *channels; /* nodes with parameters per channel (BatchNorm), or per head, on the axis */
    int channel_count;
    site_segment *segments; /* none where they are not contiguous: of values and experts */
    int segment_count;
    bool is_part;               /* a value has other channels beside one of these segments */
    const struct site *measure; /* the site in the same list of whose kept units this one keeps as
                                   many, or a multiple, as all its units are; NULL: any number */
    const struct site *whole;   /* the site of whole groups in the same list that cuts the same
                                   channels; NULL: none. One of both is cut in a run */
    bool normed; /* a norm over all of the width is among them: what is left of it gets other
                    values when units go */
} site;

typedef struct site_list {
    site *sites; /* in the order of their consumers */
    int count;
} site_list;

/** What keeps channels from being a site. */
typedef enum pin {
    NOT_PINNED,
    PINNED_AT_ENDS,    /* the network's input or outputs, a norm, or what else has them all */
    PINNED_BY_REGION,  /* nodes of another program read or make them */
    PINNED_BY_SHUFFLE, /* they change places with others */
    PINNED_BY_TABLE,   /* of heads: their scores have biases that no tensor holds */
    PINNED_IN_PARTS,   /* groups or heads part them in ways that do not go together */
    PINNED_BY_NUMBERS, /* the network's file computes numbers of them that would not follow */
    PINS
} pin;

/** The maps whose channels, or a part of them, one cause pins. */
typedef struct pinned_maps {
    int count;
    int first; /* node; GRAPH_NONE: there is none */
    int at;    /* the node that pins its channels; GRAPH_NONE: no single one */
} pinned_maps;

/** out[PINS] <- those of each cause; *maps <- how many there are of all. */
grail_status sites_pinned(const graph *g, int *maps, pinned_maps out[PINS]) GRAIL_MUST_CHECK;

/** Derives all sites. site_list_fini frees. */
grail_status sites_derive(const graph *g, gqa_mode mode, site_list *out) GRAIL_MUST_CHECK;
void site_list_fini(site_list *list);

/** How many times as many units as its measure the site has; 1 without one. */
int64_t site_times(const site *s);

/** Index of the site of that name, or -1. */
int site_list_find(const site_list *list, const char *name);

/** "ffn", "heads", "conv", "stream", "latent", "values", "experts", "groups" */
const char *site_kind_name(site_kind kind);
/** Whether units of this kind of site are channels that several maps may read: not a decision for
 * one of them. */
bool site_kind_is_shared(site_kind kind);

/** Whether a run that cuts these kinds [SITE_KINDS] may cut the site: whole groups stand for their
 * channels. */
bool site_may_be_cut(const site *s, const bool *kinds);

/** The branches of a site of experts in the graph that it was derived from. */
branch_list site_branches(const graph *g, const site *s);

/** Whether the ends of a site lie in several blocks. The site is finished when the last of these
 * blocks is. */
bool site_spans_blocks(const graph *g, const site *s);

/** Whether a site is finished with the network alone: it spans blocks, or it is a part of values
 * that other sites cut, too. */
bool site_waits_for_network(const graph *g, const site *s);

/** Index of the last producer in the block of the first one: where a projection begins a residual
 * stream, the last convolution of that block's branch; where the stem does, the stem. */
int site_branch_producer(const graph *g, const site *s);

/** The number of parameters (weights and biases) of one unit of the site. */
int64_t site_parameters_per_unit(const graph *g, const site *s);

#endif
