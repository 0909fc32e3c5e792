/* What the families of decoders read beyond widths, and what of each is refused. The golden tests
 * compare their outputs. */
#include "config.h"
#include "unit/pipeline/lab_model.h"

#include "arch/model.h"
#include "support/json_memory.h"

#include <stdio.h>
#include <string.h>

/* -- refusals ---------------------------------------------------------------------------------- */

#define GPT2 "\"n_embd\": 16, \"n_layer\": 2, \"n_head\": 4"
#define GPT2_OF_3_HEADS "\"n_embd\": 16, \"n_layer\": 2, \"n_head\": 3"

TEST(what_a_family_can_switch_on_beyond_is_refused)
{
    static const struct {
        const char *type, *changes;
        grail_status status;
        const char *text;
    } bad[] = {
        {"gpt2", GPT2 ", \"scale_attn_by_inverse_layer_idx\": true", GRAIL_ERROR_UNSUPPORTED,
         "\"scale_attn_by_inverse_layer_idx\" is true: scores are divided by the number of the "
         "layer, which grail lacks"},
        {"gpt2", GPT2 ", \"add_cross_attention\": true", GRAIL_ERROR_UNSUPPORTED,
         "layers also attend to the output of an encoder"},
        {"gpt2", GPT2_OF_3_HEADS, GRAIL_ERROR_FORMAT,
         "\"n_embd\" is 16, which is not divisible by 3 heads"},
        {"gemma", "\"use_bidirectional_attention\": true", GRAIL_ERROR_UNSUPPORTED,
         "every position sees those behind it"},
        {"gemma2", "\"query_pre_attn_scalar\": 0", GRAIL_ERROR_FORMAT,
         "\"query_pre_attn_scalar\" is 0, expected a factor between 1e-06 and 1e+06"},
        {"gemma2", "\"final_logit_softcapping\": \"x\"", GRAIL_ERROR_FORMAT,
         "\"final_logit_softcapping\" is not a number"},
        {"granite", "\"logits_scaling\": 0", GRAIL_ERROR_FORMAT,
         "\"logits_scaling\" is 0, expected a factor"},
        {"granite", "\"residual_multiplier\": 1e9", GRAIL_ERROR_FORMAT,
         "\"residual_multiplier\" is 1e+09, expected a factor"},
        {"stablelm", "\"qk_layernorm\": true", GRAIL_ERROR_UNSUPPORTED,
         "every head has norms of its own"},
        {"phi", "\"qk_layernorm\": true", GRAIL_ERROR_UNSUPPORTED, "LayerNorms of their own"},
        {"cohere", "\"use_qk_norm\": true", GRAIL_ERROR_UNSUPPORTED, "norms of its own"},
        {"olmo", "\"clip_qkv\": 8", GRAIL_ERROR_UNSUPPORTED, "values are clipped"},
        {"opt", "\"do_layer_norm_before\": false", GRAIL_ERROR_UNSUPPORTED,
         "\"do_layer_norm_before\" is false: norms stand behind the residual sums"},
        {"opt", "\"word_embed_proj_dim\": 8", GRAIL_ERROR_UNSUPPORTED,
         "\"word_embed_proj_dim\" is 8 and \"hidden_size\" 16: embeddings are projected"},
        {"opt", "\"_remove_final_layer_norm\": true", GRAIL_ERROR_UNSUPPORTED, "no last norm"},
        {"falcon", "\"alibi\": true", GRAIL_ERROR_UNSUPPORTED, "slopes added to the scores"},
        {"falcon", NULL, GRAIL_ERROR_UNSUPPORTED, "\"new_decoder_architecture\" is not true"},
        {"glm", "\"head_dim\": 8, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}",
         GRAIL_ERROR_UNSUPPORTED, "neighbouring pairs of a part of each head cannot be turned"},
        {"gemma3_text", "\"layer_types\": [\"full_attention\"]", GRAIL_ERROR_FORMAT,
         "\"layer_types\" has 1 members, but there are 2 layers"},
        {"gemma3_text", "\"layer_types\": [\"full_attention\", \"linear_attention\"]",
         GRAIL_ERROR_UNSUPPORTED,
         "layer 1 has the type \"linear_attention\" in \"layer_types\", expected full_attention or "
         "sliding_attention"},
        {"bert", "\"position_embedding_type\": \"relative_key_query\"", GRAIL_ERROR_UNSUPPORTED,
         "\"position_embedding_type\" is \"relative_key_query\": scores that depend on the "
         "distance "
         "of positions, which grail lacks; it has \"absolute\""},
        {"bert", "\"is_decoder\": true", GRAIL_ERROR_UNSUPPORTED, "those before it alone"},
        {"bert", "\"num_attention_heads\": 3", GRAIL_ERROR_FORMAT, "not divisible by 3 heads"},
        {"roberta", "\"pad_token_id\": 0", GRAIL_ERROR_UNSUPPORTED,
         "\"pad_token_id\" is 0, expected 1"},
        {"roberta", "\"max_position_embeddings\": 2", GRAIL_ERROR_FORMAT, "expected 3 to"},
        {"distilbert", NULL, GRAIL_ERROR_FORMAT, "\"dim\" is missing"},
        {"modernbert", "\"norm_bias\": true", GRAIL_ERROR_UNSUPPORTED, "norms have a bias"},
        {"modernbert", "\"local_attention\": -1", GRAIL_ERROR_FORMAT,
         "\"local_attention\" is -1; it must be null, or 0 or more"},
        {"modernbert", "\"layer_types\": [\"full_attention\"]", GRAIL_ERROR_FORMAT,
         "\"layer_types\" has 1 members, but there are 2 layers"},
        {"smollm3", "\"no_rope_layers\": [1, 0, 1]", GRAIL_ERROR_FORMAT,
         "\"no_rope_layers\" has 3 members, but there are 2 layers"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_fails(try_config(bad[i].type, bad[i].changes), bad[i].status, bad[i].text);
    }
}

/* -- layers ------------------------------------------------------------------------------------ */

enum { LAYERS = 8 };

/* A letter for each layer: w with a window of 5, f without; a capital turns q and k. */
static void assert_layers(const char *type, const char *changes, const char *expected)
{
    char text[512];
    snprintf(text, sizeof text, "\"num_hidden_layers\": %d, \"sliding_window\": 5%s", LAYERS,
             changes);
    OWNED(graph) *g = built(type, text);
    for (int layer = 0; layer < LAYERS; layer++) {
        int turned = 0;
        const node *attention = find_node(g, NODE_ATTENTION, layer);
        for (int n = 0; n < g->node_count; n++) {
            turned += g->nodes[n].block == layer && g->nodes[n].kind == NODE_ROPE ? 1 : 0;
        }
        assert_true(turned == 0 || turned == 2);
        const char kind = attention->attention.window == 5 ? 'w' : 'f';
        assert_int_equal(turned > 0 ? kind - 'a' + 'A' : kind, expected[layer]);
    }
}

TEST(windows_and_rotary_positions_follow_the_familys_pattern)
{
    assert_layers("gemma", "", "FFFFFFFF");
    assert_layers("phi3", "", "WWWWWWWW");
    assert_layers("starcoder2", "", "WWWWWWWW");
    assert_layers("gemma2", "", "WFWFWFWF");
    assert_layers("gemma3_text", "", "WWWWWFWW");
    assert_layers("gemma3_text", ", \"sliding_window_pattern\": 3", "WWFWWFWW");
    assert_layers("gemma3_text", ", \"_sliding_window_pattern\": 4", "WWWFWWWF");
    assert_layers("olmo3", "", "WWWFWWWF");
    assert_layers("cohere2", "", "WWWfWWWf");
    assert_layers("smollm3", "", "FFFfFFFf");
    assert_layers("smollm3", ", \"no_rope_layer_interval\": 2", "FfFfFfFf");
    assert_layers("smollm3", ", \"use_sliding_window\": true", "FFFwFFFw");
    assert_layers("smollm3", ", \"no_rope_layers\": [0, 1, 1, 1, 1, 1, 1, 0]", "fFFFFFFf");
}

/* Half of it on each side, and the row itself: 8 / 2 + 1 = 5. */
TEST(the_first_layers_of_runs_see_all_in_modernbert)
{
    assert_layers("modernbert", ", \"local_attention\": 8", "FWWFWWFW");
    assert_layers("modernbert", ", \"local_attention\": 9, \"global_attn_every_n_layers\": 4",
                  "FWWWFWWW");
    assert_layers("modernbert", ", \"local_attention\": null", "FFFFFFFF");
}

/* Norms of sums; the last one is behind all blocks, as a last norm is elsewhere. */
TEST(encoders_norm_sums_and_see_both_sides)
{
    graph *g = built("bert", NULL);
    assert_true(g->gives_hidden);
    assert_true(graph_gives_features(g));
    assert_int_equal(g->block_count, 2);
    const node *last = &g->nodes[g->node_count - 1];
    assert_int_equal(last->kind, NODE_LAYER_NORM);
    assert_int_equal(last->block, 2);
    assert_string_equal(g->parameters[last->weight].name, "model.layers.1.mlp.branch_norm.weight");
    assert_string_equal(g->parameters[last->weight].tensor,
                        "bert.encoder.layer.1.output.LayerNorm.weight");
    assert_int_equal(g->nodes[g->node_count - 2].kind, NODE_ADD);
    assert_true(find_node(g, NODE_ATTENTION, 1)->attention.bidirectional);
    assert_int_equal(shape_of(g, "model.token_types.weight")[0], 2);
    graph_free(g);
    g = built("roberta", "\"max_position_embeddings\": 20");
    assert_int_equal(shape_of(g, "model.embed_positions.weight")[0], 20);
    graph_free(g);
}

/* A head or a pooler is carried along; a part of layers that is not known would not be. */
TEST(what_reads_hidden_states_is_outside)
{
    assert_int_equal(encoder_outside("bert.pooler.dense.weight"), OUTSIDE_WEIGHTS);
    assert_int_equal(encoder_outside("cls.predictions.transform.LayerNorm.gamma"), OUTSIDE_WEIGHTS);
    assert_int_equal(encoder_outside("lm_head.layer_norm.weight"), OUTSIDE_WEIGHTS);
    assert_int_equal(encoder_outside("bert.encoder.layer.0.crossattention.self.key.weight"),
                     OUTSIDE_REFUSED);
    assert_int_equal(encoder_outside("embeddings.rel_pos.weight"), OUTSIDE_REFUSED);
    assert_int_equal(encoder_outside("bert.encoder.norm.weight"), OUTSIDE_REFUSED);
    assert_int_equal(encoder_outside("embeddings_project.weight"), OUTSIDE_REFUSED);
}

/* Layers with a window have a base of their own, which no scaling touches. */
TEST(gemma3_turns_layers_with_a_window_by_another_base)
{
    static const char *const changes[] = {
        "\"head_dim\": 4, \"sliding_window_pattern\": 2, \"rope_theta\": 16.0,"
        " \"rope_local_base_freq\": 81.0, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}",
        "\"head_dim\": 4, \"sliding_window_pattern\": 2, \"rope_parameters\": {\"full_attention\":"
        " {\"rope_type\": \"linear\", \"factor\": 2, \"rope_theta\": 16.0}, \"sliding_attention\":"
        " {\"rope_type\": \"default\", \"rope_theta\": 81.0}}"};
    for (int i = 0; i < 2; i++) {
        OWNED(graph) *g = built("gemma3_text", changes[i]);
        const double *windows = find_node(g, NODE_ROPE, 0)->rope.frequency;
        const double *whole = find_node(g, NODE_ROPE, 1)->rope.frequency;
        assert_near(windows[0], 1.0, 1e-6);
        assert_near(windows[1], 1.0 / 9.0, 1e-6);
        assert_near(whole[0], 0.5, 1e-6);
        assert_near(whole[1], 0.125, 1e-6);
    }
}

/* The pairs that stay have the frequency 0. */
TEST(neighbouring_pairs_are_made_halves_by_their_places)
{
    OWNED(graph) *g = built("glm", "\"head_dim\": 8");
    const rope_attributes *rope = &find_node(g, NODE_ROPE, 0)->rope;
    const int q = graph_find_parameter(g, "model.layers.0.self_attn.q_proj.weight");
    const storage_axis *rows = &g->parameters[q].map.rows;
    assert_int_equal(rope->turned, 8);
    assert_near(rope->frequency[1], 0.01, 1e-6);
    assert_true(rope->frequency[2] == 0.0 && rope->frequency[3] == 0.0);
    static const int64_t expected[] = {0, 2, 4, 6, 1, 3, 5, 7, 8};
    for (int64_t i = 0; i < 9; i++) {
        assert_int_equal(storage_position(rows, i), expected[i]);
    }
}

/* -- factors ----------------------------------------------------------------------------------- */

static double scale_of(const graph *g, const char *name)
{
    const double scale = g->parameters[graph_find_parameter(g, name)].map.scale;
    return scale == 0.0 ? 1.0 : scale;
}

/* A tied head is scaled with the embeddings, so that the last norm takes that back. */
TEST(factors_of_values_are_those_of_weights)
{
    static const char multipliers[] = "\"embedding_multiplier\": 8, \"residual_multiplier\": 0.25,"
                                      " \"attention_multiplier\": 0.125, \"logits_scaling\": 4";
    char text[256];
    for (int tied = 0; tied < 2; tied++) {
        snprintf(text, sizeof text, "%s, \"tie_word_embeddings\": %s", multipliers,
                 tied == 0 ? "false" : "true");
        OWNED(graph) *g = built("granite", text);
        assert_near(scale_of(g, "model.embed_tokens.weight"), 8.0, 0.0);
        assert_near(scale_of(g, "model.layers.1.self_attn.o_proj.weight"), 0.25, 0.0);
        assert_near(scale_of(g, "model.layers.0.mlp.down_proj.weight"), 0.25, 0.0);
        assert_near(scale_of(g, "model.layers.0.mlp.up_proj.weight"), 1.0, 0.0);
        assert_near(scale_of(g, "model.norm.weight"), tied == 0 ? 0.25 : 0.25 / 8.0, 0.0);
        assert_near(find_node(g, NODE_ATTENTION, 0)->attention.scale, 0.125, 0.0);
    }
}

TEST(caps_may_be_null)
{
    graph *g = built("gemma2", NULL);
    assert_near(find_node(g, NODE_ATTENTION, 0)->attention.cap, 50.0, 0.0);
    assert_int_equal(g->nodes[g->node_count - 1].kind, NODE_SOFT_CAP);
    assert_near(g->nodes[g->node_count - 1].cap, 30.0, 0.0);
    graph_free(g);
    g = built("gemma2", "\"attn_logit_softcapping\": null, \"final_logit_softcapping\": null");
    assert_near(find_node(g, NODE_ATTENTION, 0)->attention.cap, 0.0, 0.0);
    assert_int_equal(g->nodes[g->node_count - 1].kind, NODE_LINEAR);
    graph_free(g);
}

/* -- files ------------------------------------------------------------------------------------- */

/* Older files lack what is before "h." and have the masks of attention. */
DIRECTORY_TEST(gpt2_may_lack_its_prefix_and_have_masks)
{
    static const char prefix[] = "transformer.";
    char path[LAB_PATH];
    OWNED(lab_model) m;
    grail_model *model = NULL;
    lab_read(&m, lab_golden("gpt2"));
    for (int i = 0; i < m.count; i++) {
        char *name = m.tensors[i].name;
        assert_int_equal(strncmp(name, prefix, strlen(prefix)), 0);
        memmove(name, name + strlen(prefix), strlen(name) - strlen(prefix) + 1);
    }
    lab_tensor *mask = &m.tensors[m.count++];
    *mask = (lab_tensor){.name = "h.0.attn.bias", .rank = 2, .shape = {2, 2}};
    assert_ok(memory_new(&mask->values, 4, sizeof mask->values[0]));
    snprintf(path, sizeof path, "%s/bare", directory);
    lab_write(&m, path, GRAIL_DTYPE_F32);
    assert_ok(grail_model_open(path, &model));
    grail_model_close(model);
    snprintf(mask->name, sizeof mask->name, "h.0.attn.other");
    snprintf(path, sizeof path, "%s/other", directory);
    lab_write(&m, path, GRAIL_DTYPE_F32);
    assert_fails(grail_model_open(path, &model), GRAIL_ERROR_UNSUPPORTED,
                 "tensor 'h.0.attn.other' is not part of the gpt2 network");
}

CMFixtureFunction support_setup = json_memory_use;
