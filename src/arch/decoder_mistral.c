/* Mistral. Source: configuration_mistral.py and modeling_mistral.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

static const decoder_family family = {
    .classes = "Mistral",
    .default_kv_heads = 8,
    .default_context = 131072,
    .default_window = 4096,
    .loaders = {.vllm_deci = true},
};

DECODER(mistral, family, decoder_usual_settings);
