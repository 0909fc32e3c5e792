/* Phi-1, Phi-1.5 and Phi-2. Source: configuration_phi.py and modeling_phi.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    (void)c;
    return decoder_refuse(source, json, "qk_layernorm", "heads have LayerNorms of their own");
}

static const decoder_family family = {
    .keys = {DECODER_LAYER_NORM_KEYS},
    .names = {{"self_attn.o_proj", "self_attn.dense"},
              {"mlp.up_proj", "mlp.fc1"},
              {"mlp.down_proj", "mlp.fc2"},
              {"model.norm", "model.final_layernorm"}},
    .read = read,
    .default_context = 2048,
    .default_epsilon = 1e-5,
    .default_partial = 0.5,
    .default_activation = ACTIVATION_GELU_TANH,
    .always_biases = true,
    .layer_norms = true,
    .parallel = true,
    .shares_norm = true,
    .ungated = true,
    .head_bias = true,
    .loaders = {.vllm = HEADS_DERIVED, .llama_cpp = HEADS_DERIVED, .llama_cpp_multiplies = true},
};

DECODER(phi, family, decoder_usual_settings);
