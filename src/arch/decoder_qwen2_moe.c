/* Qwen1.5-MoE and Qwen2-MoE. Source: configuration_qwen2_moe.py and modeling_qwen2_moe.py of
 * Hugging Face transformers. */
#include "arch/decoder.h"

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    return json_get_boolean(source, json, "qkv_bias", true, &c->qkv_bias);
}

static const decoder_family family = {
    .read = read,
    .default_kv_heads = 16,
    .default_context = 32768,
    .mixture = {.width = "moe_intermediate_size",
                .shared_width = "shared_expert_intermediate_size",
                .default_count = 60,
                .default_chosen = 4,
                .default_width = 1408,
                .default_shared = 5632,
                .reads_norm = true,
                .reads_dense_layers = true},
    .loaders = {.vllm = HEADS_DERIVED, .llama_cpp = HEADS_DERIVED},
};

DECODER(qwen2_moe, family, decoder_usual_settings);
