/* Reading config.json: what each family makes of it, and what is refused in which words. */
#include "config.h"

#include <stdio.h>
#include <string.h>

TEST(unknown_families_are_answered_with_the_known_ones)
{
    assert_fails(try_config("bloom", NULL), GRAIL_ERROR_UNSUPPORTED,
                 "config.json: unknown model_type \"bloom\"; expected one of llama, mistral, "
                 "qwen2, qwen3");
    assert_fails(try_config("llama", "\"model_type\": null"), GRAIL_ERROR_UNSUPPORTED,
                 "model_type \"(missing)\"");
    assert_fails(try_config("llama", "\"model_type\": 3"), GRAIL_ERROR_FORMAT,
                 "\"model_type\" is not a string");
}

TEST(sizes_must_be_there_and_in_range)
{
    static const char *const keys[] = {"hidden_size", "num_hidden_layers", "vocab_size",
                                       "intermediate_size", "num_attention_heads"};
    static const struct {
        const char *value, *text;
    } bad[] = {{"null", "is missing"},         {"0", "is 0, expected 1 to"},
               {"-4", "is -4, expected 1 to"}, {"16777217", "is 16777217, expected 1 to"},
               {"16.0", "is not an integer"},  {"\"16\"", "is not an integer"}};
    char change[64];
    char text[96];
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
            snprintf(change, sizeof change, "\"%s\": %s", keys[k], bad[b].value);
            snprintf(text, sizeof text, "config.json: \"%s\" %s", keys[k], bad[b].text);
            assert_fails(try_config("llama", change), GRAIL_ERROR_FORMAT, text);
        }
    }
    assert_fails(try_config("llama", "\"num_hidden_layers\": 1025"), GRAIL_ERROR_FORMAT,
                 "expected 1 to 1024");
}

TEST(optional_sizes_are_checked_where_they_are_given)
{
    assert_fails(try_config("llama", "\"num_key_value_heads\": 0"), GRAIL_ERROR_FORMAT,
                 "\"num_key_value_heads\" is 0, expected 1 to");
    assert_fails(try_config("llama", "\"head_dim\": -1"), GRAIL_ERROR_FORMAT, "\"head_dim\" is -1");
    assert_fails(try_config("llama", "\"max_position_embeddings\": 0"), GRAIL_ERROR_FORMAT,
                 "\"max_position_embeddings\" is 0");
    assert_fails(try_config("llama", "\"rms_norm_eps\": \"small\""), GRAIL_ERROR_FORMAT,
                 "\"rms_norm_eps\" is not a number");
    assert_fails(try_config("llama", "\"tie_word_embeddings\": 1"), GRAIL_ERROR_FORMAT,
                 "\"tie_word_embeddings\" is not true or false");
    assert_fails(try_config("llama", "\"attention_bias\": 1"), GRAIL_ERROR_FORMAT,
                 "\"attention_bias\" is not true or false");
    assert_fails(try_config("llama", "\"mlp_bias\": []"), GRAIL_ERROR_FORMAT,
                 "\"mlp_bias\" is not true or false");
    assert_fails(try_config("mistral", "\"sliding_window\": -1"), GRAIL_ERROR_FORMAT,
                 "\"sliding_window\" is -1");
    assert_fails(try_config("qwen2", "\"use_sliding_window\": 1"), GRAIL_ERROR_FORMAT,
                 "\"use_sliding_window\" is not true or false");
}

TEST(heads_must_divide)
{
    assert_fails(try_config("llama", "\"num_key_value_heads\": 3"), GRAIL_ERROR_FORMAT,
                 "layer 0: 4 attention heads are not divisible by 3 key/value heads");
    assert_fails(try_config("llama", "\"head_dim\": 5"), GRAIL_ERROR_FORMAT,
                 "1 of head_dim 5 are turned by rotary positions, which need an even number");
    assert_fails(try_config("llama", "\"per_layer_config\": {\"1\": {\"num_attention_heads\": 3}}"),
                 GRAIL_ERROR_FORMAT,
                 "layer 1: 3 attention heads are not divisible by 2 key/value heads");
}

