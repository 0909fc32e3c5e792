/* Granite 3 with experts. Source: configuration_granitemoe.py and modeling_granitemoe.py of Hugging
 * Face transformers, and the names of its conversion_mapping.py, which are those of the files. */
#include "arch/decoder.h"

#include <string.h>

/* The experts lie one after another, gate before up. */
static decoder_place place(const decoder_config *c, int layer, const char *part, const char *kind)
{
    int64_t expert = 0;
    const char *of_expert = decoder_expert_part(part, &expert);
    if (of_expert == NULL) {
        return decoder_place_plain(c, layer, part, kind);
    }
    if (strcmp(of_expert, "down_proj") == 0) {
        return decoder_place_rows(c, layer, "block_sparse_moe.output_linear", kind,
                                  expert * c->hidden, c->hidden);
    }
    const int64_t width = c->layer[layer].expert_width[expert];
    const int64_t before = 2 * expert + (strcmp(of_expert, "up_proj") == 0 ? 1 : 0);
    return decoder_place_rows(c, layer, "block_sparse_moe.input_linear", kind, before * width,
                              width);
}

static const decoder_family family = {
    .place = place,
    .names = {{"mlp.gate", "block_sparse_moe.router.layer"}},
    .read = decoder_read_multipliers,
    .default_context = 2048,
    .reads_attention_bias = true,
    .mixture = {.width = "intermediate_size",
                .default_count = 8,
                .default_chosen = 2,
                .default_width = 11008,
                .are_stacked = true},
    .loaders = {.vllm = HEADS_DERIVED},
};

DECODER(granitemoe, family, decoder_usual_settings);
