/* Phi-3, Phi-3.5 and Phi-4. Source: configuration_phi3.py and modeling_phi3.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

static const decoder_family family = {
    .qkv = "self_attn.qkv_proj",
    .gate_up = "mlp.gate_up_proj",
    .default_context = 4096,
    .default_epsilon = 1e-5,
    .reads_window = true,
    .loaders = {.llama_cpp = HEADS_DERIVED},
};

DECODER(phi3, family, decoder_usual_settings);
