/* Names of tensors in GGUF files, and the rows of q and k. */
#include "arch/gguf_family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct part_name {
    const char *part, *name;
} part_name;

static const part_name names[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

enum { PART_COUNT = sizeof names / sizeof names[0] };

/* NULL for a part that families in GGUF files do not have. */
static const char *name_of(const char *part)
{
    size_t i = 0;
    while (i < PART_COUNT && strcmp(names[i].part, part) != 0) {
        i++;
    }
    return i < PART_COUNT ? names[i].name : NULL;
}

gguf_part gguf_part_of(const char *parameter)
{
    static const char prefix[] = "model.layers.";
    gguf_part p = {.layer = GRAPH_NONE};
    if (strncmp(parameter, prefix, sizeof prefix - 1) == 0) {
        char *end = NULL;
        p.layer = (int)strtol(parameter + sizeof prefix - 1, &end, 10);
        parameter = *end == '.' ? end + 1 : end;
    }
    snprintf(p.part, sizeof p.part, "%s", parameter);
    char *kind = strrchr(p.part, '.');
    if (kind != NULL) {
        snprintf(p.kind, sizeof p.kind, "%s", kind + 1);
        *kind = 0;
    }
    return p;
}

grail_status gguf_family_check_biases(const gguf_family *family, const graph *g)
{
    for (int i = 0; i < g->parameter_count; i++) {
        const gguf_part p = gguf_part_of(g->parameters[i].name);
        if (strcmp(p.kind, "bias") == 0 && !gguf_is_listed(family->biases, p.part, false)) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "the architecture %s of GGUF files has no place for the bias '%s' "
                             "(attention_bias, mlp_bias)",
                             family->name, g->parameters[i].name);
        }
    }
    return GRAIL_OK;
}

bool gguf_parameter_name(const char *parameter, char name[DECODER_NAME_SIZE])
{
    const gguf_part p = gguf_part_of(parameter);
    if (name_of(p.part) == NULL) {
        return false;
    }
    const decoder_place place = gguf_place(NULL, p.layer, p.part, p.kind);
    memcpy(name, place.tensor, DECODER_NAME_SIZE);
    return true;
}

decoder_place gguf_place(const decoder_config *c, int layer, const char *part, const char *kind)
{
    (void)c;
    decoder_place place = {0};
    if (layer == GRAPH_NONE) {
        snprintf(place.tensor, sizeof place.tensor, "%s.%s", name_of(part), kind);
    } else {
        snprintf(place.tensor, sizeof place.tensor, "blk.%d.%s.%s", layer, name_of(part), kind);
    }
    return place;
}

/* Feature s head_dim / 2 + k of a head, which is turned with the one half a head away, lies in row
 * 2 k + s, beside it. */
static storage_axis rows_in_pairs(int64_t head_dim)
{
    return (storage_axis){.level = {{.count = head_dim / 2, .stride = 2},
                                    {.count = 2, .stride = 1},
                                    {.stride = head_dim}}};
}

decoder_place gguf_place_in_pairs(const decoder_config *c, int layer, const char *part,
                                  const char *kind)
{
    decoder_place place = gguf_place(c, layer, part, kind);
    if (strcmp(part, "self_attn.q_proj") == 0 || strcmp(part, "self_attn.k_proj") == 0) {
        place.map.rows = rows_in_pairs(c->head_dim);
    }
    return place;
}

/* Whether a layer has a bias of that part. */
static bool has_bias(const checkpoint *weights, const decoder_config *c, const char *part)
{
    bool found = false;
    for (int64_t layer = 0; layer < c->layers && !found; layer++) {
        const decoder_place place = gguf_place(c, (int)layer, part, "bias");
        found = checkpoint_find(weights, place.tensor) != NULL;
    }
    return found;
}

grail_status gguf_complete_config(const checkpoint *weights, decoder_config *c)
{
    grail_status status = GRAIL_OK;
    const gguf_family *family = NULL;
    float *divisors = NULL; /* of the rotary frequencies */
    const tensor_view *table = checkpoint_find(weights, GGUF_DIVISORS);
    const int64_t count = c->head_dim / 2;
    double *frequency = c->rotary[ROTARY_USUAL].frequency;
    TRY(gguf_family_find(weights, &family));
    c->place = family->rows_in_pairs ? gguf_place_in_pairs : gguf_place;
    c->qkv_bias = has_bias(weights, c, "self_attn.q_proj");
    c->output_bias = has_bias(weights, c, "self_attn.o_proj");
    c->mlp_bias = has_bias(weights, c, "mlp.up_proj");
    if (table == NULL || frequency == NULL) {
        goto out;
    }
    if (table->rank != 1 || table->shape[0] != count || !dtype_is_weight(table->dtype)) {
        FAIL(GRAIL_ERROR_SHAPE, "%s: tensor '" GGUF_DIVISORS "' does not hold %lld numbers",
             checkpoint_path(weights), (long long)count);
    }
    TRY(memory_new(&divisors, (size_t)count, sizeof divisors[0]));
    TRY(convert_to_f32(table->dtype, table->data, count, divisors));
    for (int64_t k = 0; k < count; k++) {
        if (!(divisors[k] > 0.0F)) {
            FAIL(GRAIL_ERROR_FORMAT,
                 "%s: tensor '" GGUF_DIVISORS "' holds %g at %lld; it must be above 0",
                 checkpoint_path(weights), (double)divisors[k], (long long)k);
        }
        frequency[k] = (double)(float)(frequency[k] / (double)divisors[k]);
    }
out:
    memory_free(divisors);
    return status;
}
