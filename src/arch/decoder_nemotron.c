/* Nemotron-3 and -4, Minitron. Source: configuration_nemotron.py and modeling_nemotron.py of
 * Hugging Face transformers. */
#include "arch/decoder.h"

static const char *const settings[] = {"hidden_act", "norm_eps", "max_position_embeddings", NULL};

static const decoder_family family = {
    .keys = {DECODER_GROUPED_KEYS, .epsilon = "norm_eps", .activation = "hidden_act"},
    .default_context = 4096,
    .default_epsilon = 1e-5,
    .default_partial = 0.5,
    .squares_by_default = true,
    .reads_attention_bias = true,
    .reads_mlp_bias = true,
    .layer_norms = true,
    .norms_add_one = true,
    .ungated = true,
};

DECODER(nemotron, family, settings);
