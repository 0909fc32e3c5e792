/* EXAONE 4. Source: configuration_exaone4.py and modeling_exaone4.py of Hugging Face transformers.
 */
#include "arch/decoder.h"

static const decoder_family family = {
    .names = {{"self_attn.branch_norm", "post_attention_layernorm"},
              {"mlp.branch_norm", "post_feedforward_layernorm"}},
    .default_kv_heads = 32,
    .default_context = 2048,
    .default_epsilon = 1e-5,
    .norms = NORM_BEHIND,
    .query_key_norm = true,
    .turns_windows_alone = true,
    .turns_windowless = true,
    .default_window = 4096,
    .window_pattern = 4,
};

DECODER(exaone4, family, decoder_usual_settings);
