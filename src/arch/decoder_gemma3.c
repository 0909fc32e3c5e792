/* The language models of Gemma 3. Source: configuration_gemma3.py and modeling_gemma3.py of Hugging
 * Face transformers. */
#include "arch/decoder_gemma_parts.h"

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    return gemma_read(source, json, 0.0, 0.0, c);
}

static const decoder_family family = {
    .keys = &gemma_keys,
    .names = gemma_names,
    .read = read,
    .default_kv_heads = 4,
    .default_head_dim = 256,
    .default_context = 131072,
    .default_theta = 1e6,
    .default_activation = ACTIVATION_GELU_TANH,
    .reads_attention_bias = true,
    .norms_add_one = true,
    .norms = NORM_BEFORE_AND_BEHIND,
    .query_key_norm = true,
    .tied_by_default = true,
    .default_window = 4096,
    .window_pattern = 6,
    .window_theta = "rope_local_base_freq",
    .default_window_theta = 1e4,
    .loaders = {.transformers = HEADS_DIVIDE},
};

DECODER(gemma3_text, family, decoder_usual_settings);
