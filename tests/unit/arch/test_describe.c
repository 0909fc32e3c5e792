/* Describing a narrowed decoder, and who loads it. */
#include "config.h"

#include "graph/sublayer.h"

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
    graph *dense, *narrowed;
    loader_verdict verdicts[LOADER_COUNT]; /* transformers, vLLM, llama.cpp */
} description;

/* A network of two layers with the given widths in layer 0 and 1, described. */
static void describe(const char *type, const char *changes, const int64_t first[3],
                     const int64_t second[3], description *d)
{
    const architecture *a = NULL;
    d->config = small_config(type, changes);
    assert_ok(architecture_find("config.json", d->config, &a));
    assert_ok(a->build(a, "config.json", d->config, NULL, &d->dense));
    assert_ok(a->build(a, "config.json", d->config, NULL, &d->narrowed));
    narrow_layer(d->narrowed, 0, first[0], first[1], first[2]);
    narrow_layer(d->narrowed, 1, second[0], second[1], second[2]);
    assert_ok(a->describe_narrowed(a, d->narrowed, d->config));
    assert_ok(a->judge_loaders(a, d->config, d->dense, d->narrowed, d->verdicts));
}

static void description_fini(description *d)
{
    graph_free(d->dense);
    graph_free(d->narrowed);
    json_decref(d->config);
}

OWNS(description, description_fini)

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
    OPENED(graph, g, build_config(d->config, &g));
    bool same = g->parameter_count == d->narrowed->parameter_count;
    for (int p = 0; same && p < g->parameter_count; p++) {
        same = memcmp(g->parameters[p].shape, d->narrowed->parameters[p].shape,
                      2 * sizeof(int64_t)) == 0;
    }
    return same;
}

TEST(a_narrow_ffn_is_one_number)
{
    OWNED(description) d;
    const int64_t widths[] = {9, 4, 2};
    describe("llama", NULL, widths, widths, &d);
    assert_says(&d, "intermediate_size", 9);
    assert_says(&d, "num_attention_heads", 4);
    assert_says(&d, "num_key_value_heads", 2);
    assert_null(json_object_get(d.config, "head_dim")); /* still hidden / heads */
    assert_null(json_object_get(d.config, "per_layer_config"));
    assert_string_equal(type_of(&d), "llama");
    assert_true(builds_itself(&d));
}

TEST(fewer_heads_need_head_dim)
{
    OWNED(description) d;
    const int64_t widths[] = {24, 2, 1};
    describe("llama", NULL, widths, widths, &d);
    assert_says(&d, "num_attention_heads", 2);
    assert_says(&d, "num_key_value_heads", 1);
    assert_says(&d, "head_dim", 4);
    assert_string_equal(type_of(&d), "llama"); /* 16 % 2 == 0 */
    assert_true(builds_itself(&d));
}

TEST(a_head_count_that_llama_refuses_makes_it_a_mistral)
{
    OWNED(description) d;
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
}

/* Older Mistral classes ignore the scaling and give other logits. */
TEST(a_mistral_with_scaled_positions_needs_a_newer_loader)
{
    static const char *const changes[] = {
        "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}",
        "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}"};
    for (int i = 0; i < 2; i++) {
        OWNED(description) d;
        describe("llama", changes[i], (const int64_t[]){6, 3, 3}, (const int64_t[]){6, 3, 3}, &d);
        assert_string_equal(type_of(&d), "mistral");
        assert_true(d.verdicts[0].loads);
        assert_int_equal(strstr(d.verdicts[0].reason, "4.48") != NULL, i == 0);
    }
}

TEST(but_not_where_biases_or_the_family_forbid_it)
{
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
        OWNED(description) d;
        char changes[128];
        snprintf(changes, sizeof changes, "%s%s\"num_key_value_heads\": 4",
                 cases[i].changes == NULL ? "" : cases[i].changes,
                 cases[i].changes == NULL ? "" : ", ");
        describe(cases[i].type, changes, widths, widths, &d);
        assert_string_equal(type_of(&d), cases[i].type);
        assert_int_equal(d.verdicts[0].loads, cases[i].loads);
    }
}

TEST(different_layers_are_listed)
{
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
    assert_true(d.verdicts[0].loads);
    assert_non_null(strstr(d.verdicts[0].lines, "trust_remote_code=True"));
    assert_false(d.verdicts[1].loads); /* one number of heads for all */
    assert_non_null(strstr(d.verdicts[1].reason, "FFNs may differ"));
    assert_true(d.verdicts[2].loads);
    assert_non_null(strstr(d.verdicts[2].reason, "(deci); "));
    assert_true(builds_itself(&d));
    description_fini(&d);
    describe("llama", NULL, first, (const int64_t[]){9, 4, 2}, &d);
    assert_true(d.verdicts[1].loads);
    description_fini(&d);
    describe("qwen3", "\"head_dim\": 4", first, second, &d);
    assert_true(d.verdicts[0].loads);
    assert_false(d.verdicts[2].loads);
    description_fini(&d);
    describe("gemma", "\"head_dim\": 4", first, second, &d);
    for (int i = 0; i < LOADER_COUNT; i++) {
        assert_false(d.verdicts[i].loads);
        assert_non_null(strstr(d.verdicts[i].reason, "different"));
    }
    assert_null(json_object_get(d.config, "auto_map"));
    assert_true(builds_itself(&d));
    description_fini(&d);
}

