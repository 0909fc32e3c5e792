/* StarCoder2. Source: configuration_starcoder2.py and modeling_starcoder2.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    return decoder_read_biases(source, json, "use_bias", true, c);
}

static const decoder_family family = {
    .keys = {DECODER_GROUPED_KEYS, .epsilon = "norm_epsilon", .activation = "hidden_act"},
    .names = {{"mlp.up_proj", "mlp.c_fc"}, {"mlp.down_proj", "mlp.c_proj"}},
    .read = read,
    .default_kv_heads = 2,
    .default_context = 4096,
    .default_epsilon = 1e-5,
    .default_activation = ACTIVATION_GELU_TANH,
    .layer_norms = true,
    .ungated = true,
    .tied_by_default = true,
    .reads_window = true,
    .loaders = {.vllm = HEADS_DERIVED, .llama_cpp = HEADS_DERIVED},
};

DECODER(starcoder2, family, decoder_usual_settings);
