/* Decoders with experts: what their configurations say, what is refused, and how narrowed ones are
 * described. The golden tests compare their outputs. */
#include "config.h"

#include "arch/decoder_widths.h"

#include <stdio.h>
#include <string.h>

#define TWO_OF_FOUR "\"num_experts\": 4, \"num_experts_per_tok\": 2"
#define LATENT                                                                                     \
    "\"num_key_value_heads\": 4, \"n_routed_experts\": 4, \"num_experts_per_tok\": 2, "            \
    "\"moe_intermediate_size\": 8, \"first_k_dense_replace\": 1"
#define FOUR TWO_OF_FOUR ", \"moe_intermediate_size\": 8"

TEST(what_does_not_fit_is_refused)
{
    static const struct {
        const char *type, *changes;
        grail_status status;
        const char *text;
    } bad[] = {
        {"qwen3_moe", "\"num_experts\": 4, \"num_experts_per_tok\": 5", GRAIL_ERROR_FORMAT,
         "\"num_experts_per_tok\" is 5, but layer 0 has 4 experts"},
        {"qwen3_moe", FOUR ", \"num_local_experts\": 5", GRAIL_ERROR_FORMAT,
         "\"num_experts\" and \"num_local_experts\" are not the same"},
        {"qwen3_moe", "\"num_experts\": 50000", GRAIL_ERROR_FORMAT,
         "\"num_experts\" is 50000, expected 1 to 32768 with 2 layers"},
        {"qwen3_moe", FOUR ", \"mlp_only_layers\": [2]", GRAIL_ERROR_FORMAT,
         "\"mlp_only_layers\" has a member that is no number of one of the 2 layers"},
        {"qwen3_moe", FOUR ", \"mlp_only_layers\": [0, 1, 1]", GRAIL_ERROR_FORMAT,
         "\"mlp_only_layers\" has 3 members, but there are 2 layers"},
        {"qwen3_moe", FOUR ", \"mlp_only_layers\": 1", GRAIL_ERROR_FORMAT,
         "\"mlp_only_layers\" is no list"},
        {"qwen3_moe", FOUR ", \"decoder_sparse_step\": 0", GRAIL_ERROR_FORMAT,
         "\"decoder_sparse_step\" is 0, expected 1 or more"},
        {"qwen2_moe", TWO_OF_FOUR ", \"moe_intermediate_size\": 0", GRAIL_ERROR_FORMAT,
         "\"moe_intermediate_size\" is 0, expected 1 to"},
        {"qwen2_moe", TWO_OF_FOUR ", \"moe_intermediate_size\": [8, 8]", GRAIL_ERROR_FORMAT,
         "\"moe_intermediate_size\" is not an integer"},
        {"qwen2_moe", FOUR ", \"use_sliding_window\": true", GRAIL_ERROR_UNSUPPORTED,
         "windows of attention in some layers beside experts"},
        {"qwen2_moe", FOUR ", \"scoring_func\": \"sigmoid\"", GRAIL_ERROR_UNSUPPORTED,
         "\"scoring_func\" is \"sigmoid\", but the router of this family takes the softmax"},
        {"mixtral", "\"routed_scaling_factor\": 2.5", GRAIL_ERROR_UNSUPPORTED,
         "\"routed_scaling_factor\" is 2.5, but the router of this family has one group"},
        {"mixtral", "\"n_group\": 4", GRAIL_ERROR_UNSUPPORTED, "\"n_group\" is 4"},
        {"olmoe", "\"clip_qkv\": 8", GRAIL_ERROR_UNSUPPORTED, "values are clipped"},
        {"qwen3_moe", FOUR ", \"per_layer_config\": {\"1\": {\"moe_intermediate_size\": [8, 4]}}",
         GRAIL_ERROR_FORMAT,
         "layer 1: \"moe_intermediate_size\" has 2 members, but there are 4 experts"},
        {"qwen3_moe",
         FOUR ", \"per_layer_config\": {\"1\": {\"moe_intermediate_size\": [8, 4, 0, 2]}}",
         GRAIL_ERROR_FORMAT, "layer 1: member 2 of \"moe_intermediate_size\" is no width"},
        {"gpt_oss", FOUR ", \"swiglu_alpha\": 1.5, \"rope_parameters\": {}",
         GRAIL_ERROR_UNSUPPORTED, "\"swiglu_alpha\" is 1.5, but grail has gates of 1.702 alone"},
        {"gpt_oss", FOUR ", \"swiglu_limit\": -7, \"rope_parameters\": {}", GRAIL_ERROR_FORMAT,
         "\"swiglu_limit\" is -7; it must be above 0"},
        {"gpt_oss", FOUR, GRAIL_ERROR_FORMAT,
         "\"rope_parameters\" and \"rope_scaling\" are missing"},
        {"gpt_oss", FOUR ", \"rope_scaling\": null, \"layer_types\": [\"full_attention\"]",
         GRAIL_ERROR_FORMAT, "\"layer_types\" has 1 members, but there are 2 layers"},
        {"deepseek_v2", LATENT ", \"topk_method\": \"noaux_tc\"", GRAIL_ERROR_UNSUPPORTED,
         "\"topk_method\" is \"noaux_tc\", which the router of this family lacks"},
        {"deepseek_v3", LATENT ", \"topk_method\": \"greedy\"", GRAIL_ERROR_UNSUPPORTED,
         "\"topk_method\" is \"greedy\""},
        {"deepseek_v3", LATENT ", \"n_group\": 3", GRAIL_ERROR_SHAPE,
         "a choice of 2 in each row does not fit a router of 4 outputs in 3 groups"},
        {"deepseek_v3", LATENT ", \"n_group\": 4, \"topk_group\": 1", GRAIL_ERROR_SHAPE,
         "in 4 groups, of which 1 count"},
        {"deepseek_v3", LATENT ", \"routed_scaling_factor\": 0", GRAIL_ERROR_FORMAT,
         "\"routed_scaling_factor\" is 0"},
        {"deepseek_v3", LATENT ", \"per_layer_config\": {\"0\": {\"num_key_value_heads\": 2}}",
         GRAIL_ERROR_UNSUPPORTED, "layer 0 has 4 attention heads and 2 key/value heads"},
        {"deepseek_v3", LATENT ", \"qk_rope_head_dim\": 5", GRAIL_ERROR_FORMAT,
         "\"qk_rope_head_dim\" is 5, expected an even number"},
        {"deepseek_v3", LATENT ", \"q_lora_rank\": 0", GRAIL_ERROR_FORMAT,
         "\"q_lora_rank\" is 0, expected 1 to"},
        {"deepseek_v2", LATENT ", \"n_shared_experts\": 2097153", GRAIL_ERROR_FORMAT,
         "layer 1: \"n_shared_experts\" is 2097153, expected 0 to 2097152 where the other"},
        {"deepseek_v2",
         LATENT ", \"per_layer_config\": {\"1\": {\"moe_intermediate_size\": [8, 8, 8, 4]}}",
         GRAIL_ERROR_UNSUPPORTED, "layer 1: \"moe_intermediate_size\" is a list, but \"n_shared"},
        {"granitemoe",
         "\"num_local_experts\": 2, \"per_layer_config\": {\"0\": {\"intermediate_size\": [8, 4]}}",
         GRAIL_ERROR_UNSUPPORTED, "the experts of this family lie in one tensor"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_fails(try_config(bad[i].type, bad[i].changes), bad[i].status, bad[i].text);
    }
    assert_ok(try_config("mixtral", "\"n_group\": 1, \"routed_scaling_factor\": 1.0"));
}

TEST(layers_may_have_a_plain_ffn)
{
    graph *g = built("qwen2_moe", FOUR ", \"num_hidden_layers\": 5, \"decoder_sparse_step\": 2,"
                                       " \"mlp_only_layers\": [3],"
                                       " \"shared_expert_intermediate_size\": 12");
    for (int layer = 0; layer < 5; layer++) {
        const decoder_widths w = decoder_widths_of(g, layer);
        assert_int_equal(w.experts, layer == 1 ? 4 : 0);
        assert_int_equal(w.expert, layer == 1 ? 8 : 0);
        assert_int_equal(w.shared, layer == 1 ? 12 : 0);
        assert_int_equal(w.intermediate, layer == 1 ? 0 : 24);
    }
    assert_true(decoder_shape_of(g).uniform);
    assert_false(decoder_shape_of(g).lacks_sublayers);
    graph_free(g);
    g = built("qwen2_moe", "\"num_experts\": 0");
    assert_int_equal(decoder_widths_of(g, 1).intermediate, 24);
    graph_free(g);
}

TEST(shares_are_as_the_family_says)
{
    static const struct {
        const char *type, *changes;
        int64_t chosen;
        bool over_all;
    } families[] = {
        {"mixtral", NULL, 2, false},    {"mixtral", "\"norm_topk_prob\": false", 2, false},
        {"granitemoe", NULL, 2, false}, {"olmoe", "\"num_experts_per_tok\": 3", 3, true},
        {"qwen2_moe", NULL, 4, true},   {"qwen3_moe", "\"norm_topk_prob\": true", 8, false},
        {"qwen3_moe", NULL, 8, true}};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        OWNED(graph) *g = built(families[i].type, families[i].changes);
        const route_attributes *route = &find_node(g, NODE_ROUTE, 1)->route;
        assert_int_equal(route->chosen, families[i].chosen);
        assert_int_equal(route->over_all, families[i].over_all);
    }
}

