/* How families call what they have in common, and in which tensors, and which rows of them, their
 * parameters lie. */
#include "arch/decoder.h"

#include <stdio.h>
#include <string.h>

static const decoder_keys usual_keys = {DECODER_GROUPED_KEYS, .epsilon = "rms_norm_eps",
                                        .activation = "hidden_act"};

const decoder_keys *decoder_keys_of(const decoder_family *family)
{
    return family->keys.hidden == NULL ? &usual_keys : &family->keys;
}

void decoder_name_part(const char *layers, int layer, const char *part, const char *kind,
                       char name[DECODER_NAME_SIZE])
{
    const char *dot = kind[0] == 0 ? "" : ".";
    if (layer == GRAPH_NONE) {
        snprintf(name, DECODER_NAME_SIZE, "%s%s%s", part, dot, kind);
    } else {
        snprintf(name, DECODER_NAME_SIZE, "%s%d.%s%s%s", layers, layer, part, dot, kind);
    }
}

static const char experts_prefix[] = "mlp.experts.";

const char *decoder_expert_part(const char *part, int64_t *expert)
{
    const size_t length = sizeof experts_prefix - 1;
    const char *digit = part + length;
    if (strncmp(part, experts_prefix, length) != 0) {
        return NULL;
    }
    for (*expert = 0; *digit >= '0' && *digit <= '9'; digit++) {
        *expert = *expert * 10 + (*digit - '0');
    }
    return *digit == '.' ? digit + 1 : NULL;
}

void decoder_name_expert(int64_t expert, char name[DECODER_NAME_SIZE])
{
    snprintf(name, DECODER_NAME_SIZE, "%s%lld", experts_prefix, (long long)expert);
}

const char *decoder_name_in(const decoder_name *names, const char *part)
{
    for (const decoder_name *n = names; n->part != NULL; n++) {
        if (strcmp(n->part, part) == 0) {
            return n->tensor;
        }
    }
    return NULL;
}

static decoder_place place_named(const decoder_config *c, int layer, const char *part,
                                 const char *kind)
{
    decoder_place place = {0};
    char name[DECODER_NAME_SIZE];
    const decoder_family *family = c->family;
    const char *layers = family->layers == NULL ? "model.layers." : family->layers;
    const char *own = decoder_name_in(family->names, part);
    const bool is_bare = family->prefix == NULL || strcmp(part, "lm_head") == 0;
    decoder_name_part(layers, layer, own == NULL ? part : own, kind, name);
    snprintf(place.tensor, sizeof place.tensor, "%s%s", is_bare ? "" : family->prefix, name);
    return place;
}

decoder_place decoder_place_rows(const decoder_config *c, int layer, const char *fused,
                                 const char *kind, int64_t first, int64_t rows)
{
    decoder_place place = place_named(c, layer, fused, kind);
    place.map = storage_rows(first, rows);
    return place;
}

/* Parts of a layer that may share a tensor with others. */
typedef struct fused_part {
    const char *part, *tensor;
    int64_t first, rows;
} fused_part;

decoder_place decoder_place_plain(const decoder_config *c, int layer, const char *part,
                                  const char *kind)
{
    if (layer == GRAPH_NONE) {
        return place_named(c, layer, part, kind);
    }
    const decoder_layer *l = &c->layer[layer];
    const int64_t q = l->heads * c->head_dim;
    const int64_t k = l->kv_heads * c->head_dim;
    const fused_part parts[] = {
        {"self_attn.q_proj", c->family->qkv, 0, q},
        {"self_attn.k_proj", c->family->qkv, q, k},
        {"self_attn.v_proj", c->family->qkv, q + k, k},
        {"mlp.gate_proj", c->family->gate_up, 0, l->intermediate},
        {"mlp.up_proj", c->family->gate_up, l->intermediate, l->intermediate}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].tensor != NULL && strcmp(parts[i].part, part) == 0) {
            return decoder_place_rows(c, layer, parts[i].tensor, kind, parts[i].first,
                                      parts[i].rows);
        }
    }
    return place_named(c, layer, part, kind);
}

decoder_place_function decoder_place_by(const decoder_family *family)
{
    return family->place == NULL ? decoder_place_plain : family->place;
}

decoder_place decoder_head_place(const decoder_family *family)
{
    const decoder_config plain = {.family = family};
    return decoder_place_by(family)(&plain, GRAPH_NONE, "lm_head", "weight");
}
