/* Decoders whose families store projections in other tensors than llama does. */
#include "config.h"

#include "arch/decoder.h"
#include "graph/site.h"
#include "support/json_memory.h"

#include <stdio.h>
#include <string.h>

/* q, k and v one after another, and gate before up. */
static const decoder_family fused = {
    .qkv = "attention.qkv", .gate_up = "mlp.gate_up", .default_context = 64};
static const decoder_family plain = {.default_context = 64};
static const decoder_family biased = {.qkv = "attention.qkv",
                                      .gate_up = "mlp.gate_up",
                                      .default_context = 64,
                                      .always_qkv_bias = true};

/* The small network of config.h: width 16, 4 heads and 2 key/value heads of 4, ffn 24. */
static graph *graph_of(const decoder_family *family, const char *changes)
{
    OWNED(json_t) *json = small_config("fused", changes);
    decoder_config c = {0};
    graph *g = NULL;
    assert_ok(decoder_config_read(family, "config.json", json, &c));
    assert_ok(decoder_graph("config.json", &c, &g));
    decoder_config_fini(&c);
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
    OWNED(graph) *g = graph_of(&fused, NULL);
    OWNED(graph) *expected = graph_of(&plain, NULL);
    assert_int_equal(g->parameter_count, expected->parameter_count);
    for (int p = 0; p < g->parameter_count; p++) {
        assert_string_equal(g->parameters[p].name, expected->parameters[p].name);
        assert_memory_equal(g->parameters[p].shape, expected->parameters[p].shape,
                            sizeof g->parameters[p].shape);
    }
}

static void parts_lie_in_the_tensors_of_the_family(void **state)
{
    (void)state;
    OWNED(graph) *g = graph_of(&fused, NULL);
    static const char qkv[] = "model.layers.1.attention.qkv.weight";
    static const char ffn[] = "model.layers.1.mlp.gate_up.weight";
    assert_rows(g, "model.layers.1.self_attn.q_proj.weight", qkv, 0, 16);
    assert_rows(g, "model.layers.1.self_attn.k_proj.weight", qkv, 16, 8);
    assert_rows(g, "model.layers.1.self_attn.v_proj.weight", qkv, 24, 8);
    assert_rows(g, "model.layers.1.mlp.gate_proj.weight", ffn, 0, 24);
    assert_rows(g, "model.layers.1.mlp.up_proj.weight", ffn, 24, 24);
    assert_rows(g, "model.layers.1.mlp.down_proj.weight", "model.layers.1.mlp.down_proj.weight", 0,
                16);
}

static void biases_lie_beside_their_weights(void **state)
{
    (void)state;
    OWNED(graph) *g = graph_of(&biased, NULL);
    assert_rows(g, "model.layers.0.self_attn.v_proj.bias", "model.layers.0.attention.qkv.bias", 24,
                8);
}

static void every_layer_is_placed_by_its_own_widths(void **state)
{
    (void)state;
    OWNED(graph) *g = graph_of(&fused, "\"head_dim\": 4, \"per_layer_config\": {\"1\":"
                                       " {\"intermediate_size\": 9, \"num_attention_heads\": 2}}");
    assert_rows(g, "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.gate_up.weight", 24,
                24);
    assert_rows(g, "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.gate_up.weight", 9, 9);
    assert_rows(g, "model.layers.1.self_attn.k_proj.weight", "model.layers.1.attention.qkv.weight",
                8, 8);
}

static void sites_are_those_of_separate_projections(void **state)
{
    (void)state;
    OWNED(graph) *g = graph_of(&fused, NULL);
    OWNED(graph) *expected = graph_of(&plain, NULL);
    OWNED(site_list) sites = {0};
    OWNED(site_list) expected_sites = {0};
    assert_ok(sites_derive(g, GQA_KV_GROUPS, &sites));
    assert_ok(sites_derive(expected, GQA_KV_GROUPS, &expected_sites));
    assert_int_equal(sites.count, 4);
    assert_int_equal(expected_sites.count, 4);
    for (int i = 0; i < sites.count; i++) {
        assert_string_equal(sites.sites[i].name, expected_sites.sites[i].name);
        assert_int_equal(sites.sites[i].units, expected_sites.sites[i].units);
    }
}