TEST(activations_are_known_by_name)
{
    static const struct {
        const char *name;
        activation_kind kind;
    } known[] = {{"silu", ACTIVATION_SILU}, {"swish", ACTIVATION_SILU},
                 {"gelu", ACTIVATION_GELU}, {"gelu_new", ACTIVATION_GELU_TANH},
                 {"relu", ACTIVATION_RELU}, {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH}};
    char change[64];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        snprintf(change, sizeof change, "\"hidden_act\": \"%s\"", known[i].name);
        OWNED(graph) *g = built("llama", change);
        assert_int_equal(find_node(g, NODE_ACTIVATION, 0)->activation, known[i].kind);
    }
    graph *g = built("llama", NULL);
    assert_int_equal(find_node(g, NODE_ACTIVATION, 0)->activation, ACTIVATION_SILU);
    graph_free(g);
    assert_fails(try_config("llama", "\"hidden_act\": \"mish\""), GRAIL_ERROR_UNSUPPORTED,
                 "hidden_act \"mish\" is not supported; the supported values are silu, gelu");
}

/* -- what is built ---------------------------------------------------------------------------- */

static void assert_shape(const graph *g, const char *name, int64_t rows, int64_t columns)
{
    const int64_t *shape = shape_of(g, name);
    assert_int_equal(shape[0], rows);
    assert_int_equal(shape[1], columns);
}

TEST(the_network_has_the_parameters_of_its_sizes)
{
    OWNED(graph) *g = built("llama", "\"rms_norm_eps\": 0.01");
    assert_int_equal(g->block_count, 2);
    assert_int_equal(g->vocabulary, 10);
    assert_int_equal(g->parameter_count, 2 * 9 + 3);
    assert_shape(g, "model.embed_tokens.weight", 10, 16);
    assert_shape(g, "model.layers.1.self_attn.q_proj.weight", 16, 16);
    assert_shape(g, "model.layers.1.self_attn.k_proj.weight", 8, 16);
    assert_shape(g, "model.layers.1.self_attn.v_proj.weight", 8, 16);
    assert_shape(g, "model.layers.1.self_attn.o_proj.weight", 16, 16);
    assert_shape(g, "model.layers.1.mlp.gate_proj.weight", 24, 16);
    assert_shape(g, "model.layers.1.mlp.up_proj.weight", 24, 16);
    assert_shape(g, "model.layers.1.mlp.down_proj.weight", 16, 24);
    assert_int_equal(shape_of(g, "model.layers.1.input_layernorm.weight")[0], 16);
    assert_int_equal(shape_of(g, "model.norm.weight")[0], 16);
    assert_shape(g, "lm_head.weight", 10, 16);
    assert_true(find_node(g, NODE_RMS_NORM, 0)->norm.epsilon == 0.01);
    assert_true(find_node(g, NODE_ATTENTION, 0)->attention.scale == 0.5); /* 1 / sqrt(4) */
}

TEST(tied_embeddings_are_one_parameter)
{
    OWNED(graph) *g = built("llama", "\"tie_word_embeddings\": true");
    assert_int_equal(graph_find_parameter(g, "lm_head.weight"), GRAPH_NONE);
    assert_int_equal(g->nodes[0].weight, g->nodes[g->node_count - 1].weight);
}

static bool has(const graph *g, const char *part)
{
    char name[96];
    snprintf(name, sizeof name, "model.layers.0.%s", part);
    return graph_find_parameter(g, name) != GRAPH_NONE;
}

/* Which of q, o and down have a bias: one digit each. */
static int biases(const char *type, const char *changes)
{
    OWNED(graph) *g = built(type, changes);
    const int found = (has(g, "self_attn.q_proj.bias") ? 100 : 0) +
                      (has(g, "self_attn.o_proj.bias") ? 10 : 0) +
                      (has(g, "mlp.down_proj.bias") ? 1 : 0);
    assert_int_equal(has(g, "self_attn.q_proj.bias"), has(g, "self_attn.v_proj.bias"));
    assert_int_equal(has(g, "mlp.down_proj.bias"), has(g, "mlp.gate_proj.bias"));
    return found;
}

