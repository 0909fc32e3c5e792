/* Phi-3, Phi-3.5 and Phi-4. Source: configuration_phi3.py and modeling_phi3.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

static decoder_place place(const decoder_config *c, int layer, const char *part, const char *kind)
{
    return decoder_place_fused(c, layer, part, kind, "self_attn.qkv_proj", "mlp.gate_up_proj");
}

static const decoder_family family = {
    .place = place,
    .keys = &decoder_usual_keys,
    .default_context = 4096,
    .default_epsilon = 1e-5,
    .reads_window = true,
    .loaders = {.llama_cpp = HEADS_DERIVED},
};

DECODER(phi3, family, decoder_usual_settings);