/* What llama-like decoders differ in from older ones: keys, norms, positions, biases, the FFN, and
 * how weights are stored. */
static decoder_place place_turned(const decoder_config *c, int layer, const char *part,
                                  const char *kind)
{
    decoder_place place = decoder_place_plain(c, layer, part, kind);
    const int64_t width = c->hidden;
    if (strcmp(part, "model.embed_tokens") == 0) {
        snprintf(place.tensor, sizeof place.tensor, "tokens.%s", kind);
    } else if (strncmp(part, "self_attn.", 10) == 0 && strstr(part, "o_proj") == NULL) {
        const int64_t third = strstr(part, "q_proj") != NULL   ? 0
                              : strstr(part, "k_proj") != NULL ? 1
                                                               : 2;
        snprintf(place.tensor, sizeof place.tensor, "h.%d.fused.%s", layer, kind);
        place.map = storage_rows(third * width, width);
    }
    place.map.transposed = strstr(part, "_proj") != NULL && strcmp(kind, "weight") == 0;
    return place;
}

static const decoder_family other = {
    .place = place_turned,
    .keys = {.hidden = "width",
             .layers = "depth",
             .heads = "heads",
             .head_dim = "head_width",
             .intermediate = "inner",
             .intermediate_multiple = 4,
             .context = "length",
             .epsilon = "epsilon",
             .activation = "function"},
    .default_context = 64,
    .always_biases = true,
    .layer_norms = true,
    .learned_positions = true,
    .ungated = true,
    .tied_by_default = true,
    .loaders = {HEADS_DERIVED, HEADS_DERIVED, HEADS_DERIVED, .llama_cpp_multiplies = true},
};

static const architecture other_architecture = {.name = "other", .family = &other};

static json_t *other_config(const char *more)
{
    char text[256];
    json_t *config = NULL;
    snprintf(text, sizeof text,
             "{\"width\": 16, \"depth\": 2, \"heads\": 4, \"vocab_size\": 10, \"length\": 24, "
             "\"function\": \"gelu_new\", \"model_type\": \"other\"%s}",
             more);
    assert_ok(json_parse("config.json", text, strlen(text), &config));
    return config;
}

static int count_nodes(const graph *g, node_kind kind)
{
    int count = 0;
    for (int n = 0; n < g->node_count; n++) {
        count += g->nodes[n].kind == kind ? 1 : 0;
    }
    return count;
}

static graph *build_other(const char *more)
{
    graph *g = NULL;
    OWNED(json_t) *config = other_config(more);
    assert_ok(decoder_build(&other_architecture, "config.json", config, NULL, &g));
    return g;
}

static void a_row_says_what_a_decoder_consists_of(void **state)
{
    (void)state;
    OWNED(graph) *g = build_other(", \"inner\": null");
    assert_int_equal(count_nodes(g, NODE_RMS_NORM), 0);
    assert_int_equal(count_nodes(g, NODE_ROPE), 0);
    assert_int_equal(count_nodes(g, NODE_MULTIPLY), 0);
    assert_int_equal(count_nodes(g, NODE_LAYER_NORM), 5);
    assert_int_equal(count_nodes(g, NODE_ACTIVATION), 2);
    assert_int_equal(count_nodes(g, NODE_POSITIONS), 1);
    for (int n = 0; n < g->node_count; n++) {
        const node *a = &g->nodes[n];
        const bool has_bias =
            a->kind == NODE_LAYER_NORM || (a->kind == NODE_LINEAR && a->block < 2);
        assert_int_equal(a->bias != GRAPH_NONE, has_bias);
        assert_true(a->kind != NODE_ACTIVATION || a->activation == ACTIVATION_GELU_TANH);
    }
    assert_memory_equal(shape_of(g, "model.embed_positions.weight"), ((int64_t[]){24, 16}), 16);
    assert_memory_equal(shape_of(g, "model.layers.1.mlp.up_proj.weight"), ((int64_t[]){64, 16}),
                        16);
    assert_rows(g, "model.layers.1.self_attn.v_proj.weight", "h.1.fused.weight", 32, 16);
    assert_rows(g, "model.layers.1.self_attn.v_proj.bias", "h.1.fused.bias", 32, 16);
    assert_rows(g, "model.embed_tokens.weight", "tokens.weight", 0, 10);
    assert_int_equal(g->nodes[g->node_count - 1].weight, g->nodes[0].weight); /* tied */
}

