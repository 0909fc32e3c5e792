/* Describing a narrowed decoder, and who loads it. */
#include "config.h"

#include <stdio.h>
#include <string.h>

/* Narrows one layer of a graph: new widths for its projections. head_dim is 4. */
static void narrow_layer(graph *g, int layer, int64_t inner, int64_t heads, int64_t kv)
{
    enum { DIM = 4 };
    static const char *const parts[] = {"mlp.gate_proj",    "mlp.up_proj",      "self_attn.q_proj",
                                        "self_attn.k_proj", "self_attn.v_proj", "mlp.down_proj",
                                        "self_attn.o_proj"};
    const int64_t widths[] = {inner, inner, heads * DIM, kv * DIM, kv * DIM, inner, heads * DIM};
    for (int i = 0; i < 7; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, parts[i]);
        g->parameters[graph_find_parameter(g, name)].shape[i < 5 ? 0 : 1] = widths[i];
    }
}

typedef struct description {
    json_t *config;
    graph *narrowed;
    loader_verdict verdicts[LOADER_COUNT]; /* transformers, vLLM, llama.cpp */
} description;

/* A network of two layers with the given widths in layer 0 and 1, described. */
static void describe(const char *type, const char *changes, const int64_t first[3],
                     const int64_t second[3], description *d)
{
    const architecture *a = NULL;
    d->config = small_config(type, changes);
    assert_ok(architecture_find("config.json", d->config, &a));
    assert_ok(a->build(a, "config.json", d->config, NULL, &d->narrowed));
    narrow_layer(d->narrowed, 0, first[0], first[1], first[2]);
    narrow_layer(d->narrowed, 1, second[0], second[1], second[2]);
    assert_ok(a->describe_narrowed(d->narrowed, d->config));
    assert_ok(a->judge_loaders(d->config, d->narrowed, d->verdicts));
}

static void description_fini(description *d)
{
    graph_free(d->narrowed);
    json_decref(d->config);
}

static void assert_says(const description *d, const char *key, int64_t value)
{
    assert_int_equal(json_integer_value(json_object_get(d->config, key)), value);
}

static const char *type_of(const description *d)
{
    return json_string_value(json_object_get(d->config, "model_type"));
}

static bool builds_itself(const description *d)
{
    graph *g = NULL;
    assert_ok(build_config(d->config, &g));
    bool same = g->parameter_count == d->narrowed->parameter_count;
    for (int p = 0; same && p < g->parameter_count; p++) {
        same = memcmp(g->parameters[p].shape, d->narrowed->parameters[p].shape,
                      2 * sizeof(int64_t)) == 0;
    }
    graph_free(g);
    return same;
}

static void a_narrow_ffn_is_one_number(void **state)
{
    (void)state;
    description d;
    const int64_t widths[] = {9, 4, 2};
    describe("llama", NULL, widths, widths, &d);
    assert_says(&d, "intermediate_size", 9);
    assert_says(&d, "num_attention_heads", 4);
    assert_says(&d, "num_key_value_heads", 2);
    assert_null(json_object_get(d.config, "head_dim")); /* still hidden / heads */
    assert_null(json_object_get(d.config, "per_layer_config"));
    assert_string_equal(type_of(&d), "llama");
    assert_true(builds_itself(&d));
    description_fini(&d);
}

static void fewer_heads_need_head_dim(void **state)
{
    (void)state;
    description d;
    const int64_t widths[] = {24, 2, 1};
    describe("llama", NULL, widths, widths, &d);
    assert_says(&d, "num_attention_heads", 2);
    assert_says(&d, "num_key_value_heads", 1);
    assert_says(&d, "head_dim", 4);
    assert_string_equal(type_of(&d), "llama"); /* 16 % 2 == 0 */
    assert_true(builds_itself(&d));
    description_fini(&d);
}

static void a_head_count_that_llama_refuses_makes_it_a_mistral(void **state)
{
    (void)state;
    description d;
    const int64_t widths[] = {24, 3, 3};
    describe("llama", "\"architectures\": [\"LlamaForCausalLM\"]", widths, widths, &d);
    assert_string_equal(type_of(&d), "mistral");
    assert_true(json_is_null(json_object_get(d.config, "sliding_window")));
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(d.config, "architectures"), 0)),
        "MistralForCausalLM");
    assert_int_equal(json_array_size(json_object_get(d.config, "architectures")), 1);
    assert_says(&d, "max_position_embeddings", 2048); /* llama's, not mistral's default */
    assert_true(d.verdicts[0].loads);
    assert_true(builds_itself(&d));
    description_fini(&d);
}

