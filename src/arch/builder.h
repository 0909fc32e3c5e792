/* A graph while it is built: that of a decoder, for families whose graphs begin or end in ways of
 * their own, or one of other layers. */
#ifndef GRAIL_ARCH_BUILDER_H
#define GRAIL_ARCH_BUILDER_H

#include "arch/decoder.h"

struct builder {
    graph *g;
    const decoder_config *c;
    rotary rotary[ROTARY_KINDS]; /* whose tables the graph owns */
    int layer;                   /* whose parameters are added; GRAPH_NONE outside of all */
    int block;                   /* of the nodes */
};

/** Parameter PART.KIND of the layer that is being built, or outside of all, from where the family
 * stores it, plus `offset`. */
grail_status build_part(builder *b, const char *part, const char *kind, double offset, int rank,
                        const int64_t shape[], int *out) GRAIL_MUST_CHECK;
/** value = linear(input) with PART.weight and PART.bias. */
grail_status build_linear(builder *b, const char *part, bool bias, int64_t in, int64_t out,
                          int input, int *value) GRAIL_MUST_CHECK;
/** value = conv(value) with PART.weight and PART.bias. */
grail_status build_conv(builder *b, const char *part, bool bias, int64_t in, int64_t out,
                        const window2d *window, int *value) GRAIL_MUST_CHECK;
grail_status build_activation(builder *b, activation_kind kind, int *value) GRAIL_MUST_CHECK;
grail_status build_norm(builder *b, const char *part, int64_t width, int64_t group, int input,
                        int *value) GRAIL_MUST_CHECK;
/** A node without parameters. */
grail_status build_plain(builder *b, node_kind kind, int left, int right,
                         int *value) GRAIL_MUST_CHECK;

#endif