static void set_width(graph *g, int layer, int expert, int64_t width)
{
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    for (int i = 0; i < 3; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%d.%s.weight", layer, expert,
                 parts[i]);
        g->parameters[graph_find_parameter(g, name)].shape[i < 2 ? 0 : 1] = width;
    }
}

/* The configuration of the network with these widths of its 4 experts in both layers. */
static json_t *described(const char *type, const char *changes, const int64_t widths[2][4],
                         loader_verdict verdicts[LOADER_COUNT])
{
    const architecture *a = NULL;
    json_t *config = small_config(type, changes);
    assert_ok(architecture_find("config.json", config, &a));
    OPENED(graph, g, a->build(a, "config.json", config, NULL, &g));
    for (int layer = 0; layer < 2; layer++) {
        for (int e = 0; e < 4; e++) {
            set_width(g, layer, e, widths[layer][e]);
        }
    }
    assert_ok(a->describe_narrowed(a, g, config));
    assert_ok(a->judge_loaders(a, config, g, g, verdicts));
    return config;
}

TEST(one_width_is_one_number)
{
    static const int64_t widths[2][4] = {{6, 6, 6, 6}, {6, 6, 6, 6}};
    loader_verdict verdicts[LOADER_COUNT];
    json_t *config = described("qwen3_moe", FOUR, widths, verdicts);
    assert_int_equal(json_integer_value(json_object_get(config, "moe_intermediate_size")), 6);
    assert_int_equal(json_integer_value(json_object_get(config, "num_experts")), 4);
    assert_null(json_object_get(config, "num_local_experts"));
    assert_null(json_object_get(config, "per_layer_config"));
    assert_true(verdicts[0].loads);
    assert_non_null(strstr(verdicts[0].reason, "experts_implementation=\"eager\""));
    assert_non_null(strstr(verdicts[0].reason, "these are 6 wide"));
    json_decref(config);
    config = described("mixtral", "\"num_local_experts\": 4", widths, verdicts);
    assert_int_equal(json_integer_value(json_object_get(config, "intermediate_size")), 6);
    assert_int_equal(json_integer_value(json_object_get(config, "num_local_experts")), 4);
    assert_null(json_object_get(config, "num_experts"));
    json_decref(config);
}

