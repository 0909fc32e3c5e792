/* In which tensors, and which rows of them, parameters of decoders lie. */
#include "arch/decoder.h"

#include <stdio.h>
#include <string.h>

void decoder_name_part(const char *layers, int layer, const char *part, const char *kind,
                       char name[DECODER_NAME_SIZE])
{
    if (layer == GRAPH_NONE) {
        snprintf(name, DECODER_NAME_SIZE, "%s.%s", part, kind);
    } else {
        snprintf(name, DECODER_NAME_SIZE, "%s%d.%s.%s", layers, layer, part, kind);
    }
}

static const char *name_of(const decoder_family *family, const char *part)
{
    for (const decoder_name *n = family->names; n != NULL && n->part != NULL; n++) {
        if (strcmp(n->part, part) == 0) {
            return n->tensor;
        }
    }
    return part;
}

decoder_place decoder_place_plain(const decoder_config *c, int layer, const char *part,
                                  const char *kind)
{
    decoder_place place = {0};
    char name[DECODER_NAME_SIZE];
    const decoder_family *family = c->family;
    const char *layers = family->layers == NULL ? "model.layers." : family->layers;
    const bool is_bare = c->prefix == NULL || strcmp(part, "lm_head") == 0;
    decoder_name_part(layers, layer, name_of(family, part), kind, name);
    snprintf(place.tensor, sizeof place.tensor, "%s%s", is_bare ? "" : c->prefix, name);
    return place;
}

decoder_place decoder_place_rows(const decoder_config *c, int layer, const char *fused,
                                 const char *kind, int64_t first, int64_t rows)
{
    decoder_place place = decoder_place_plain(c, layer, fused, kind);
    place.map = storage_rows(first, rows);
    return place;
}

decoder_place decoder_place_fused(const decoder_config *c, int layer, const char *part,
                                  const char *kind, const char *qkv, const char *gate_up)
{
    const decoder_layer *l = layer == GRAPH_NONE ? NULL : &c->layer[layer];
    if (l == NULL) {
        return decoder_place_plain(c, layer, part, kind);
    }
    const int64_t q = l->heads * c->head_dim;
    const int64_t k = l->kv_heads * c->head_dim;
    if (qkv != NULL && strcmp(part, "self_attn.q_proj") == 0) {
        return decoder_place_rows(c, layer, qkv, kind, 0, q);
    }
    if (qkv != NULL && strcmp(part, "self_attn.k_proj") == 0) {
        return decoder_place_rows(c, layer, qkv, kind, q, k);
    }
    if (qkv != NULL && strcmp(part, "self_attn.v_proj") == 0) {
        return decoder_place_rows(c, layer, qkv, kind, q + k, k);
    }
    if (gate_up != NULL && strcmp(part, "mlp.gate_proj") == 0) {
        return decoder_place_rows(c, layer, gate_up, kind, 0, l->intermediate);
    }
    if (gate_up != NULL && strcmp(part, "mlp.up_proj") == 0) {
        return decoder_place_rows(c, layer, gate_up, kind, l->intermediate, l->intermediate);
    }
    return decoder_place_plain(c, layer, part, kind);
}

decoder_place decoder_place_interleaved(const decoder_config *c, decoder_place place)
{
    place.map.rows =
        (storage_axis){.first = place.map.rows.first,
                       .level = {{c->head_dim / 2, 2},
                                 {2, 1},
                                 {place.map.rows.level[0].count / c->head_dim, c->head_dim}}};
    return place;
}
