/* OLMoE. Source: configuration_olmoe.py and modeling_olmoe.py of Hugging Face transformers. */
#include "arch/decoder.h"

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    (void)c;
    return decoder_refuse_clipping(source, json);
}

static const decoder_family family = {
    .read = read,
    .default_context = 4096,
    .default_epsilon = 1e-5,
    .reads_attention_bias = true,
    .query_key_norm_wide = true,
    .mixture = {.width = "intermediate_size",
                .default_count = 64,
                .default_chosen = 8,
                .default_width = 2048,
                .reads_norm = true},
    .loaders = {.transformers = HEADS_DERIVED, .vllm = HEADS_DERIVED, .llama_cpp = HEADS_DERIVED},
};

DECODER(olmoe, family, decoder_usual_settings);
