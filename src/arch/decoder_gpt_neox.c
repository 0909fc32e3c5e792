/* GPT-NeoX and Pythia. Source: configuration_gpt_neox.py and modeling_gpt_neox.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

#include <string.h>

/* q, k and v of every head, one head after another. */
static decoder_place place(const decoder_config *c, int layer, const char *part, const char *kind)
{
    static const char *const parts[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    for (int64_t i = 0; i < 3; i++) {
        if (layer != GRAPH_NONE && strcmp(part, parts[i]) == 0) {
            const int64_t heads = c->layer[layer].heads;
            decoder_place place = decoder_place_plain(c, layer, "attention.query_key_value", kind);
            place.map.rows = (storage_axis){.first = i * c->head_dim,
                                            .level = {{c->head_dim, 1}, {heads, 3 * c->head_dim}}};
            return place;
        }
    }
    return decoder_place_plain(c, layer, part, kind);
}

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    CHECK(json_get_boolean(source, json, "use_parallel_residual", true, &c->parallel));
    CHECK(json_get_boolean(source, json, "attention_bias", true, &c->qkv_bias));
    c->output_bias = c->qkv_bias;
    return GRAIL_OK;
}

static const decoder_family family = {
    .place = place,
    .keys = {DECODER_COMMON_KEYS, .intermediate = "intermediate_size", .epsilon = "layer_norm_eps",
             .activation = "hidden_act", .theta = "rotary_emb_base", .partial = "rotary_pct"},
    .names = {{"model.embed_tokens", "gpt_neox.embed_in"},
              {"self_attn.o_proj", "attention.dense"},
              {"mlp.up_proj", "mlp.dense_h_to_4h"},
              {"mlp.down_proj", "mlp.dense_4h_to_h"},
              {"model.norm", "gpt_neox.final_layer_norm"},
              {"lm_head", "embed_out"}},
    .layers = "gpt_neox.layers.",
    .base = "gpt_neox.",
    .read = read,
    .default_context = 2048,
    .default_epsilon = 1e-5,
    .default_partial = 0.25,
    .default_activation = ACTIVATION_GELU,
    .always_biases = true,
    .layer_norms = true,
    .ungated = true,
    .loaders = {.transformers = HEADS_DERIVED, .vllm = HEADS_DERIVED, .llama_cpp = HEADS_DERIVED},
};

DECODER(gpt_neox, family, decoder_usual_settings);
