/* DeepSeek-V2. Source: configuration_deepseek_v2.py and modeling_deepseek_v2.py of Hugging Face
 * transformers. */
#include "arch/decoder_experts.h"
#include "arch/decoder_latent.h"

static const decoder_mixture mixture = {.width = "moe_intermediate_size",
                                        .shared_count = "n_shared_experts",
                                        .first_dense = "first_k_dense_replace",
                                        .default_count = 64,
                                        .default_chosen = 6,
                                        .default_width = 1407,
                                        .default_shared = 2,
                                        .chooses_groups = true};

static const decoder_family family = {
    .place = decoder_latent_place,
    .names = decoder_latent_names,
    .read = decoder_latent_complete,
    .default_context = 2048,
    .reads_attention_bias = true,
    .reads_mlp_bias = true,
    .latent = true,
    .mixture = &mixture,
    .loaders = {.transformers = HEADS_DIVIDE, .pairs_behind_rank = true},
};

DECODER(deepseek_v2, family, decoder_usual_settings);
