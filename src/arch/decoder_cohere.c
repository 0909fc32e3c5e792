/* Command R. Source: configuration_cohere.py and modeling_cohere.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    CHECK(decoder_refuse(source, json, "use_qk_norm", "every head has norms of its own"));
    return decoder_read_factor(source, json, "logit_scale", 0.0625, &c->logit_scale);
}

static const decoder_family family = {
    .keys = &decoder_layer_norm_keys,
    .read = read,
    .default_context = 8192,
    .default_epsilon = 1e-5,
    .default_theta = 5e5,
    .reads_attention_bias = true,
    .bare_layer_norms = true,
    .parallel = true,
    .shares_norm = true,
    .interleaved = true,
    .tied_by_default = true,
    .loaders = {.vllm = HEADS_DERIVED, .llama_cpp = HEADS_DERIVED},
};

DECODER(cohere, family, decoder_usual_settings);
