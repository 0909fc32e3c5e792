#include "arch/decoder_gemma_parts.h"

#include <math.h>

const decoder_keys gemma_keys = {DECODER_GROUPED_KEYS, .epsilon = "rms_norm_eps",
                                 .activation = "hidden_activation"};

const decoder_name gemma_names[] = {{"self_attn.branch_norm", "post_attention_layernorm"},
                                    {"post_attention_layernorm", "pre_feedforward_layernorm"},
                                    {"mlp.branch_norm", "post_feedforward_layernorm"},
                                    {NULL, NULL}};

grail_status gemma_read(const char *source, const json_t *json, double score_cap, double logit_cap,
                        decoder_config *c)
{
    double scalar = 0.0;
    c->embedding_scale = sqrt((double)c->hidden);
    CHECK(decoder_read_factor(source, json, "query_pre_attn_scalar", 256.0, &scalar));
    CHECK(decoder_read_cap(source, json, "attn_logit_softcapping", score_cap, &c->score_cap));
    CHECK(decoder_read_cap(source, json, "final_logit_softcapping", logit_cap, &c->logit_cap));
    c->score_scale = 1.0 / sqrt(fabs(scalar));
    return decoder_refuse(source, json, "use_bidirectional_attention",
                          "every position sees those behind it");
}
