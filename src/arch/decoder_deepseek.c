/* DeepSeek-V2, V3 and R1. Source: configuration_deepseek_v2.py, configuration_deepseek_v3.py and
 * the modeling files beside them of Hugging Face transformers. */
#include "arch/decoder_latent.h"

#define EXPERTS                                                                                    \
    .width = "moe_intermediate_size", .shared_count = "n_shared_experts",                          \
    .first_dense = "first_k_dense_replace", .chooses_groups = true
#define COMMON                                                                                     \
    .place = decoder_latent_place,                                                                 \
    .names = {{"mlp.shared_expert.gate_proj", "mlp.shared_experts.gate_proj"},                     \
              {"mlp.shared_expert.up_proj", "mlp.shared_experts.up_proj"},                         \
              {"mlp.shared_expert.down_proj", "mlp.shared_experts.down_proj"}},                    \
    .read = decoder_latent_complete, .reads_attention_bias = true, .latent = true

static const decoder_family v2 = {
    COMMON,
    .default_context = 2048,
    .reads_mlp_bias = true,
    .mixture = {EXPERTS, .default_count = 64, .default_chosen = 6, .default_width = 1407,
                .default_shared = 2},
    .loaders = {.transformers = HEADS_DIVIDE, .pairs_behind_rank = true},
};
static const decoder_family v3 = {COMMON, .default_context = 4096,
                                  .mixture = {EXPERTS, .default_count = 256, .default_chosen = 8,
                                              .default_width = 2048, .default_shared = 1,
                                              .default_dense = 3, .sigmoid = true}};

DECODER(deepseek_v2, v2, decoder_usual_settings);
DECODER(deepseek_v3, v3, decoder_usual_settings);