static const char *class_of(const description *d, const char *key)
{
    return json_string_value(json_object_get(json_object_get(d->config, "auto_map"), key));
}

static void assert_architecture(const description *d, const char *name)
{
    const json_t *list = json_object_get(d->config, "architectures");
    assert_string_equal(json_string_value(json_array_get(list, 0)), name);
    assert_int_equal(json_array_size(list), 1);
}

/* The file of classes that comes with what describe_narrowed wrote; "" for none. Owned. */
static buffer file_of(const description *d)
{
    const architecture *a = NULL;
    const char *name = NULL;
    buffer text;
    buffer_init(&text, 1 << 16);
    assert_ok(architecture_find("config.json", d->config, &a));
    assert_ok(a->loader_file(a, d->config, d->narrowed, &name, &text));
    assert_int_equal(name != NULL, text.size > 0);
    assert_true(name == NULL || strcmp(name, "modeling_grail.py") == 0);
    return text;
}

TEST(different_layers_come_with_their_classes)
{
    static const char *const types[] = {"llama", "mistral", "qwen2", "qwen3"};
    static const char *const classes[] = {"Llama", "Mistral", "Qwen2", "Qwen3"};
    for (size_t i = 0; i < 4; i++) {
        OWNED(description) d;
        char wanted[96];
        describe(types[i], "\"head_dim\": 4, \"auto_map\": {\"AutoTokenizer\": \"own.Tokenizer\"}",
                 (const int64_t[]){24, 4, 2}, (const int64_t[]){9, 4, 2}, &d);
        snprintf(wanted, sizeof wanted, "modeling_grail.Grail%sForCausalLM", classes[i]);
        assert_string_equal(class_of(&d, "AutoModelForCausalLM"), wanted);
        assert_string_equal(class_of(&d, "AutoTokenizer"), "own.Tokenizer");
        assert_architecture(&d, strchr(wanted, '.') + 1);
        OWNED(buffer) text = file_of(&d);
        assert_null(strstr((const char *)text.bytes, "FAMILY"));
        assert_null(strstr((const char *)text.bytes, "MODULE"));
        snprintf(wanted, sizeof wanted,
                 "\nfrom transformers.models.%s.configuration_%s import %sConfig\n", types[i],
                 types[i], classes[i]);
        assert_non_null(strstr((const char *)text.bytes, wanted));
    }
}

/* Narrowed once more, to equal layers, it is a network of the stock class again. */
TEST(equal_layers_need_no_classes_of_their_own)
{
    static const char dense[] =
        "\"architectures\": [\"GrailLlamaForCausalLM\"], \"auto_map\": {\"AutoConfig\": "
        "\"modeling_grail.GrailLlamaConfig\", \"AutoModel\": \"modeling_grail.GrailLlamaModel\", "
        "\"AutoModelForCausalLM\": \"modeling_grail.GrailLlamaForCausalLM\"}, "
        "\"per_layer_config\": {\"1\": {\"intermediate_size\": 9}}";
    description d;
    describe("llama", dense, (const int64_t[]){9, 4, 2}, (const int64_t[]){9, 4, 2}, &d);
    assert_null(json_object_get(d.config, "auto_map"));
    assert_architecture(&d, "LlamaForCausalLM");
    buffer text = file_of(&d);
    assert_int_equal(text.size, 0);
    buffer_fini(&text);
    description_fini(&d);
    describe("llama", dense, (const int64_t[]){9, 3, 3}, (const int64_t[]){9, 3, 3}, &d);
    assert_architecture(&d, "MistralForCausalLM");
    description_fini(&d);
    describe("llama", "\"auto_map\": {\"AutoConfig\": \"other.Config\"}",
             (const int64_t[]){9, 4, 2}, (const int64_t[]){9, 4, 2}, &d);
    assert_string_equal(class_of(&d, "AutoConfig"), "other.Config"); /* not ours */
    description_fini(&d);
}

TEST(layers_that_become_equal_are_listed_no_more)
{
    OWNED(description) d;
    const int64_t widths[] = {9, 2, 1};
    describe("llama",
             "\"per_layer_config\": {\"0\": {\"num_attention_heads\": 2,"
             " \"num_key_value_heads\": 1}}",
             widths, widths, &d);
    assert_null(json_object_get(d.config, "per_layer_config"));
    assert_says(&d, "head_dim", 4); /* was 16 / 4, would be 16 / 2 */
    assert_true(builds_itself(&d));
}

