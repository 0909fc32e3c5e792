/* BERT. Source: configuration_bert.py and modeling_bert.py of Hugging Face transformers. */
#include "arch/decoder.h"

static const decoder_family family = {
    .place = encoder_place,
    .keys = &encoder_keys,
    .names = encoder_names,
    .layers = "encoder.layer.",
    .prefix = "bert.",
    .read = encoder_read,
    .default_context = 512,
    .default_epsilon = 1e-12,
    .default_activation = ACTIVATION_GELU,
    .always_biases = true,
    .layer_norms = true,
    .norms = NORM_OF_SUM,
    .learned_positions = true,
    .encoder = true,
    .embedding_norm = true,
    .token_types = true,
    .ungated = true,
    .loaders = {HEADS_DERIVED, .vllm = HEADS_UNTRIED, .llama_cpp = HEADS_UNTRIED},
};

ENCODER(bert, "bert", family, encoder_settings);
