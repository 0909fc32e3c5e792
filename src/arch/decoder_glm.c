/* GLM-4-9b and GLM-4-0414. Source: configuration_glm.py, configuration_glm4.py and the modeling
 * files beside them of Hugging Face transformers. */
#include "arch/decoder.h"

#define COMMON                                                                                     \
    .gate_up = "mlp.gate_up_proj", .default_kv_heads = 2, .default_head_dim = 128,                 \
    .default_context = 131072, .default_epsilon = 1.5625e-7, .default_partial = 0.5,               \
    .reads_attention_bias = true, .attention_bias_by_default = true, .bias_spares_output = true,   \
    .interleaved = true, .loaders = {.llama_cpp = HEADS_DERIVED}

static const decoder_family glm = {COMMON};
static const decoder_family glm4 = {COMMON,
                                    .names = {{"self_attn.branch_norm", "post_self_attn_layernorm"},
                                              {"mlp.branch_norm", "post_mlp_layernorm"}},
                                    .norms = NORM_BEFORE_AND_BEHIND};

DECODER(glm, glm, decoder_usual_settings);
DECODER(glm4, glm4, decoder_usual_settings);
