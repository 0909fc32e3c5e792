#include "arch/decoder_latent.h"

#include <math.h>
#include <string.h>

grail_status decoder_latent_read(const char *source, const json_t *json, decoder_config *c,
                                 decoder_layer *common)
{
    decoder_latent *l = &c->latent;
    const json_t *query = json_object_get(json, DECODER_QUERY_RANK_KEY);
    CHECK(decoder_read_size(source, json, DECODER_RANK_KEY, 512, 1, &common->rank));
    CHECK(decoder_read_size(source, json, "qk_nope_head_dim", 128, 1, &l->plain));
    CHECK(decoder_read_size(source, json, "qk_rope_head_dim", 64, 2, &l->turned));
    CHECK(decoder_read_size(source, json, DECODER_VALUE_KEY, 128, 1, &common->value));
    CHECK(json_get_boolean(source, json, "rope_interleave", true, &l->interleaved));
    if (query == NULL || !json_is_null(query)) {
        CHECK(
            decoder_read_size(source, json, DECODER_QUERY_RANK_KEY, 1536, 1, &common->query_rank));
    }
    if (l->turned % 2 != 0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"qk_rope_head_dim\" is %lld, expected an even number", source,
                         (long long)l->turned);
    }
    c->head_dim = l->plain + l->turned;
    return GRAIL_OK;
}

grail_status decoder_latent_read_layer(const char *source, const json_t *own,
                                       const decoder_layer *common, decoder_layer *layer)
{
    CHECK(decoder_read_size(source, own, DECODER_RANK_KEY, common->rank, 1, &layer->rank));
    CHECK(decoder_read_size(source, own, DECODER_VALUE_KEY, common->value, 1, &layer->value));
    layer->query_rank = 0;
    return common->query_rank == 0 ? GRAIL_OK
                                   : decoder_read_size(source, own, DECODER_QUERY_RANK_KEY,
                                                       common->query_rank, 1, &layer->query_rank);
}

grail_status decoder_latent_complete(const char *source, const json_t *json, decoder_config *c)
{
    const char *type = NULL;
    const json_t *scaling = rotary_scaling(json, &type);
    double all = 0.0;
    double factor = 1.0;
    for (int64_t i = 0; i < c->layers; i++) {
        if (c->layer[i].kv_heads != c->layer[i].heads) {
            return error_set(
                GRAIL_ERROR_UNSUPPORTED,
                "%s: layer %lld has %lld attention heads and %lld key/value heads, but "
                "attention of this kind makes as many keys as queries",
                source, (long long)i, (long long)c->layer[i].heads,
                (long long)c->layer[i].kv_heads);
        }
    }
    if (strcmp(type, "default") == 0) {
        return GRAIL_OK;
    }
    CHECK(json_get_real(source, scaling, "mscale_all_dim", 0.0, &all));
    CHECK(json_get_real(source, scaling, "factor", 1.0, &factor));
    if (all != 0.0 && factor > 1.0) {
        c->score_scale *= pow(0.1 * all * log(factor) + 1.0, 2.0);
    }
    return GRAIL_OK;
}

/* Rows of a part of each head; of one head where `heads` is 1. */
static storage_axis part_of_heads(int64_t first, int64_t rows, int64_t heads, int64_t head)
{
    return (storage_axis){.first = first, .level = {{rows, 1}, {heads, head}}};
}

/* The same, where neighbouring rows are turned together: those of the first one of each pair come
 * first. */
static storage_axis turned_part(const decoder_latent *l, int64_t first, int64_t heads, int64_t head)
{
    if (!l->interleaved) {
        return part_of_heads(first, l->turned, heads, head);
    }
    return (storage_axis){.first = first, .level = {{l->turned / 2, 2}, {2, 1}, {heads, head}}};
}

typedef struct latent_part {
    const char *part, *tensor;
    storage_axis rows;
} latent_part;

decoder_place decoder_latent_place(const decoder_config *c, int layer, const char *part,
                                   const char *kind)
{
    if (layer == GRAPH_NONE) {
        return decoder_place_plain(c, layer, part, kind);
    }
    const decoder_latent *l = &c->latent;
    const decoder_layer *own = &c->layer[layer];
    const int64_t heads = own->heads;
    const char *q = own->query_rank > 0 ? "self_attn.q_b_proj" : "self_attn.q_proj";
    const char *kv_a = "self_attn.kv_a_proj_with_mqa";
    const char *kv_b = "self_attn.kv_b_proj";
    const int64_t of_kv = l->plain + own->value;
    const latent_part parts[] = {
        {"self_attn.q_proj", q, part_of_heads(0, l->plain, heads, c->head_dim)},
        {"self_attn.q_rope_proj", q, turned_part(l, l->plain, heads, c->head_dim)},
        {"self_attn.kv_a_proj", kv_a, part_of_heads(0, own->rank, 1, 0)},
        {"self_attn.k_rope_proj", kv_a, turned_part(l, own->rank, 1, l->turned)},
        {"self_attn.k_proj", kv_b, part_of_heads(0, l->plain, heads, of_kv)},
        {"self_attn.v_proj", kv_b, part_of_heads(l->plain, own->value, heads, of_kv)}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(parts[i].part, part) == 0) {
            decoder_place place = decoder_place_plain(c, layer, parts[i].tensor, kind);
            place.map.rows = parts[i].rows;
            return place;
        }
    }
    return decoder_place_plain(c, layer, part, kind);
}
