/* Mixtral. Source: configuration_mixtral.py and modeling_mixtral.py of Hugging Face transformers,
 * and the names of its conversion_mapping.py, which are those of the files. */
#include "arch/decoder.h"

#include <stdio.h>
#include <string.h>

/* gate, up and down of an expert are w1, w3 and w2. */
static decoder_place place(const decoder_config *c, int layer, const char *part, const char *kind)
{
    static const decoder_name own[] = {{"gate_proj", "w1"}, {"up_proj", "w3"}, {"down_proj", "w2"}};
    char tensor[DECODER_NAME_SIZE];
    int64_t expert = 0;
    const char *of_expert = decoder_expert_part(part, &expert);
    for (size_t i = 0; of_expert != NULL && i < sizeof own / sizeof own[0]; i++) {
        if (strcmp(of_expert, own[i].part) == 0) {
            snprintf(tensor, sizeof tensor, "block_sparse_moe.experts.%lld.%s", (long long)expert,
                     own[i].tensor);
            return decoder_place_plain(c, layer, tensor, kind);
        }
    }
    return decoder_place_plain(c, layer, part, kind);
}

static const decoder_family family = {
    .place = place,
    .names = {{"mlp.gate", "block_sparse_moe.gate"}},
    .default_kv_heads = 8,
    .default_context = 131072,
    .default_epsilon = 1e-5,
    .default_theta = 1e6,
    .reads_window = true,
    .mixture = {.width = "intermediate_size",
                .default_count = 8,
                .default_chosen = 2,
                .default_width = 14336},
};

DECODER(mixtral, family, decoder_usual_settings);