/* The same network without some sublayers, named by their consumers, the last first. */
static void describe_without(const char *type, const char *changes, const char *const dropped[],
                             description *d)
{
    const architecture *a = NULL;
    site_list sites = {0};
    d->config = small_config(type, changes);
    assert_ok(architecture_find("config.json", d->config, &a));
    assert_ok(a->build(a, "config.json", d->config, NULL, &d->dense));
    assert_ok(a->build(a, "config.json", d->config, NULL, &d->narrowed));
    assert_ok(sites_derive(d->narrowed, GQA_KV_GROUPS, &sites));
    for (int i = 0; dropped[i] != NULL; i++) {
        sublayer s = {0};
        assert_true(sublayer_of(d->narrowed, &sites.sites[site_list_find(&sites, dropped[i])], &s));
        assert_ok(graph_drop_sublayer(d->narrowed, &s));
    }
    site_list_fini(&sites);
    assert_ok(a->describe_narrowed(a, d->narrowed, d->config));
    assert_ok(a->judge_loaders(a, d->config, d->dense, d->narrowed, d->verdicts));
}

/* The described network has the narrowed one's nodes. */
static bool builds_the_same_nodes(const description *d)
{
    OPENED(graph, g, build_config(d->config, &g));
    bool same = g->node_count == d->narrowed->node_count;
    for (int n = 0; same && n < g->node_count; n++) {
        const node *own = &d->narrowed->nodes[n];
        same =
            g->nodes[n].kind == own->kind &&
            (own->kind != NODE_ATTENTION || g->nodes[n].attention.window == own->attention.window);
        if (same && own->weight != GRAPH_NONE) {
            same = memcmp(g->parameters[g->nodes[n].weight].shape,
                          d->narrowed->parameters[own->weight].shape, 2 * sizeof(int64_t)) == 0;
        }
    }
    return same;
}

static const char *skip_of(const json_t *layers, const char *layer)
{
    const json_t *list = json_object_get(json_object_get(layers, layer), "skip");
    assert_int_equal(json_array_size(list), 1);
    return json_string_value(json_array_get(list, 0));
}

TEST(a_missing_sublayer_is_skipped)
{
    OWNED(description) d;
    describe_without("llama", NULL,
                     (const char *const[]){"model.layers.1.self_attn.o_proj",
                                           "model.layers.0.mlp.down_proj", NULL},
                     &d);
    const json_t *layers = json_object_get(d.config, "per_layer_config");
    assert_int_equal(json_object_size(layers), 2);
    assert_string_equal(skip_of(layers, "0"), "mlp");
    assert_null(json_object_get(json_object_get(layers, "0"), "intermediate_size"));
    assert_string_equal(skip_of(layers, "1"), "attention");
    const json_t *own = json_object_get(layers, "1");
    assert_int_equal(json_integer_value(json_object_get(own, "intermediate_size")), 24);
    assert_null(json_object_get(own, "num_key_value_heads"));
    assert_says(&d, "intermediate_size", 24);
    assert_says(&d, "num_attention_heads", 4);
    assert_says(&d, "num_hidden_layers", 2);
    assert_true(d.verdicts[0].loads);
    assert_true(d.verdicts[1].loads);
    assert_non_null(strstr(d.verdicts[1].reason, "as DeciLMForCausalLM"));
    assert_false(d.verdicts[2].loads);
    assert_non_null(strstr(d.verdicts[2].reason, "lack their attention or FFN"));
    assert_true(builds_the_same_nodes(&d));
}

/* The class of vLLM begins the residual stream with an attention, and has no windows and no norms
 * of heads. */
