/* Which channels of values must be cut together: runs of them, joined by the nodes that read and
 * make them (docs/extending.md, operators). */
#ifndef GRAIL_GRAPH_AXES_H
#define GRAIL_GRAPH_AXES_H

#include "graph/site.h"

/* A run of channels of a value: values are split wherever another one begins or ends with a part of
 * them. It has a place in a union-find over segments whose channels must be cut together. What
 * follows the parent is of the class, and counts at its root alone. */
typedef struct segment {
    int value;
    int64_t first, length;
    int parent;
    pin pinned;
    int pinned_at;            /* the node that pins it; GRAPH_NONE: no single one */
    bool summed;              /* an Add joins values of this class */
    bool made;                /* rows of a map make values of this class */
    bool normed;              /* a norm over all channels makes one of them */
    bool latent;              /* one of each row by itself */
    bool is_part;             /* of a value that has others */
    bool of_channels;         /* what requires the number of units takes each channel for one: it
                                 puts patches, or convolves in groups */
    int64_t units;            /* number of units that such a node or attention requires, 0 = none */
    int64_t groups, subunits; /* see site */
    int64_t narrowest;        /* of the lengths of its segments */
    int hop;                  /* the first convolution in groups that passes it on, GRAPH_NONE */
    int site;                 /* in the list, or -1 */
} segment;

/* Where segments of a value begin, but the first one, in ascending order. */
typedef struct borders {
    int64_t *at;
    int count;
} borders;

typedef struct axes {
    const graph *g;
    bool hops;         /* see axes_init */
    int64_t *widths;   /* [values] */
    borders *borders;  /* [values] */
    int *of;           /* [values + 1]: the first segment of each */
    segment *segments; /* [of[values]] */
} axes;

/** Follows all nodes of a graph, which must outlive it, and sums up each class. With `hops` a
 * convolution in groups passes on whole groups, each a unit, of what it reads as of what it makes;
 * else it parts them, and keeps some channels of each group. axes_fini frees; nothing is left of a
 * failure. */
grail_status axes_init(axes *a, const graph *g, gqa_mode mode, bool hops) GRAIL_MUST_CHECK;
void axes_fini(axes *a); /* works on a zeroed one */

/** The class of a segment: the root of those that are cut with it. */
segment *axes_class_of(const axes *a, int index);
/** That of a value's channels; NULL: they are in several segments. */
segment *axes_class_of_value(const axes *a, int value);

#endif
