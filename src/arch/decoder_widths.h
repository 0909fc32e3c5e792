/* The widths of the layers of a narrowed decoder, read from its graph. */
#ifndef GRAIL_ARCH_DECODER_WIDTHS_H
#define GRAIL_ARCH_DECODER_WIDTHS_H

#include "graph/graph.h"

/** Zeros where the layer lacks its attention or its FFN; a layer that lacks both is left out. */
typedef struct decoder_widths {
    int64_t intermediate, heads, kv_heads;
} decoder_widths;

decoder_widths decoder_widths_of(const graph *g, int layer);
bool decoder_widths_are_none(const decoder_widths *w);
bool decoder_widths_are_same(const decoder_widths *a, const decoder_widths *b);

/** The widths of the first layer that has them; 0 where none has. */
decoder_widths decoder_common_widths(const graph *g);
/** 0 in a network without attention. */
int64_t decoder_head_dim(const graph *g);
/** Whether a layer that is not left out has no attention or no FFN. */
bool decoder_lacks_sublayers(const graph *g);
/** Whether all layers that are not left out have both, and the same widths. */
bool decoder_is_uniform(const graph *g);
/** Whether all layers that have attention have the same numbers of heads. */
bool decoder_heads_are_uniform(const graph *g);
/** Layers before `end` that are not left out. */
int decoder_count_layers(const graph *g, int64_t end);

#endif
