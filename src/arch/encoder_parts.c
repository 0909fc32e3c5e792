/* What families of encoders share. */
#include "arch/decoder.h"
#include "base/name_list.h"

#include <stdio.h>
#include <string.h>

const decoder_keys encoder_keys = {DECODER_COMMON_KEYS, .intermediate = "intermediate_size",
                                   .epsilon = "layer_norm_eps", .activation = "hidden_act"};

const decoder_name encoder_names[] = {{"model.embed_tokens", "embeddings.word_embeddings"},
                                      {"model.embed_positions", "embeddings.position_embeddings"},
                                      {"model.token_types", "embeddings.token_type_embeddings"},
                                      {"model.embed_norm", "embeddings.LayerNorm"},
                                      {"self_attn.q_proj", "attention.self.query"},
                                      {"self_attn.k_proj", "attention.self.key"},
                                      {"self_attn.v_proj", "attention.self.value"},
                                      {"self_attn.o_proj", "attention.output.dense"},
                                      {"self_attn.branch_norm", "attention.output.LayerNorm"},
                                      {"mlp.up_proj", "intermediate.dense"},
                                      {"mlp.down_proj", "output.dense"},
                                      {"mlp.branch_norm", "output.LayerNorm"},
                                      {NULL, NULL}};

/* TensorFlow's names of a norm's weight and bias, which older checkpoints keep. */
decoder_place encoder_place(const decoder_config *c, int layer, const char *part, const char *kind)
{
    const bool is_norm = name_ends_with(part, "_norm");
    const bool is_weight = strcmp(kind, "weight") == 0;
    const char *old = is_weight ? "gamma" : "beta";
    return decoder_place_plain(c, layer, part, c->old_norm_names && is_norm ? old : kind);
}

grail_status encoder_read(const char *source, const json_t *json, decoder_config *c)
{
    const char *type = NULL;
    CHECK(json_get_string(source, json, "position_embedding_type", "absolute", &type));
    if (strcmp(type, "absolute") != 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"position_embedding_type\" is \"%s\": scores that depend on the "
                         "distance of positions, which grail lacks; it has \"absolute\"",
                         source, type);
    }
    CHECK(decoder_refuse(source, json, "is_decoder", "each row sees those before it alone"));
    CHECK(decoder_refuse(source, json, "add_cross_attention",
                         "layers also attend to the output of another network"));
    if (!c->family->token_types) {
        return GRAIL_OK;
    }
    return decoder_read_size(source, json, "type_vocab_size", 2, 1, &c->token_types);
}

/* What reads the hidden states stays right whatever is cut: a pooler, a classifier, the head of a
 * masked language model. An unknown part of embeddings or layers would not. */
outside_part encoder_outside(const char *tensor)
{
    static const char *const inside[] = {"embeddings", "encoder.", "layer.", "layers."};
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        if (strstr(tensor, inside[i]) != NULL) {
            return OUTSIDE_REFUSED;
        }
    }
    return OUTSIDE_WEIGHTS;
}

const char *const encoder_settings[] = {"hidden_act", "layer_norm_eps", "max_position_embeddings",
                                        NULL};
