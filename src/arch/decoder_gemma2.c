/* Gemma 2, and the language models of Gemma 3. Source: configuration_gemma2.py,
 * configuration_gemma3.py and the modeling files beside them of Hugging Face transformers. */
#include "arch/decoder.h"

#include <math.h>

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    const bool caps = c->family->window_theta == NULL; /* Gemma 2, unless it says otherwise */
    double scalar = 0.0;
    c->embedding_scale = sqrt((double)c->hidden);
    CHECK(decoder_read_factor(source, json, "query_pre_attn_scalar", 256.0, &scalar));
    CHECK(
        decoder_read_cap(source, json, "attn_logit_softcapping", caps ? 50.0 : 0.0, &c->score_cap));
    CHECK(decoder_read_cap(source, json, "final_logit_softcapping", caps ? 30.0 : 0.0,
                           &c->logit_cap));
    c->score_scale = 1.0 / sqrt(fabs(scalar));
    return decoder_refuse(source, json, "use_bidirectional_attention",
                          "every position sees those behind it");
}

#define COMMON                                                                                     \
    .keys = {DECODER_GROUPED_KEYS, .epsilon = "rms_norm_eps", .activation = "hidden_activation"},  \
    .names = {{"self_attn.branch_norm", "post_attention_layernorm"},                               \
              {"post_attention_layernorm", "pre_feedforward_layernorm"},                           \
              {"mlp.branch_norm", "post_feedforward_layernorm"}},                                  \
    .read = read, .default_kv_heads = 4, .default_head_dim = 256,                                  \
    .default_activation = ACTIVATION_GELU_TANH, .reads_attention_bias = true,                      \
    .norms_add_one = true, .norms = NORM_BEFORE_AND_BEHIND, .tied_by_default = true,               \
    .default_window = 4096, .loaders = {.transformers = HEADS_DIVIDE}

static const decoder_family gemma2 = {COMMON, .default_context = 8192, .window_pattern = 2};
static const decoder_family gemma3 = {COMMON,
                                      .default_context = 131072,
                                      .default_theta = 1e6,
                                      .query_key_norm = true,
                                      .window_pattern = 6,
                                      .window_theta = "rope_local_base_freq",
                                      .default_window_theta = 1e4};

DECODER(gemma2, gemma2, decoder_usual_settings);
DECODER(gemma3_text, gemma3, decoder_usual_settings);
