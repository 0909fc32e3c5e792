/* Granite 3. Source: configuration_granite.py and modeling_granite.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    double divisor = 1.0;
    CHECK(decoder_read_factor(source, json, "embedding_multiplier", 1.0, &c->embedding_scale));
    CHECK(decoder_read_factor(source, json, "residual_multiplier", 1.0, &c->branch_scale));
    CHECK(decoder_read_factor(source, json, "attention_multiplier", 1.0, &c->score_scale));
    CHECK(decoder_read_factor(source, json, "logits_scaling", 1.0, &divisor));
    c->logit_scale = 1.0 / divisor;
    return GRAIL_OK;
}

static const decoder_family family = {
    .place = decoder_place_plain,
    .keys = &decoder_usual_keys,
    .read = read,
    .default_context = 2048,
    .reads_attention_bias = true,
    .reads_mlp_bias = true,
    .loaders = {.vllm = HEADS_DERIVED},
};

DECODER(granite, family, decoder_usual_settings);
