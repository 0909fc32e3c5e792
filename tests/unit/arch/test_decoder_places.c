/* Decoders whose families store projections in other tensors than llama does. */
#include "config.h"

#include "arch/decoder.h"
#include "graph/site.h"
#include "support/json_memory.h"

#include <string.h>

/* The rows of a fused tensor in which a part lies. */
static decoder_place rows_of(int layer, const char *fused, const char *kind, int64_t first,
                             int64_t rows)
{
    decoder_place place = decoder_place_plain(NULL, layer, fused, kind);
    place.map = storage_rows(first, rows);
    return place;
}

/* q, k and v one after another, and up before gate. */
static decoder_place place_fused(const decoder_config *c, int layer, const char *part,
                                 const char *kind)
{
    const decoder_layer *l = &c->layer[layer];
    const int64_t q = l->heads * c->head_dim;
    const int64_t k = l->kv_heads * c->head_dim;
    if (strcmp(part, "self_attn.q_proj") == 0) {
        return rows_of(layer, "attention.qkv", kind, 0, q);
    }
    if (strcmp(part, "self_attn.k_proj") == 0) {
        return rows_of(layer, "attention.qkv", kind, q, k);
    }
    if (strcmp(part, "self_attn.v_proj") == 0) {
        return rows_of(layer, "attention.qkv", kind, q + k, k);
    }
    if (strcmp(part, "mlp.up_proj") == 0) {
        return rows_of(layer, "mlp.up_gate", kind, 0, l->intermediate);
    }
    if (strcmp(part, "mlp.gate_proj") == 0) {
        return rows_of(layer, "mlp.up_gate", kind, l->intermediate, l->intermediate);
    }
    return decoder_place_plain(c, layer, part, kind);
}

static const decoder_family fused = {.place = place_fused, .default_context = 64};
static const decoder_family plain = {.place = decoder_place_plain, .default_context = 64};
static const decoder_family biased = {
    .place = place_fused, .default_context = 64, .always_qkv_bias = true};

/* The small network of config.h: width 16, 4 heads and 2 key/value heads of 4, ffn 24. */
static graph *graph_of(const decoder_family *family, const char *changes)
{
    json_t *json = small_config("fused", changes);
    decoder_config c = {0};
    graph *g = NULL;
    assert_ok(decoder_config_read(family, "config.json", json, &c));
    assert_ok(decoder_graph("config.json", &c, &g));
    decoder_config_fini(&c);
    json_decref(json);
    return g;
}

static void assert_rows(const graph *g, const char *name, const char *tensor, int64_t first,
                        int64_t rows)
{
    const int index = graph_find_parameter(g, name);
    assert_int_not_equal(index, GRAPH_NONE);
    const graph_parameter *p = &g->parameters[index];
    assert_string_equal(p->tensor, tensor);
    assert_int_equal(storage_position(&p->map.rows, 0), first);
    assert_int_equal(p->shape[0], rows);
    assert_true(storage_is_run_of_rows(&p->map, rows));
}

static void parts_are_named_as_in_every_decoder(void **state)
{
    (void)state;
    graph *g = graph_of(&fused, NULL);
    graph *expected = graph_of(&plain, NULL);
    assert_int_equal(g->parameter_count, expected->parameter_count);
    for (int p = 0; p < g->parameter_count; p++) {
        assert_string_equal(g->parameters[p].name, expected->parameters[p].name);
        assert_memory_equal(g->parameters[p].shape, expected->parameters[p].shape,
                            sizeof g->parameters[p].shape);
    }
    graph_free(g);
    graph_free(expected);
}

static void parts_lie_in_the_tensors_of_the_family(void **state)
{
    (void)state;
    graph *g = graph_of(&fused, NULL);
    static const char qkv[] = "model.layers.1.attention.qkv.weight";
    static const char ffn[] = "model.layers.1.mlp.up_gate.weight";
    assert_rows(g, "model.layers.1.self_attn.q_proj.weight", qkv, 0, 16);
    assert_rows(g, "model.layers.1.self_attn.k_proj.weight", qkv, 16, 8);
    assert_rows(g, "model.layers.1.self_attn.v_proj.weight", qkv, 24, 8);
    assert_rows(g, "model.layers.1.mlp.up_proj.weight", ffn, 0, 24);
    assert_rows(g, "model.layers.1.mlp.gate_proj.weight", ffn, 24, 24);
    assert_rows(g, "model.layers.1.mlp.down_proj.weight", "model.layers.1.mlp.down_proj.weight", 0,
                16);
    graph_free(g);
}

static void biases_lie_beside_their_weights(void **state)
{
    (void)state;
    graph *g = graph_of(&biased, NULL);
    assert_rows(g, "model.layers.0.self_attn.v_proj.bias", "model.layers.0.attention.qkv.bias", 24,
                8);
    graph_free(g);
}

static void every_layer_is_placed_by_its_own_widths(void **state)
{
    (void)state;
    graph *g = graph_of(&fused, "\"head_dim\": 4, \"per_layer_config\": {\"1\":"
                                " {\"intermediate_size\": 9, \"num_attention_heads\": 2}}");
    assert_rows(g, "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_gate.weight", 24,
                24);
    assert_rows(g, "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_gate.weight", 9,
                9);
    assert_rows(g, "model.layers.1.self_attn.k_proj.weight", "model.layers.1.attention.qkv.weight",
                8, 8);
    graph_free(g);
}

static void sites_are_those_of_separate_projections(void **state)
{
    (void)state;
    graph *g = graph_of(&fused, NULL);
    graph *expected = graph_of(&plain, NULL);
    site_list sites = {0};
    site_list expected_sites = {0};
    assert_ok(sites_derive(g, GQA_KV_GROUPS, &sites));
    assert_ok(sites_derive(expected, GQA_KV_GROUPS, &expected_sites));
    assert_int_equal(sites.count, 4);
    assert_int_equal(expected_sites.count, 4);
    for (int i = 0; i < sites.count; i++) {
        assert_string_equal(sites.sites[i].name, expected_sites.sites[i].name);
        assert_int_equal(sites.sites[i].units, expected_sites.sites[i].units);
    }
    site_list_fini(&sites);
    site_list_fini(&expected_sites);
    graph_free(g);
    graph_free(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_named_as_in_every_decoder),
        cmocka_unit_test(parts_lie_in_the_tensors_of_the_family),
        cmocka_unit_test(biases_lie_beside_their_weights),
        cmocka_unit_test(every_layer_is_placed_by_its_own_widths),
        cmocka_unit_test(sites_are_those_of_separate_projections),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
