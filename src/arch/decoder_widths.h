/* The widths of the layers of a narrowed decoder, read from its graph. */
#ifndef GRAIL_ARCH_DECODER_WIDTHS_H
#define GRAIL_ARCH_DECODER_WIDTHS_H

#include "graph/graph.h"

/** Zeros where the layer lacks its attention or its FFN; a layer that lacks both is left out. A
 * layer with experts has no `intermediate`. */
typedef struct decoder_widths {
    union {
        struct {
            int64_t intermediate, heads, kv_heads;
            int64_t experts, expert;         /* their number, and the width of the first */
            int64_t shared;                  /* width of the expert of all rows */
            int64_t query_rank, rank, value; /* of attention by decoder_latent */
        };
        int64_t all[9];
    };
    bool experts_differ; /* in width */
} decoder_widths;

decoder_widths decoder_widths_of(const graph *g, int layer);
bool decoder_widths_are_none(const decoder_widths *w);
/** Whether the layer has neither an FFN nor experts. */
bool decoder_widths_lack_ffn(const decoder_widths *w);
/** The width of an expert of a layer. */
int64_t decoder_expert_width(const graph *g, int layer, int64_t expert);
/** Whether what the layer has is as wide as in `common`. */
bool decoder_widths_are_common(const decoder_widths *own, const decoder_widths *common);

/** What the layers have in common. */
typedef struct decoder_shape {
    decoder_widths common; /* of the first layer that has them; 0 where none has */
    int64_t head_dim;      /* 0 in a network without attention */
    int layers;            /* that are not left out */
    bool lacks_sublayers;  /* one of these has no attention or no FFN */
    bool uniform;          /* they have both, and what is of one kind the same widths */
    bool heads_uniform;    /* those that have attention have the same numbers of heads */
} decoder_shape;
decoder_shape decoder_shape_of(const graph *g);

/** Layers before `end` that are not left out. */
int decoder_count_layers(const graph *g, int64_t end);

#endif
