/* Falcon, in the form of Falcon-40B and Falcon2-11B. Source: configuration_falcon.py and
 * modeling_falcon.py of Hugging Face transformers. */
#include "arch/decoder.h"

#include <string.h>

/* Groups one after another, each of its query heads, its keys and its values. */
static decoder_place place(const decoder_config *c, int layer, const char *part, const char *kind)
{
    const decoder_layer *l = layer == GRAPH_NONE ? NULL : &c->layer[layer];
    const bool is_query = strcmp(part, "self_attn.q_proj") == 0;
    const bool is_key = strcmp(part, "self_attn.k_proj") == 0;
    if (l == NULL || !(is_query || is_key || strcmp(part, "self_attn.v_proj") == 0)) {
        const bool two = !c->shares_norm && strcmp(part, "input_layernorm") == 0;
        return decoder_place_plain(c, layer, two ? "ln_attn" : part, kind);
    }
    const int64_t queries = l->heads / l->kv_heads;
    const int64_t first = is_query ? 0 : is_key ? queries : queries + 1;
    decoder_place place = decoder_place_plain(c, layer, "self_attention.query_key_value", kind);
    place.map.rows = (storage_axis){.first = first * c->head_dim,
                                    .level = {{c->head_dim, 1},
                                              {is_query ? queries : 1, c->head_dim},
                                              {l->kv_heads, (queries + 2) * c->head_dim}}};
    return place;
}

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    bool is_new = false;
    int64_t norms = 2;
    CHECK(decoder_refuse(source, json, "alibi", "positions are slopes added to the scores"));
    CHECK(json_get_boolean(source, json, "new_decoder_architecture", false, &is_new));
    CHECK(json_get_integer(source, json, "num_ln_in_parallel_attn", 2, &norms));
    if (!is_new) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"new_decoder_architecture\" is not true: queries, keys and values "
                         "lie in the older orders, which grail lacks",
                         source);
    }
    c->shares_norm = norms != 2;
    return decoder_read_biases(source, json, "bias", false, c);
}

static const decoder_family family = {
    .place = place,
    .keys = {DECODER_COMMON_KEYS, .kv_heads = "num_kv_heads", .intermediate = "ffn_hidden_size",
             .intermediate_multiple = 4, .epsilon = "layer_norm_epsilon",
             .activation = "activation"},
    .names = {{"model.embed_tokens", "transformer.word_embeddings"},
              {"self_attn.o_proj", "self_attention.dense"},
              {"mlp.up_proj", "mlp.dense_h_to_4h"},
              {"mlp.down_proj", "mlp.dense_4h_to_h"},
              {"post_attention_layernorm", "ln_mlp"},
              {"model.norm", "transformer.ln_f"}},
    .layers = "transformer.h.",
    .base = "transformer.",
    .read = read,
    .default_context = 2048,
    .default_epsilon = 1e-5,
    .default_activation = ACTIVATION_GELU,
    .layer_norms = true,
    .parallel = true,
    .ungated = true,
    .tied_by_default = true,
    .loaders = {HEADS_DERIVED, HEADS_DERIVED, HEADS_DERIVED, .llama_cpp_multiplies = true},
};

static const char *const settings[] = {"activation", "layer_norm_epsilon",
                                       "max_position_embeddings", NULL};

DECODER(falcon, family, settings);
