/* Granite 3. Source: configuration_granite.py and modeling_granite.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

static const decoder_family family = {
    .read = decoder_read_multipliers,
    .default_context = 2048,
    .reads_attention_bias = true,
    .reads_mlp_bias = true,
    .loaders = {.vllm = HEADS_DERIVED},
};

DECODER(granite, family, decoder_usual_settings);
