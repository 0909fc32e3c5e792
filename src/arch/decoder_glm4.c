/* GLM-4-0414. Source: configuration_glm4.py and modeling_glm4.py of Hugging Face transformers. */
#include "arch/decoder.h"

static const decoder_name names[] = {{"self_attn.branch_norm", "post_self_attn_layernorm"},
                                     {"mlp.branch_norm", "post_mlp_layernorm"},
                                     {NULL, NULL}};

static const decoder_family family = {
    .gate_up = "mlp.gate_up_proj",
    .names = names,
    .default_kv_heads = 2,
    .default_head_dim = 128,
    .default_context = 131072,
    .default_epsilon = 1.5625e-7,
    .default_partial = 0.5,
    .reads_attention_bias = true,
    .attention_bias_by_default = true,
    .bias_spares_output = true,
    .norms = NORM_BEFORE_AND_BEHIND,
    .interleaved = true,
    .loaders = {.llama_cpp = HEADS_DERIVED},
};

DECODER(glm4, family, decoder_usual_settings);