static void widths_are_read_and_written_by_the_familys_keys(void **state)
{
    (void)state;
    graph *g = build_other(", \"inner\": 20");
    OWNED(json_t) *config = other_config("");
    loader_verdict verdicts[LOADER_COUNT];
    assert_int_equal(shape_of(g, "model.layers.0.mlp.down_proj.weight")[1], 20);
    assert_ok(decoder_describe_narrowed(&other_architecture, g, config));
    assert_int_equal(json_integer_value(json_object_get(config, "inner")), 20);
    assert_int_equal(json_object_size(config), 8);
    assert_ok(decoder_judge_loaders(&other_architecture, config, g, g, verdicts));
    assert_true(verdicts[0].loads);
    assert_true(verdicts[1].loads);
    assert_false(verdicts[2].loads);
    assert_string_equal(verdicts[2].reason, "its converter takes the FFN for 4 times as wide as "
                                            "width; cut heads alone for it");
    graph_free(g);
    g = build_other(", \"head_width\": 4, \"per_layer_config\": {\"0\": {\"heads\": 2}, \"1\":"
                    " {\"heads\": 2}}");
    assert_ok(decoder_describe_narrowed(&other_architecture, g, config));
    assert_int_equal(json_integer_value(json_object_get(config, "head_width")), 4);
    assert_ok(decoder_judge_loaders(&other_architecture, config, g, g, verdicts));
    for (int i = 0; i < LOADER_COUNT; i++) {
        assert_false(verdicts[i].loads);
        assert_string_equal(verdicts[i].reason,
                            "its other class takes head_dim = width / heads; cut ffn alone for it");
    }
    graph_free(g);
}

static void what_does_not_fit_is_refused_by_the_familys_keys(void **state)
{
    (void)state;
    graph *g = NULL;
    json_t *config = other_config(", \"inner\": 0");
    assert_fails(decoder_build(&other_architecture, "config.json", config, NULL, &g),
                 GRAIL_ERROR_FORMAT, "\"inner\" is 0, expected 1 to");
    json_decref(config);
    config = other_config("");
    assert_int_equal(json_object_set_new(config, "heads", json_integer(3)), 0);
    assert_fails(decoder_build(&other_architecture, "config.json", config, NULL, &g),
                 GRAIL_ERROR_FORMAT, "\"width\" is 16, which is not divisible by 3 heads");
    json_object_del(config, "depth");
    assert_fails(decoder_build(&other_architecture, "config.json", config, NULL, &g),
                 GRAIL_ERROR_FORMAT, "depth");
    json_decref(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_named_as_in_every_decoder),
        cmocka_unit_test(parts_lie_in_the_tensors_of_the_family),
        cmocka_unit_test(biases_lie_beside_their_weights),
        cmocka_unit_test(every_layer_is_placed_by_its_own_widths),
        cmocka_unit_test(sites_are_those_of_separate_projections),
        cmocka_unit_test(a_row_says_what_a_decoder_consists_of),
        cmocka_unit_test(widths_are_read_and_written_by_the_familys_keys),
        cmocka_unit_test(what_does_not_fit_is_refused_by_the_familys_keys),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
