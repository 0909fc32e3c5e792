/* OLMo 2 and 3. Source: configuration_olmo2.py, configuration_olmo3.py and the modeling files
 * beside them of Hugging Face transformers. */
#include "arch/decoder.h"

#define COMMON                                                                                     \
    .names = {{"self_attn.branch_norm", "post_attention_layernorm"},                               \
              {"mlp.branch_norm", "post_feedforward_layernorm"}},                                  \
    .default_context = 2048, .default_epsilon = 1e-5, .reads_attention_bias = true,                \
    .norms = NORM_BEHIND, .query_key_norm_wide = true,                                             \
    .loaders = {.vllm = HEADS_DERIVED, .llama_cpp = HEADS_DERIVED}

static const decoder_family olmo2 = {COMMON};
static const decoder_family olmo3 = {COMMON,
                                     .default_theta = 5e5,
                                     .default_window = 4096,
                                     .window_pattern = 4,
                                     .window_theta = "rope_theta",
                                     .default_window_theta = 5e5};

DECODER(olmo2, olmo2, decoder_usual_settings);
DECODER(olmo3, olmo3, decoder_usual_settings);
