/* ModernBERT. Source: configuration_modernbert.py and modeling_modernbert.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    CHECK(decoder_refuse(source, json, "norm_bias", "norms have a bias beside their weight"));
    return encoder_read(source, json, c);
}

static const decoder_family family = {
    .keys = {DECODER_COMMON_KEYS, .intermediate = "intermediate_size", .epsilon = "norm_eps",
             .activation = "hidden_activation", .theta = "global_rope_theta"},
    .names = {{"model.embed_tokens", "embeddings.tok_embeddings"},
              {"model.embed_norm", "embeddings.norm"},
              {"input_layernorm", "attn_norm"},
              {"self_attn.o_proj", "attn.Wo"},
              {"post_attention_layernorm", "mlp_norm"},
              {"mlp.down_proj", "mlp.Wo"},
              {"model.norm", "final_norm"}},
    .qkv = "attn.Wqkv",
    .gate_up = "mlp.Wi",
    .layers = "layers.",
    .prefix = "model.",
    .read = read,
    .default_context = 8192,
    .default_epsilon = 1e-5,
    .default_theta = 1.6e5,
    .default_activation = ACTIVATION_GELU,
    .reads_attention_bias = true,
    .reads_mlp_bias = true,
    .bare_layer_norms = true,
    .encoder = true,
    .embedding_norm = true,
    .bare_begin = true,
    .default_window = 128,
    .window_pattern = 3,
    .begin_pattern = "global_attn_every_n_layers",
    .window_key = "local_attention",
    .window_theta = "local_rope_theta",
    .default_window_theta = 1e4,
    .loaders = ENCODER_LOADERS,
};

static const char *const settings[] = {"hidden_activation", "norm_eps", "max_position_embeddings",
                                       "local_attention", NULL};

ENCODER(modernbert, "modernbert", family, settings);
