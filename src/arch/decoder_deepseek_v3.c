/* DeepSeek-V3 and R1. Source: configuration_deepseek_v3.py and modeling_deepseek_v3.py of Hugging
 * Face transformers. */
#include "arch/decoder_experts.h"
#include "arch/decoder_latent.h"

static const decoder_mixture mixture = {.width = "moe_intermediate_size",
                                        .shared_count = "n_shared_experts",
                                        .first_dense = "first_k_dense_replace",
                                        .default_count = 256,
                                        .default_chosen = 8,
                                        .default_width = 2048,
                                        .default_shared = 1,
                                        .default_dense = 3,
                                        .chooses_groups = true,
                                        .sigmoid = true};

static const decoder_family family = {
    .place = decoder_latent_place,
    .names = decoder_latent_names,
    .read = decoder_latent_complete,
    .default_context = 4096,
    .reads_attention_bias = true,
    .latent = true,
    .mixture = &mixture,
};

DECODER(deepseek_v3, family, decoder_usual_settings);
