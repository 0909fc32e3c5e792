#include "arch/decoder_widths.h"

#include "arch/decoder.h"

#include <stdio.h>

/* Rows (or columns) of a weight of the layer; 0 where it has none. */
static int64_t width_of_part(const graph *g, int layer, const char *part, int axis)
{
    char name[3 * DECODER_NAME_SIZE];
    snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, part);
    const int found = graph_find_parameter(g, name);
    return found == GRAPH_NONE ? 0 : g->parameters[found].shape[axis];
}

/* 0 in a network without attention. */
static int64_t head_dim_of(const graph *g)
{
    for (int n = 0; n < g->node_count; n++) {
        if (g->nodes[n].kind == NODE_ATTENTION) {
            return g->nodes[n].attention.head_dim;
        }
    }
    return 0;
}

int64_t decoder_expert_width(const graph *g, int layer, int64_t expert)
{
    char part[DECODER_NAME_SIZE];
    char down[2 * DECODER_NAME_SIZE];
    decoder_name_expert(expert, part);
    snprintf(down, sizeof down, "%s.down_proj", part);
    return width_of_part(g, layer, down, 1);
}

decoder_widths decoder_widths_of(const graph *g, int layer)
{
    const int64_t stated = head_dim_of(g);
    const int64_t head_dim = stated > 0 ? stated : 1;
    const int64_t turned = width_of_part(g, layer, "self_attn.k_rope_proj", 0);
    decoder_widths w = {
        .intermediate = width_of_part(g, layer, "mlp.down_proj", 1),
        .heads = width_of_part(g, layer, "self_attn.q_proj", 0) / head_dim,
        .kv_heads = width_of_part(g, layer, "self_attn.k_proj", 0) / head_dim,
        .experts = width_of_part(g, layer, "mlp.gate", 0),
        .expert = decoder_expert_width(g, layer, 0),
        .shared = width_of_part(g, layer, "mlp.shared_expert.down_proj", 1),
    };
    if (turned > 0) {
        w.heads = width_of_part(g, layer, "self_attn.q_rope_proj", 0) / turned;
        w.kv_heads = w.heads;
        w.query_rank = width_of_part(g, layer, "self_attn.q_a_proj", 0);
        w.rank = width_of_part(g, layer, "self_attn.kv_a_proj", 0);
        w.value = width_of_part(g, layer, "self_attn.v_proj", 0) / w.heads;
    }
    for (int64_t e = 1; e < w.experts; e++) {
        w.experts_differ = w.experts_differ || decoder_expert_width(g, layer, e) != w.expert;
    }
    return w;
}

bool decoder_widths_lack_ffn(const decoder_widths *w)
{
    return w->intermediate == 0 && w->experts == 0;
}

bool decoder_widths_are_none(const decoder_widths *w)
{
    return decoder_widths_lack_ffn(w) && w->heads == 0;
}

enum { WIDTHS = sizeof(((decoder_widths *)NULL)->all) / sizeof(int64_t) };

bool decoder_widths_are_common(const decoder_widths *own, const decoder_widths *common)
{
    bool same = !own->experts_differ;
    for (int i = 0; i < WIDTHS; i++) {
        same = same && (own->all[i] == 0 || own->all[i] == common->all[i]);
    }
    return same;
}

decoder_shape decoder_shape_of(const graph *g)
{
    decoder_shape s = {.head_dim = head_dim_of(g), .uniform = true, .heads_uniform = true};
    decoder_widths *common = &s.common;
    for (int layer = g->block_count - 1; layer >= 0; layer--) {
        const decoder_widths own = decoder_widths_of(g, layer);
        for (int i = 0; i < WIDTHS; i++) {
            common->all[i] = own.all[i] > 0 ? own.all[i] : common->all[i];
        }
    }
    for (int layer = 0; layer < g->block_count; layer++) {
        const decoder_widths own = decoder_widths_of(g, layer);
        const bool none = decoder_widths_are_none(&own);
        s.layers += none ? 0 : 1;
        s.lacks_sublayers =
            s.lacks_sublayers || (!none && (own.heads == 0 || decoder_widths_lack_ffn(&own)));
        s.uniform = s.uniform && decoder_widths_are_common(&own, common);
        s.heads_uniform =
            s.heads_uniform &&
            (own.heads == 0 || (own.heads == common->heads && own.kv_heads == common->kv_heads &&
                                own.query_rank == common->query_rank && own.rank == common->rank &&
                                own.value == common->value));
    }
    s.uniform = s.uniform && !s.lacks_sublayers;
    return s;
}

int decoder_count_layers(const graph *g, int64_t end)
{
    int count = 0;
    for (int layer = 0; layer < g->block_count && layer < end; layer++) {
        const decoder_widths own = decoder_widths_of(g, layer);
        count += decoder_widths_are_none(&own) ? 0 : 1;
    }
    return count;
}
