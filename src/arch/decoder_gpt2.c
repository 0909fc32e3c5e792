/* GPT-2. Source: configuration_gpt2.py and modeling_gpt2.py of Hugging Face transformers. */
#include "arch/decoder.h"

#include <string.h>

/* Matrices of layers are stored [in, out], with q, k and v side by side. */
static decoder_place place(const decoder_config *c, int layer, const char *part, const char *kind)
{
    decoder_place place = decoder_place_plain(c, layer, part, kind);
    place.map.transposed =
        layer != GRAPH_NONE && strcmp(kind, "weight") == 0 && strstr(part, "_proj") != NULL;
    return place;
}

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    bool scales = true;
    CHECK(decoder_refuse(source, json, "scale_attn_by_inverse_layer_idx",
                         "scores are divided by the number of the layer"));
    CHECK(decoder_refuse(source, json, "add_cross_attention",
                         "layers also attend to the output of an encoder"));
    CHECK(json_get_boolean(source, json, "scale_attn_weights", true, &scales));
    c->score_scale = scales ? c->score_scale : 1.0;
    return GRAIL_OK;
}

static const decoder_family family = {
    .place = place,
    .keys = {.hidden = "n_embd",
             .layers = "n_layer",
             .heads = "n_head",
             .head_dim = "head_dim",
             .intermediate = "n_inner",
             .intermediate_multiple = 4,
             .context = "n_positions",
             .epsilon = "layer_norm_epsilon",
             .activation = "activation_function"},
    .names = {{"model.embed_tokens", "wte"},
              {"model.embed_positions", "wpe"},
              {"input_layernorm", "ln_1"},
              {"self_attn.o_proj", "attn.c_proj"},
              {"post_attention_layernorm", "ln_2"},
              {"mlp.up_proj", "mlp.c_fc"},
              {"mlp.down_proj", "mlp.c_proj"},
              {"model.norm", "ln_f"}},
    .qkv = "attn.c_attn",
    .layers = "h.",
    .prefix = "transformer.",
    .read = read,
    .default_context = 1024,
    .default_epsilon = 1e-5,
    .default_activation = ACTIVATION_GELU_TANH,
    .always_biases = true,
    .layer_norms = true,
    .learned_positions = true,
    .ungated = true,
    .tied_by_default = true,
    .loaders = {HEADS_DERIVED, HEADS_DERIVED, HEADS_DERIVED, .llama_cpp_multiplies = true},
};

static const char *const settings[] = {"activation_function", "layer_norm_epsilon", NULL};

DECODER_OF_CLASS(gpt2, family, settings, "LMHeadModel");
