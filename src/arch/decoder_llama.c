/* Llama. Source: configuration_llama.py and modeling_llama.py of Hugging Face transformers. */
#include "arch/decoder.h"

static const decoder_family family = {
    .classes = "Llama",
    .default_context = 2048,
    .reads_attention_bias = true,
    .reads_mlp_bias = true,
    .loaders = {.transformers = HEADS_DIVIDE, .vllm_deci = true},
};

DECODER(llama, family, decoder_usual_settings);
