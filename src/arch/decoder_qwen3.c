/* Qwen3. Source: configuration_qwen3.py and modeling_qwen3.py of Hugging Face transformers. */
#include "arch/decoder.h"

static const decoder_family family = {
    .classes = "Qwen3",
    .default_kv_heads = 32,
    .default_head_dim = 128,
    .default_context = 32768,
    .reads_attention_bias = true,
    .query_key_norm = true,
    .default_window = 4096,
    .window_is_optional = true,
};

DECODER(qwen3, family, decoder_usual_settings);