static void but_not_where_biases_or_the_family_forbid_it(void **state)
{
    (void)state;
    static const struct {
        const char *type, *changes;
        bool loads;
    } cases[] = {{"llama", "\"attention_bias\": true", false},
                 {"llama", "\"mlp_bias\": true", false},
                 {"qwen2", NULL, true},
                 {"qwen3", "\"head_dim\": 4", true},
                 {"mistral", NULL, true}};
    const int64_t widths[] = {24, 3, 3};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        description d;
        char changes[128];
        snprintf(changes, sizeof changes, "%s%s\"num_key_value_heads\": 4",
                 cases[i].changes == NULL ? "" : cases[i].changes,
                 cases[i].changes == NULL ? "" : ", ");
        describe(cases[i].type, changes, widths, widths, &d);
        assert_string_equal(type_of(&d), cases[i].type);
        assert_int_equal(d.verdicts[0].loads, cases[i].loads);
        description_fini(&d);
    }
}

static void different_layers_are_listed(void **state)
{
    (void)state;
    description d;
    const int64_t first[] = {24, 4, 2};
    const int64_t second[] = {9, 2, 1};
    describe("llama", NULL, first, second, &d);
    const json_t *layers = json_object_get(d.config, "per_layer_config");
    assert_int_equal(json_object_size(layers), 1);
    const json_t *own = json_object_get(layers, "1");
    assert_int_equal(json_integer_value(json_object_get(own, "intermediate_size")), 9);
    assert_int_equal(json_integer_value(json_object_get(own, "num_attention_heads")), 2);
    assert_int_equal(json_integer_value(json_object_get(own, "num_key_value_heads")), 1);
    assert_says(&d, "head_dim", 4);
    for (int i = 0; i < LOADER_COUNT; i++) {
        assert_false(d.verdicts[i].loads);
        assert_true(strlen(d.verdicts[i].reason) > 0);
    }
    assert_true(builds_itself(&d));
    description_fini(&d);
}

static void layers_that_become_equal_are_listed_no_more(void **state)
{
    (void)state;
    description d;
    const int64_t widths[] = {9, 2, 1};
    describe("llama",
             "\"per_layer_config\": {\"0\": {\"num_attention_heads\": 2,"
             " \"num_key_value_heads\": 1}}",
             widths, widths, &d);
    assert_null(json_object_get(d.config, "per_layer_config"));
    assert_says(&d, "head_dim", 4); /* was 16 / 4, would be 16 / 2 */
    assert_true(builds_itself(&d));
    description_fini(&d);
}

static void loaders_are_judged_by_what_they_check(void **state)
{
    (void)state;
    description d;
    const int64_t heads[] = {32, 2, 1};
    const int64_t ffn[] = {32, 4, 2};
    describe("qwen2", NULL, heads, heads, &d);
    assert_string_equal(d.verdicts[0].loader, "transformers");
    assert_string_equal(d.verdicts[1].loader, "vLLM");
    assert_string_equal(d.verdicts[2].loader, "llama.cpp");
    assert_true(d.verdicts[0].loads);
    assert_false(d.verdicts[1].loads);
    assert_non_null(strstr(d.verdicts[1].reason, "head_dim = hidden_size / heads"));
    assert_false(d.verdicts[2].loads);
    description_fini(&d);
    describe("qwen2", NULL, ffn, ffn, &d);
    assert_true(d.verdicts[0].loads && d.verdicts[1].loads && d.verdicts[2].loads);
    assert_non_null(strstr(d.verdicts[2].reason, "multiple of 32")); /* heads are 16 wide */
    description_fini(&d);
    describe("llama", "\"hidden_act\": \"gelu\"", ffn, ffn, &d);
    assert_false(d.verdicts[1].loads);
    assert_non_null(
        strstr(d.verdicts[1].reason, "its classes support only silu, but this network has gelu"));
    description_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_narrow_ffn_is_one_number),
        cmocka_unit_test(fewer_heads_need_head_dim),
        cmocka_unit_test(a_head_count_that_llama_refuses_makes_it_a_mistral),
        cmocka_unit_test(but_not_where_biases_or_the_family_forbid_it),
        cmocka_unit_test(different_layers_are_listed),
        cmocka_unit_test(layers_that_become_equal_are_listed_no_more),
        cmocka_unit_test(loaders_are_judged_by_what_they_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
