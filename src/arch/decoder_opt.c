/* OPT. Source: configuration_opt.py and modeling_opt.py of Hugging Face transformers. */
#include "arch/decoder.h"

#include <string.h>

static decoder_place place(const decoder_config *c, int layer, const char *part, const char *kind)
{
    const bool is_last = layer == GRAPH_NONE && strcmp(part, "model.norm") == 0;
    return decoder_place_plain(c, layer, is_last ? "decoder.final_layer_norm" : part, kind);
}

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    int64_t embedding = 0;
    CHECK(decoder_require(source, json, "do_layer_norm_before",
                          "norms stand behind the residual sums"));
    CHECK(decoder_require(source, json, "layer_norm_elementwise_affine", "norms have no weights"));
    CHECK(decoder_refuse(source, json, "_remove_final_layer_norm", "there is no last norm"));
    CHECK(json_get_integer(source, json, "word_embed_proj_dim", c->hidden, &embedding));
    if (embedding != c->hidden) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"word_embed_proj_dim\" is %lld and \"hidden_size\" %lld: embeddings "
                         "are projected, which grail lacks",
                         source, (long long)embedding, (long long)c->hidden);
    }
    return decoder_read_biases(source, json, "enable_bias", true, c);
}

static const decoder_family family = {
    .place = place,
    .keys = {DECODER_COMMON_KEYS, .intermediate = "ffn_dim", .epsilon = "layer_norm_eps",
             .activation = "activation_function"},
    .names = {{"model.embed_tokens", "decoder.embed_tokens"},
              {"model.embed_positions", "decoder.embed_positions"},
              {"input_layernorm", "self_attn_layer_norm"},
              {"self_attn.o_proj", "self_attn.out_proj"},
              {"post_attention_layernorm", "final_layer_norm"},
              {"mlp.up_proj", "fc1"},
              {"mlp.down_proj", "fc2"}},
    .layers = "decoder.layers.",
    .prefix = "model.",
    .read = read,
    .default_context = 2048,
    .default_intermediate = 3072,
    .default_epsilon = 1e-5,
    .default_activation = ACTIVATION_RELU,
    .layer_norms = true,
    .learned_positions = true,
    .spare_positions = 2,
    .ungated = true,
    .tied_by_default = true,
    .loaders = {.transformers = HEADS_DERIVED, .vllm = HEADS_DERIVED, .llama_cpp = HEADS_UNKNOWN},
};

static const char *const settings[] = {"activation_function", NULL};

DECODER(opt, family, settings);
