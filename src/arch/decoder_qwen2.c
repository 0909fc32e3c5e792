/* Qwen2 and Qwen2.5. Source: configuration_qwen2.py and modeling_qwen2.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

static const decoder_family family = {
    .classes = "Qwen2",
    .default_kv_heads = 32,
    .default_context = 32768,
    .always_qkv_bias = true,
    .default_window = 4096,
    .window_is_optional = true,
    .loaders = {.vllm = HEADS_DERIVED, .llama_cpp = HEADS_DERIVED},
};

DECODER(qwen2, family, decoder_usual_settings);