TEST(every_family_has_the_biases_it_reads)
{
    static const char both[] = "\"attention_bias\": true, \"mlp_bias\": true";
    assert_int_equal(biases("llama", NULL), 0);
    assert_int_equal(biases("llama", both), 111);
    assert_int_equal(biases("llama", "\"attention_bias\": true"), 110);
    assert_int_equal(biases("mistral", both), 0);
    assert_int_equal(biases("qwen2", NULL), 100);
    assert_int_equal(biases("qwen2", both), 100);
    assert_int_equal(biases("qwen3", NULL), 0);
    assert_int_equal(biases("qwen3", both), 110);
}

TEST(only_qwen3_norms_queries_and_keys)
{
    graph *g = built("qwen3", "\"head_dim\": 6");
    assert_int_equal(shape_of(g, "model.layers.0.self_attn.q_norm.weight")[0], 6);
    assert_int_equal(shape_of(g, "model.layers.0.self_attn.k_norm.weight")[0], 6);
    assert_int_equal(shape_of(g, "model.layers.0.self_attn.q_proj.weight")[0], 24);
    graph_free(g);
    g = built("qwen2", NULL);
    assert_false(has(g, "self_attn.q_norm.weight"));
    graph_free(g);
}

TEST(missing_sizes_take_the_familys_defaults)
{
    static const char none[] = "\"num_key_value_heads\": null, \"num_attention_heads\": 32,"
                               " \"hidden_size\": 64";
    static const struct {
        const char *type;
        int64_t kv_rows, q_rows, context;
    } defaults[] = {{"llama", 64, 64, 2048},
                    {"mistral", 16, 64, 131072},
                    {"qwen2", 64, 64, 32768},
                    {"qwen3", 32 * 128, 32 * 128, 32768}};
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
        const architecture *a = NULL;
        OWNED(json_t) *config = small_config(defaults[i].type, none);
        OPENED(graph, g, build_config(config, &g));
        assert_int_equal(shape_of(g, "model.layers.0.self_attn.k_proj.weight")[0],
                         defaults[i].kv_rows);
        assert_int_equal(shape_of(g, "model.layers.0.self_attn.q_proj.weight")[0],
                         defaults[i].q_rows);
        assert_ok(architecture_find("config.json", config, &a));
        assert_int_equal(a->context(a, config), defaults[i].context);
    }
}

static int64_t window(const char *type, const char *changes, int block)
{
    OWNED(graph) *g = built(type, changes);
    return find_node(g, NODE_ATTENTION, block)->attention.window;
}

TEST(windows_slide_where_the_family_says)
{
    static const char used[] = "\"use_sliding_window\": true, \"sliding_window\": 6,"
                               " \"max_window_layers\": 1";
    assert_int_equal(window("llama", "\"sliding_window\": 6", 0), 0);
    assert_int_equal(window("mistral", NULL, 0), 4096);
    assert_int_equal(window("mistral", "\"sliding_window\": 6", 1), 6);
    assert_int_equal(window("mistral", "\"sliding_window\": null", 0), 0);
    assert_int_equal(window("qwen2", "\"sliding_window\": 6", 0), 0);
    assert_int_equal(window("qwen2", used, 0), 0);
    assert_int_equal(window("qwen2", used, 1), 6);
    assert_int_equal(window("qwen3",
                            "\"use_sliding_window\": true, \"sliding_window\": 6,"
                            " \"layer_types\": [\"sliding_attention\", \"full_attention\"]",
                            0),
                     6);
    assert_int_equal(window("qwen3",
                            "\"use_sliding_window\": true, \"sliding_window\": 6,"
                            " \"layer_types\": [\"sliding_attention\", \"full_attention\"]",
                            1),
                     0);
}

TEST(layers_may_have_widths_of_their_own)
{
    graph *g = built("llama", "\"per_layer_config\": {\"1\": {\"intermediate_size\": 6,"
                              " \"num_attention_heads\": 2, \"num_key_value_heads\": 1}}");
    assert_shape(g, "model.layers.0.mlp.up_proj.weight", 24, 16);
    assert_shape(g, "model.layers.1.mlp.up_proj.weight", 6, 16);
    assert_shape(g, "model.layers.1.mlp.down_proj.weight", 16, 6);
    assert_shape(g, "model.layers.1.self_attn.q_proj.weight", 8, 16);
    assert_shape(g, "model.layers.1.self_attn.k_proj.weight", 4, 16);
    assert_shape(g, "model.layers.1.self_attn.o_proj.weight", 16, 8);
    graph_free(g);
    assert_fails(
        try_config("llama", "\"per_layer_config\": {\"1\": {\"intermediate_size\": \"6\"}}"),
        GRAIL_ERROR_FORMAT, "\"intermediate_size\" is not an integer");
}

