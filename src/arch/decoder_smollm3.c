/* SmolLM3. Source: configuration_smollm3.py and modeling_smollm3.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

static const decoder_family family = {
    .default_kv_heads = 4,
    .default_context = 32768,
    .default_theta = 2e6,
    .reads_attention_bias = true,
    .reads_mlp_bias = true,
    .unturned_layers = 4,
    .tied_by_default = true,
    .reads_window = true,
    .window_is_optional = true,
};

DECODER(smollm3, family, decoder_usual_settings);
