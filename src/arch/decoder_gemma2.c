/* Gemma 2. Source: configuration_gemma2.py and modeling_gemma2.py of Hugging Face transformers. */
#include "arch/decoder_gemma_parts.h"

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    return gemma_read(source, json, 50.0, 30.0, c);
}

static const decoder_family family = {
    .keys = &gemma_keys,
    .names = gemma_names,
    .read = read,
    .default_kv_heads = 4,
    .default_head_dim = 256,
    .default_context = 8192,
    .default_activation = ACTIVATION_GELU_TANH,
    .reads_attention_bias = true,
    .norms_add_one = true,
    .norms = NORM_BEFORE_AND_BEHIND,
    .tied_by_default = true,
    .default_window = 4096,
    .window_pattern = 2,
    .loaders = {.transformers = HEADS_DIVIDE},
};

DECODER(gemma2, family, decoder_usual_settings);
