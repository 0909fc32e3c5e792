/* OLMo 2. Source: configuration_olmo2.py and modeling_olmo2.py of Hugging Face transformers. */
#include "arch/decoder.h"

static const decoder_name names[] = {{"self_attn.branch_norm", "post_attention_layernorm"},
                                     {"mlp.branch_norm", "post_feedforward_layernorm"},
                                     {NULL, NULL}};

static const decoder_family family = {
    .names = names,
    .default_context = 2048,
    .default_epsilon = 1e-5,
    .reads_attention_bias = true,
    .norms = NORM_BEHIND,
    .query_key_norm_wide = true,
    .loaders = {.vllm = HEADS_DERIVED, .llama_cpp = HEADS_DERIVED},
};

DECODER(olmo2, family, decoder_usual_settings);
