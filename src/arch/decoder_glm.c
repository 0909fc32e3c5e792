/* GLM-4-9b. Source: configuration_glm.py and modeling_glm.py of Hugging Face transformers. */
#include "arch/decoder.h"

static const decoder_family family = {
    .gate_up = "mlp.gate_up_proj",
    .default_kv_heads = 2,
    .default_head_dim = 128,
    .default_context = 131072,
    .default_epsilon = 1.5625e-7,
    .default_partial = 0.5,
    .reads_attention_bias = true,
    .attention_bias_by_default = true,
    .bias_spares_output = true,
    .interleaved = true,
    .loaders = {.llama_cpp = HEADS_DERIVED},
};

DECODER(glm, family, decoder_usual_settings);