/* grail itself builds the network again. */
TEST(different_widths_are_lists)
{
    static const int64_t widths[2][4] = {{6, 6, 6, 6}, {6, 2, 6, 4}};
    loader_verdict verdicts[LOADER_COUNT];
    OWNED(json_t) *config = described("qwen3_moe", FOUR, widths, verdicts);
    const json_t *layers = json_object_get(config, "per_layer_config");
    assert_int_equal(json_object_size(layers), 1);
    assert_false(verdicts[0].loads);
    assert_non_null(strstr(verdicts[0].reason, "the layers or experts have different widths"));
    OPENED(graph, g, build_config(config, &g));
    for (int e = 0; e < 4; e++) {
        assert_int_equal(decoder_expert_width(g, 0, e), 6);
        assert_int_equal(decoder_expert_width(g, 1, e), widths[1][e]);
    }
}

/* The expert of all tokens is as wide as so many of the others. */
TEST(shared_widths_are_multiples)
{
    const architecture *a = NULL;
    OWNED(json_t) *config = small_config("deepseek_v3", LATENT ", \"n_shared_experts\": 3");
    assert_ok(architecture_find("config.json", config, &a));
    OPENED(graph, g, a->build(a, "config.json", config, NULL, &g));
    assert_int_equal(decoder_widths_of(g, 0).experts, 0);
    assert_int_equal(decoder_widths_of(g, 0).intermediate, 24);
    assert_int_equal(decoder_widths_of(g, 1).shared, 24);
    assert_int_equal(decoder_widths_of(g, 1).heads, 4);
    for (int e = 0; e < 4; e++) {
        set_width(g, 1, e, 6);
    }
    assert_ok(a->describe_narrowed(a, g, config));
    assert_int_equal(json_integer_value(json_object_get(config, "n_shared_experts")), 4);
    assert_int_equal(json_integer_value(json_object_get(config, "moe_intermediate_size")), 6);
    assert_null(json_object_get(config, "head_dim"));
    for (int e = 0; e < 4; e++) {
        set_width(g, 1, e, 5);
    }
    assert_fails(a->describe_narrowed(a, g, config), GRAIL_ERROR_UNSUPPORTED,
                 "layer 1: the expert of all tokens is 24 wide, and each of the others 5");
    assert_fails(a->describe_narrowed(a, g, config), GRAIL_ERROR_UNSUPPORTED,
                 "or a plan that keeps 25 units of the former");
    set_width(g, 1, 2, 6);
    assert_fails(a->describe_narrowed(a, g, config), GRAIL_ERROR_UNSUPPORTED,
                 "layer 1: its experts have one number in config.json and cannot have different");
}

TEST(experts_in_one_tensor_cannot_differ)
{
    const architecture *a = NULL;
    OWNED(json_t) *config = small_config("granitemoe", "\"num_local_experts\": 4");
    assert_ok(architecture_find("config.json", config, &a));
    OPENED(graph, g, a->build(a, "config.json", config, NULL, &g));
    set_width(g, 1, 2, 5);
    assert_fails(a->describe_narrowed(a, g, config), GRAIL_ERROR_UNSUPPORTED,
                 "layer 1: its experts lie in one tensor and cannot have different widths");
}