TEST(layers_may_lack_their_attention_or_ffn)
{
    graph *g = built("llama", "\"per_layer_config\": {\"0\": {\"num_attention_heads\": 0,"
                              " \"num_key_value_heads\": 0}, \"1\": {\"intermediate_size\": 0}}");
    assert_int_equal(graph_find_parameter(g, "model.layers.0.self_attn.q_proj.weight"), GRAPH_NONE);
    assert_int_equal(graph_find_parameter(g, "model.layers.0.input_layernorm.weight"), GRAPH_NONE);
    assert_int_equal(graph_find_parameter(g, "model.layers.1.mlp.down_proj.weight"), GRAPH_NONE);
    assert_shape(g, "model.layers.0.mlp.up_proj.weight", 24, 16);
    assert_shape(g, "model.layers.1.self_attn.q_proj.weight", 16, 16);
    assert_int_equal(g->block_count, 2);
    graph_free(g);
    g = built("llama",
              "\"per_layer_config\": {\"00\": {\"skip\": [\"attention\"]}, \"01\": {\"skip\": "
              "[\"mlp\"], \"intermediate_size\": 6}}");
    assert_int_equal(graph_find_parameter(g, "model.layers.0.self_attn.q_proj.weight"), GRAPH_NONE);
    assert_int_equal(graph_find_parameter(g, "model.layers.1.mlp.down_proj.weight"), GRAPH_NONE);
    graph_free(g);
    assert_fails(try_config("llama", "\"per_layer_config\": {\"1\": {\"num_attention_heads\": 0}}"),
                 GRAIL_ERROR_FORMAT, "layer 1: 0 attention heads and 2 key/value heads");
    assert_fails(try_config("llama", "\"per_layer_config\": {\"1\": {\"intermediate_size\": 0,"
                                     " \"num_attention_heads\": 0, \"num_key_value_heads\": 0}}"),
                 GRAIL_ERROR_FORMAT, "layer 1 has neither attention nor an FFN; leave it out");
    assert_fails(try_config("llama", "\"intermediate_size\": 0"), GRAIL_ERROR_FORMAT,
                 "\"intermediate_size\" is 0, expected 1 to");
}

TEST(layers_that_are_not_described_as_they_should_be_are_refused)
{
    static const struct {
        const char *layers, *message;
    } cases[] = {
        {"[]", "\"per_layer_config\" is not an object"},
        {"{\"2\": {}}", "has the key \"2\", expected the number of a layer, 0 to 1"},
        {"{\"-1\": {}}", "has the key \"-1\""},
        {"{\"1x\": {}}", "has the key \"1x\""},
        {"{\"\": {}}", "has the key \"\""},
        {"{\"99999999999999999999\": {}}", "has the key \"99999999999999999999\""},
        {"{\"1\": {}, \"01\": {}}", "has layer 1 twice"},
        {"{\"1\": 3}", "the value of layer 1 is not an object"},
        {"{\"1\": {\"skip\": \"mlp\"}}", "\"skip\" of a layer is not an array"},
        {"{\"1\": {\"skip\": [\"ffn\"]}}", "names \"ffn\", expected attention or mlp"},
        {"{\"1\": {\"skip\": [1]}}", "names \"\", expected attention or mlp"},
        {"{\"1\": {\"skip\": [\"mlp\", \"attention\"]}}", "leave it out"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char changes[128];
        snprintf(changes, sizeof changes, "\"per_layer_config\": %s", cases[i].layers);
        assert_fails(try_config("llama", changes), GRAIL_ERROR_FORMAT, cases[i].message);
    }
}

static grail_status build_once(void *context)
{
    OWNED(graph) *g = NULL;
    return build_config(context, &g);
}

TEST(every_failing_allocation_is_survived)
{
    OWNED(json_t) *config = small_config("qwen3", NULL);
    support_fail_each_allocation(build_once, config);
}
