/* Gemma. Source: configuration_gemma.py and modeling_gemma.py of Hugging Face transformers. */
#include "arch/decoder.h"

#include <math.h>

/* "gelu" in older files means the approximation by tanh, too. */
static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    c->embedding_scale = sqrt((double)c->hidden);
    c->activation = c->activation == ACTIVATION_GELU ? ACTIVATION_GELU_TANH : c->activation;
    return decoder_refuse(source, json, "use_bidirectional_attention",
                          "every position sees those behind it");
}

static const decoder_family family = {
    .read = read,
    .default_kv_heads = 16,
    .default_head_dim = 256,
    .default_context = 8192,
    .default_activation = ACTIVATION_GELU_TANH,
    .reads_attention_bias = true,
    .norms_add_one = true,
    .tied_by_default = true,
};

DECODER(gemma, family, decoder_usual_settings);