TEST(not_every_missing_sublayer_opens_in_vllm)
{
    static const struct {
        const char *family, *changes, *without;
        bool loads;
    } cases[] = {
        {"llama", NULL, "model.layers.1.self_attn.o_proj", true},
        {"llama", NULL, "model.layers.0.self_attn.o_proj", false},
        {"llama", "\"hidden_act\": \"gelu\"", "model.layers.1.self_attn.o_proj", false},
        {"mistral", "\"sliding_window\": null", "model.layers.1.self_attn.o_proj", true},
        {"mistral", "\"sliding_window\": 64", "model.layers.1.self_attn.o_proj", false},
        {"qwen3", NULL, "model.layers.1.self_attn.o_proj", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(description) d;
        describe_without(cases[i].family, cases[i].changes,
                         (const char *const[]){cases[i].without, NULL}, &d);
        assert_int_equal(d.verdicts[1].loads, cases[i].loads);
    }
}

TEST(a_network_may_have_no_attention_at_all)
{
    OWNED(description) d;
    describe_without("llama", NULL,
                     (const char *const[]){"model.layers.1.self_attn.o_proj",
                                           "model.layers.0.self_attn.o_proj", NULL},
                     &d);
    assert_int_equal(json_object_size(json_object_get(d.config, "per_layer_config")), 2);
    assert_says(&d, "num_attention_heads", 4);
    assert_null(json_object_get(d.config, "head_dim"));
    assert_true(d.verdicts[0].loads);
    assert_true(builds_the_same_nodes(&d));
}

TEST(a_layer_without_both_is_left_out)
{
    description d;
    static const char *const first[] = {"model.layers.0.mlp.down_proj",
                                        "model.layers.0.self_attn.o_proj", NULL};
    describe_without("llama", NULL, first, &d);
    assert_says(&d, "num_hidden_layers", 1);
    assert_null(json_object_get(d.config, "per_layer_config"));
    assert_true(d.verdicts[0].loads);
    assert_true(builds_the_same_nodes(&d));
    description_fini(&d);
    describe_without(
        "qwen2", "\"use_sliding_window\": true, \"sliding_window\": 8, \"max_window_layers\": 1",
        first, &d);
    assert_says(&d, "max_window_layers", 0); /* the layer that is left has a window */
    assert_true(builds_the_same_nodes(&d));
    description_fini(&d);
    describe_without("qwen2",
                     "\"use_sliding_window\": true, \"sliding_window\": 8, \"layer_types\":"
                     " [\"full_attention\", \"sliding_attention\"]",
                     first, &d);
    assert_int_equal(json_array_size(json_object_get(d.config, "layer_types")), 1);
    assert_true(builds_the_same_nodes(&d));
    description_fini(&d);
}

TEST(tensors_of_later_layers_get_other_numbers)
{
    static const struct {
        const char *before, *after;
    } cases[] = {{"model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"},
                 {"model.layers.1.mlp.up_proj.weight", NULL},
                 {"model.layers.2.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight"},
                 {"module.model.layers.11.input_layernorm.weight",
                  "module.model.layers.10.input_layernorm.weight"},
                 {"transformer.h.2.ln_1.bias", "transformer.h.1.ln_1.bias"},
                 {"layer2.0.weight.2", "layer2.0.weight.2"},       /* the first number counts */
                 {"model.layers.12.what", "model.layers.12.what"}, /* there is no such layer */
                 {"model.layers.x", "model.layers.x"},
                 {"lm_head.weight", "lm_head.weight"}};
    const int numbers[12] = {0, GRAPH_NONE, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OPENED(char, name, architecture_qwen3.rename_tensor(cases[i].before, 12, numbers, &name));
        if (cases[i].after == NULL) {
            assert_null(name);
        } else {
            assert_string_equal(name, cases[i].after);
        }
    }
}

TEST(loaders_are_judged_by_what_they_check)
{
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
    assert_true(d.verdicts[2].loads);
    assert_non_null(strstr(d.verdicts[2].reason, "grail export writes (llama); "));
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

/* The numbers of heads, and FFNs of 320 of 512 neurons. */
static void assert_llama_cpp_says(const char *type, const char *biases, int64_t ffn,
                                  const char *reason)
{
    char changes[256];
    OWNED(description) d;
    snprintf(changes, sizeof changes,
             "\"hidden_size\": 256, \"num_attention_heads\": 64, \"num_key_value_heads\": 64, "
             "\"intermediate_size\": 512%s",
             biases);
    describe(type, changes, (int64_t[]){ffn, 64, 64}, (int64_t[]){ffn, 64, 64}, &d);
    assert_string_equal(d.verdicts[2].reason, reason);
    assert_true(d.verdicts[2].loads);
}

TEST(what_grail_exports_is_told_of_types_as_it_would_have_them)
{
    const char *const way = "as a GGUF file that grail export writes ";
    char said[256];
    snprintf(said, sizeof said, "%s(llama); all quantisations", way);
    assert_llama_cpp_says("llama", "", 256, said);
    assert_llama_cpp_says("mistral", ", \"sliding_window\": null", 256, said);
    snprintf(said, sizeof said,
             "%s(llama); 12 of 15 matrices are Q4_K, 1 Q5_0, 1 Q8_0, 1 Q6_K, since 320 is no "
             "multiple of 256; use q5_0, or align widths to 256",
             way);
    assert_llama_cpp_says("llama", "", 320, said);
    /* grail export has no place for biases of qwen3 */
    assert_llama_cpp_says("qwen3", ", \"attention_bias\": true", 256,
                          "after convert_hf_to_gguf; all quantisations");
    assert_llama_cpp_says("gemma", "", 320,
                          "after convert_hf_to_gguf; K-quants give other types to matrices whose "
                          "rows are no multiples of 256");
}
