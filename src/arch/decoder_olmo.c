/* OLMo. Source: configuration_olmo.py and modeling_olmo.py of Hugging Face transformers. */
#include "arch/decoder.h"

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    c->epsilon = 1e-5; /* of the class, whatever the configuration says */
    return decoder_refuse_clipping(source, json);
}

static const decoder_family family = {
    .read = read,
    .default_context = 2048,
    .reads_attention_bias = true,
    .bare_layer_norms = true,
    .norms_lack_weights = true,
    .loaders = {.vllm = HEADS_DERIVED, .llama_cpp = HEADS_DERIVED},
};

DECODER(olmo, family, decoder_usual_settings);
