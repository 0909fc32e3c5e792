/* Qwen3-MoE. Source: configuration_qwen3_moe.py and modeling_qwen3_moe.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

static const decoder_family family = {
    .default_kv_heads = 4,
    .default_context = 32768,
    .reads_attention_bias = true,
    .query_key_norm = true,
    .mixture = {.width = "moe_intermediate_size",
                .default_count = 128,
                .default_chosen = 8,
                .default_width = 768,
                .reads_norm = true,
                .reads_dense_layers = true},
};

DECODER(qwen3_moe, family, decoder_usual_settings);
