/* BERT; RoBERTa, and XLM-RoBERTa, which has its tensors. Source: configuration_bert.py,
 * configuration_roberta.py and the modeling files beside them of Hugging Face transformers. */
#include "arch/decoder.h"
#include "base/name_list.h"

#include <string.h>

/* TensorFlow's names of a norm's weight and bias, which older checkpoints keep. */
static decoder_place place(const decoder_config *c, int layer, const char *part, const char *kind)
{
    const bool is_norm = name_ends_with(part, "_norm");
    const bool is_weight = strcmp(kind, "weight") == 0;
    const char *old = is_weight ? "gamma" : "beta";
    return decoder_place_plain(c, layer, part, c->old_norm_names && is_norm ? old : kind);
}

/* Positions are counted from behind the id of padding. */
static grail_status read_roberta(const char *source, const json_t *json, decoder_config *c)
{
    const int64_t usual = c->family->spare_positions - 1;
    int64_t padding = usual;
    CHECK(json_get_integer(source, json, "pad_token_id", usual, &padding));
    if (padding != usual) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"pad_token_id\" is %lld, expected %lld: the first position is the "
                         "one behind it",
                         source, (long long)padding, (long long)usual);
    }
    return encoder_read(source, json, c);
}

#define COMMON                                                                                     \
    .place = place,                                                                                \
    .keys = {DECODER_COMMON_KEYS, .intermediate = "intermediate_size",                             \
             .epsilon = "layer_norm_eps", .activation = "hidden_act"},                             \
    .names = {{"model.embed_tokens", "embeddings.word_embeddings"},                                \
              {"model.embed_positions", "embeddings.position_embeddings"},                         \
              {"model.token_types", "embeddings.token_type_embeddings"},                           \
              {"model.embed_norm", "embeddings.LayerNorm"},                                        \
              {"self_attn.q_proj", "attention.self.query"},                                        \
              {"self_attn.k_proj", "attention.self.key"},                                          \
              {"self_attn.v_proj", "attention.self.value"},                                        \
              {"self_attn.o_proj", "attention.output.dense"},                                      \
              {"self_attn.branch_norm", "attention.output.LayerNorm"},                             \
              {"mlp.up_proj", "intermediate.dense"},                                               \
              {"mlp.down_proj", "output.dense"},                                                   \
              {"mlp.branch_norm", "output.LayerNorm"}},                                            \
    .layers = "encoder.layer.", .token_types = true

static const decoder_family bert = {ENCODER_LIKE_BERT, COMMON, .read = encoder_read,
                                    .prefix = "bert."};
static const decoder_family roberta = {ENCODER_LIKE_BERT,    COMMON,
                                       .read = read_roberta, .prefix = "roberta.",
                                       .spare_positions = 2, .counts_spare = true};

static const char *const settings[] = {"hidden_act", "layer_norm_eps", "max_position_embeddings",
                                       NULL};

ENCODER(bert, "bert", bert, settings);
ENCODER(roberta, "roberta", roberta, settings);
ENCODER(xlm_roberta, "xlm-roberta", roberta, settings);
