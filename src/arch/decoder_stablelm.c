/* StableLM. Source: configuration_stablelm.py and modeling_stablelm.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    CHECK(decoder_refuse(source, json, "qk_layernorm", "every head has norms of its own"));
    CHECK(json_get_boolean(source, json, "use_qkv_bias", false, &c->qkv_bias));
    CHECK(json_get_boolean(source, json, "use_parallel_residual", false, &c->parallel));
    c->shares_norm = c->parallel;
    return GRAIL_OK;
}

static const decoder_family family = {
    .keys = {DECODER_LAYER_NORM_KEYS},
    .read = read,
    .default_kv_heads = 32,
    .default_context = 4096,
    .default_epsilon = 1e-5,
    .default_partial = 0.25,
    .layer_norms = true,
    .loaders = {.transformers = HEADS_DERIVED, .vllm = HEADS_DERIVED, .llama_cpp = HEADS_DERIVED},
};

DECODER(stablelm, family, decoder_usual_settings);
