/* ViT and CLIP families: which names are recognised, what is built from them, what is refused. */
#include "tower_lab.h"

#include "support/json_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct golden {
    const char *name, *setting, *architecture, *preset;
    int64_t side, positions, width, outputs, head_dim;
    int blocks;
    activation_kind activation;
    bool normalize;
} golden;

static const golden goldens[] = {
    {"timm-vit", HEADS_OF_16, "vit", "vit", 24, 10, 32, 7, 16, 2, ACTIVATION_GELU, false},
    {"timm-vit-hub", NULL, "vit", "vit", 24, 10, 64, 7, 64, 1, ACTIVATION_GELU, false},
    {"torchvision-vit", HEADS_OF_16, "vit", "imagenet", 24, 10, 32, 7, 16, 2, ACTIVATION_GELU,
     false},
    {"hf-vit", NULL, "vit", "vit-square", 24, 10, 32, 7, 16, 2, ACTIVATION_GELU, false},
    {"simple-vit", NULL, "vit", "cifar", 32, 16, 32, 7, 64, 2, ACTIVATION_GELU, false},
    {"open-clip", HEADS_OF_16, "clip", "clip", 24, 10, 32, 20, 16, 2, ACTIVATION_GELU, false},
    {"hf-clip", NULL, "clip", "clip", 24, 10, 32, 20, 16, 2, ACTIVATION_QUICK_GELU, false},
    {"hf-clip-vision", NULL, "clip_vision_model", "clip", 24, 10, 32, 20, 16, 2, ACTIVATION_GELU,
     false},
    {"model-soup", HEADS_OF_16, "clip", "clip", 24, 10, 32, 7, 16, 2, ACTIVATION_QUICK_GELU, true},
};

static void assert_built(const golden *g, const grail_model *m)
{
    int64_t widths[64];
    extent extents[64];
    const graph *built = m->graph;
    assert_true(built->value_count <= 64);
    assert_string_equal(m->architecture->name, g->architecture);
    assert_string_equal(m->architecture->preset(m->config), g->preset);
    assert_int_equal(built->input_kind, INPUT_IMAGES);
    assert_int_equal(built->image.height, g->side);
    assert_int_equal(built->image.width, g->side);
    assert_int_equal(built->block_count, g->blocks);
    assert_ok(graph_widths(built, widths));
    assert_ok(graph_extents(built, built->image, extents));
    assert_int_equal(widths[built->output], g->outputs);
    assert_int_equal(extents[built->output].height * extents[built->output].width, 1);
    const node *attention = tower_node(m, NODE_ATTENTION);
    assert_int_equal(widths[attention->output] % g->head_dim, 0);
    assert_int_equal(attention->attention.head_dim, g->head_dim);
    assert_true(attention->attention.bidirectional);
    assert_near(attention->attention.scale, 1.0 / sqrt((double)g->head_dim), 1e-15);
    assert_int_equal(extents[attention->output].height * extents[attention->output].width,
                     g->positions);
    assert_int_equal(widths[tower_node(m, NODE_POSITIONS)->output], g->width);
    assert_int_equal(tower_node(m, NODE_ACTIVATION)->activation, g->activation);
    assert_int_equal(tower_node(m, NODE_UNIT_LENGTH) != NULL, g->normalize);
}

TEST(every_convention_of_names_is_recognised_and_built)
{
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++) {
        const golden *g = &goldens[i];
        const grail_model_options options = {.settings = &g->setting,
                                             .setting_count = g->setting != NULL};
        OPENED(grail_model, m, grail_model_open_with(tower_golden(g->name), &options, &m));
        assert_built(g, m);
    }
}

TEST(a_file_is_read_with_the_configuration_beside_it)
{
    OPENED(grail_model, m, grail_model_open(tower_golden("hf-vit/model.safetensors"), &m));
    assert_int_equal(tower_node(m, NODE_ATTENTION)->attention.head_dim, 16);
    assert_string_equal(m->config_name, "config.json");
}

TEST(names_of_hugging_face_are_known_without_a_configuration)
{
    static const char *const names[] = {"hf-vit", "hf-clip"};
    for (int i = 0; i < 2; i++) {
        OWNED(tower_lab) lab;
        tower_open(&lab, names[i]);
        json_decref(lab.config);
        lab.config = NULL;
        OWNED(grail_model) *m = tower_model(&lab, HEADS_OF_16);
        assert_int_equal(m->graph->block_count, 2);
    }
}

/* As the class of transformers 5 calls them in memory: torch.save(model.state_dict()) stores these
 * names, and save_pretrained those of golden hf-vit. */
static void rename_as_in_memory(tower_lab *lab)
{
    static const char *const parts[][2] = {
        {"attention.attention.query.", "attention.q_proj."},
        {"attention.attention.key.", "attention.k_proj."},
        {"attention.attention.value.", "attention.v_proj."},
        {"attention.output.dense.", "attention.o_proj."},
        {"intermediate.dense.", "mlp.fc1."},
        {"output.dense.", "mlp.fc2."},
        {"", ""},
    };
    for (int i = 0; i < lab->count; i++) {
        char name[TOWER_NAME];
        int layer = 0;
        int length = 0;
        snprintf(name, sizeof name, "%s", lab->names[i]);
        if (sscanf(name, "vit.encoder.layer.%d.%n", &layer, &length) != 1) {
            continue;
        }
        const char *rest = name + length;
        int p = 0;
        while (strncmp(rest, parts[p][0], strlen(parts[p][0])) != 0) {
            p++;
        }
        snprintf(lab->names[i], TOWER_NAME, "vit.layers.%d.%s%.60s", layer, parts[p][1],
                 rest + strlen(parts[p][0]));
    }
}

TEST(names_of_the_class_in_memory_are_those_of_files)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "hf-vit");
    OWNED(grail_model) *stored = tower_model(&lab, NULL);
    rename_as_in_memory(&lab);
    for (int with_config = 1; with_config >= 0; with_config--) {
        grail_model *m = tower_model(&lab, with_config != 0 ? NULL : HEADS_OF_16);
        assert_int_equal(m->graph->node_count, stored->graph->node_count);
        assert_int_equal(m->graph->parameter_count, stored->graph->parameter_count);
        assert_true(graph_find_parameter(m->graph, "vit.layers.1.mlp.fc2.weight") != GRAPH_NONE);
        assert_string_equal(m->architecture->preset(m->config), "vit-square");
        grail_model_close(m);
        json_decref(lab.config);
        lab.config = NULL;
    }
}

TEST(what_wraps_the_names_does_not_matter)
{
    static const struct {
        const char *stored, *named;
    } prefixes[] = {{"module.", ""},
                    {"_orig_mod.", ""},
                    {"module.net.", "net."},
                    {"state.backbone.", "state.backbone."}};
    for (int i = 0; i < 4; i++) {
        OWNED(tower_lab) lab;
        tower_open(&lab, "timm-vit");
        tower_wrap(&lab, "", prefixes[i].stored);
        OWNED(grail_model) *m = tower_model(&lab, HEADS_OF_16);
        char name[TOWER_NAME];
        snprintf(name, sizeof name, "%shead.weight", prefixes[i].named);
        assert_true(graph_find_parameter(m->graph, name) != GRAPH_NONE);
    }
}

TEST(names_begin_at_a_dot)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "timm-vit");
    tower_wrap(&lab, "", "net");
    tower_refuses(&lab, HEADS_OF_16, GRAIL_ERROR_UNSUPPORTED, "fit no known family");
}

TEST(a_missing_tensor_is_named)
{
    static const struct {
        const char *golden, *tensor;
        grail_status code;
    } cases[] = {
        {"timm-vit", "cls_token", GRAIL_ERROR_UNSUPPORTED},
        {"timm-vit", "blocks.0.attn.proj.weight", GRAIL_ERROR_UNSUPPORTED},
        {"timm-vit", "blocks.1.mlp.fc2.weight", GRAIL_ERROR_FORMAT},
        {"timm-vit", "blocks.1.mlp.fc1.weight", GRAIL_ERROR_FORMAT},
        {"timm-vit", "blocks.1.norm2.bias", GRAIL_ERROR_FORMAT},
        {"hf-vit", "vit.encoder.layer.1.attention.attention.key.weight", GRAIL_ERROR_FORMAT},
        {"hf-vit", "vit.embeddings.cls_token", GRAIL_ERROR_FORMAT},
        {"hf-vit", "vit.encoder.layer.0.attention.attention.query.bias", GRAIL_ERROR_FORMAT},
        {"simple-vit", "transformer.layers.0.0.to_out.weight", GRAIL_ERROR_UNSUPPORTED},
        {"open-clip", "visual.transformer.resblocks.1.attn.in_proj_bias", GRAIL_ERROR_FORMAT},
        {"hf-clip", "vision_model.post_layernorm.weight", GRAIL_ERROR_FORMAT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(tower_lab) lab;
        tower_open(&lab, cases[i].golden);
        tower_drop(&lab, cases[i].tensor);
        const bool simple = strcmp(cases[i].golden, "simple-vit") == 0;
        tower_refuses(&lab, simple ? NULL : HEADS_OF_16, cases[i].code, cases[i].tensor);
    }
}

TEST(a_layer_that_is_not_there_is_missed)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "hf-vit");
    assert_ok(json_put(lab.config, "num_hidden_layers", json_integer(3)));
    tower_refuses(&lab, NULL, GRAIL_ERROR_FORMAT, "vit.encoder.layer.2.");
    assert_ok(json_put(lab.config, "num_hidden_layers", json_integer(1)));
    tower_refuses(&lab, NULL, GRAIL_ERROR_UNSUPPORTED, "vit.encoder.layer.1.");
    assert_ok(json_put(lab.config, "num_hidden_layers", json_integer(0)));
    tower_refuses(&lab, NULL, GRAIL_ERROR_FORMAT, "0 layers, expected 1 to 1024");
}

TEST(a_tensor_that_the_network_does_not_read_is_refused)
{
    static const char *const others[] = {"blocks.0.ls1.gamma", "fc_norm.weight",
                                         "head_dist.weight"};
    for (int i = 0; i < 3; i++) {
        OWNED(tower_lab) lab;
        tower_open(&lab, "timm-vit");
        tower_add(&lab, others[i], 1, 32);
        tower_refuses(&lab, HEADS_OF_16, GRAIL_ERROR_UNSUPPORTED, others[i]);
    }
}

TEST(a_head_dim_that_divides_no_layer_is_asked_for)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "timm-vit");
    tower_refuses(&lab, NULL, GRAIL_ERROR_SHAPE,
                  "cannot be divided into heads of 64; give head_dim=N (width / heads)");
    tower_refuses(&lab, "head_dim=5", GRAIL_ERROR_SHAPE,
                  "cannot be divided into heads of 5; give head_dim=N (width / heads)");
    tower_refuses(&lab, "head_dim=0", GRAIL_ERROR_FORMAT, "head_dim is 0");
    tower_refuses(&lab, "head_dim=x", GRAIL_ERROR_FORMAT, "\"head_dim\" is not an integer");
}

/* 1280 is divisible by 64 as well, so no message would tell of the wrong heads. */
TEST(the_largest_published_networks_have_wider_heads)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "timm-vit-hub");
    for (int i = 0; i < lab.count; i++) {
        for (int d = 0; d < lab.views[i].rank; d++) {
            const int64_t width = lab.views[i].shape[d];
            lab.views[i].shape[d] = width % 64 == 0 ? width / 64 * 1280 : width;
        }
    }
    grail_model *m = tower_model(&lab, NULL);
    assert_int_equal(tower_node(m, NODE_ATTENTION)->attention.head_dim, 80);
    grail_model_close(m);
    m = tower_model(&lab, "head_dim=64");
    assert_int_equal(tower_node(m, NODE_ATTENTION)->attention.head_dim, 64);
    grail_model_close(m);
}

/* timm's norms have an epsilon of 1e-6, but those of CLIP's towers, which norm before all layers.
 */
TEST(timms_towers_of_clip_have_their_own_epsilon)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "timm-vit");
    grail_model *m = tower_model(&lab, HEADS_OF_16);
    assert_near(tower_node(m, NODE_LAYER_NORM)->norm.epsilon, 1e-6, 0.0);
    grail_model_close(m);
    tower_add(&lab, "norm_pre.weight", 1, 32);
    tower_add(&lab, "norm_pre.bias", 1, 32);
    m = tower_model(&lab, HEADS_OF_16);
    assert_near(tower_node(m, NODE_LAYER_NORM)->norm.epsilon, 1e-5, 0.0);
    grail_model_close(m);
}

TEST(a_tensor_of_another_shape_is_refused)
{
    tower_lab lab;
    tower_open(&lab, "timm-vit");
    tower_tensor(&lab, "pos_embed")->shape[1] = 12;
    tower_refuses(&lab, HEADS_OF_16, GRAIL_ERROR_UNSUPPORTED,
                  "tensor 'pos_embed' has 11 positions besides the class token; their number must "
                  "be a square (1, 4, 9, ...)");
    tower_tensor(&lab, "pos_embed")->shape[1] = 1;
    tower_refuses(&lab, HEADS_OF_16, GRAIL_ERROR_UNSUPPORTED, "0 positions besides");
    tower_tensor(&lab, "pos_embed")->shape[1] = 10;
    tower_tensor(&lab, "pos_embed")->shape[0] = 2;
    tower_refuses(&lab, HEADS_OF_16, GRAIL_ERROR_SHAPE, "'pos_embed' has shape [2, 10, 32]");
    tower_tensor(&lab, "pos_embed")->shape[0] = 1;
    tower_tensor(&lab, "patch_embed.proj.weight")->shape[3] = 4;
    tower_refuses(&lab, HEADS_OF_16, GRAIL_ERROR_UNSUPPORTED,
                  "the patch embedding must read square patches of");
    tower_tensor(&lab, "patch_embed.proj.weight")->shape[3] = 8;
    tower_tensor(&lab, "blocks.1.attn.qkv.weight")->shape[0] = 95;
    tower_refuses(
        &lab, HEADS_OF_16, GRAIL_ERROR_SHAPE,
        "tensor 'blocks.1.attn.qkv.weight' has 95 rows; q, k and v together need a multiple of 3");
    tower_tensor(&lab, "blocks.1.attn.qkv.weight")->shape[0] = 96;
    tower_tensor(&lab, "blocks.0.mlp.fc2.weight")->shape[1] = 47;
    tower_refuses(&lab, HEADS_OF_16, GRAIL_ERROR_SHAPE, "tensor 'blocks.0.mlp.fc2.weight'");
    tower_close(&lab);
    tower_open(&lab, "simple-vit");
    tower_tensor(&lab, "to_patch_embedding.1.weight")->shape[1] = 190;
    tower_refuses(&lab, NULL, GRAIL_ERROR_UNSUPPORTED,
                  "the patch embedding must read square patches of");
    tower_close(&lab);
}

TEST(a_side_that_the_positions_contradict_is_refused)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "hf-clip");
    json_t *vision = json_object_get(lab.config, "vision_config");
    assert_ok(json_put(vision, "image_size", json_integer(224)));
    tower_refuses(&lab, NULL, GRAIL_ERROR_SHAPE,
                  "image_size is 224, but the positions in "
                  "'vision_model.embeddings.position_embedding.weight' are for images of side 24");
}

TEST(settings_choose_what_tensors_do_not_say)
{
    tower_lab lab;
    tower_open(&lab, "open-clip");
    for (int i = 0; i < lab.count; i++) { /* heads of the default size */
        if (strstr(lab.names[i], "in_proj") != NULL) {
            lab.views[i].shape[0] = 3 * 64;
        } else if (strstr(lab.names[i], "visual") != NULL &&
                   strstr(lab.names[i], "out_proj.weight") != NULL) {
            lab.views[i].shape[1] = 64;
        }
    }
    grail_model *m = tower_model(&lab, NULL);
    assert_int_equal(tower_node(m, NODE_ATTENTION)->attention.head_dim, 64);
    grail_model_close(m);
    m = tower_model(&lab, "activation=quick_gelu");
    assert_int_equal(tower_node(m, NODE_ACTIVATION)->activation, ACTIVATION_QUICK_GELU);
    grail_model_close(m);
    m = tower_model(&lab, "normalize=true");
    assert_non_null(tower_node(m, NODE_UNIT_LENGTH));
    grail_model_close(m);
    tower_refuses(&lab, "activation=mish", GRAIL_ERROR_UNSUPPORTED,
                  "activation \"mish\" is not supported; the supported values are silu, gelu");
    tower_refuses(&lab, "normalize=1", GRAIL_ERROR_FORMAT, "\"normalize\" is not");
    tower_refuses(&lab, "heads=2", GRAIL_ERROR_ARGUMENT,
                  "known settings: activation, normalize, head_dim, image_size");
    tower_close(&lab);
}

TEST(settings_go_before_a_configuration)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "hf-clip");
    grail_model *m = tower_model(&lab, "activation=gelu");
    assert_int_equal(tower_node(m, NODE_ACTIVATION)->activation, ACTIVATION_GELU);
    grail_model_close(m);
    m = tower_model(&lab, "head_dim=8");
    assert_int_equal(tower_node(m, NODE_ATTENTION)->attention.head_dim, 8);
    grail_model_close(m);
}

TEST(a_configuration_tells_epsilon_and_activation)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "hf-vit");
    assert_ok(json_put(lab.config, "hidden_act", json_string("gelu_new")));
    assert_ok(json_put(lab.config, "layer_norm_eps", json_real(0.5)));
    OWNED(grail_model) *m = tower_model(&lab, NULL);
    assert_int_equal(tower_node(m, NODE_ACTIVATION)->activation, ACTIVATION_GELU_TANH);
    assert_near(tower_node(m, NODE_LAYER_NORM)->norm.epsilon, 0.5, 0.0);
}

/* As transformers 5 saves CLIPVisionModel. */
TEST(a_tower_alone_may_lack_its_prefix)
{
    static const char prefix[] = "vision_model.";
    OWNED(tower_lab) lab;
    tower_open(&lab, "hf-clip-vision");
    tower_drop(&lab, "visual_projection.weight");
    for (int i = 0; i < lab.count; i++) {
        char *name = lab.names[i];
        assert_int_equal(strncmp(name, prefix, strlen(prefix)), 0);
        memmove(name, name + strlen(prefix), strlen(name + strlen(prefix)) + 1);
    }
    OWNED(grail_model) *m = tower_model(&lab, NULL);
    grail_model_facts facts;
    assert_ok(grail_model_describe(m, &facts));
    assert_int_equal(facts.classes, 0);
    assert_int_equal(facts.blocks, 2);
    assert_int_equal(tower_node(m, NODE_ATTENTION)->attention.head_dim, 16);
}

TEST(files_of_openai_have_quick_gelu)
{
    tower_lab lab;
    tower_open(&lab, "open-clip");
    for (int i = 0; i < lab.count; i++) { /* as convert_weights leaves them */
        if (strstr(lab.names[i], "ln_") == NULL) {
            lab.views[i].dtype = GRAIL_DTYPE_F16;
            lab.views[i].bytes /= 2;
        }
    }
    grail_model *m = tower_model(&lab, HEADS_OF_16);
    assert_int_equal(tower_node(m, NODE_ACTIVATION)->activation, ACTIVATION_QUICK_GELU);
    assert_null(tower_node(m, NODE_UNIT_LENGTH));
    grail_model_close(m);
    tower_close(&lab);
    tower_open(&lab, "open-clip");
    tower_add(&lab, "input_resolution", 1, 1);
    m = tower_model(&lab, HEADS_OF_16);
    assert_int_equal(tower_node(m, NODE_ACTIVATION)->activation, ACTIVATION_QUICK_GELU);
    grail_model_close(m);
    tower_close(&lab);
}

TEST(a_head_beside_a_plain_tower_leaves_features_as_they_are)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "open-clip");
    tower_add(&lab, "classification_head.weight", 7, 20);
    OWNED(grail_model) *m = tower_model(&lab, HEADS_OF_16);
    assert_null(tower_node(m, NODE_UNIT_LENGTH));
    assert_int_equal(tower_node(m, NODE_ACTIVATION)->activation, ACTIVATION_GELU);
    assert_true(graph_find_parameter(m->graph, "classification_head.weight") != GRAPH_NONE);
}

TEST(towers_without_head_give_features)
{
    int64_t widths[64];
    OWNED(tower_lab) lab;
    tower_open(&lab, "timm-vit");
    tower_drop(&lab, "head.weight");
    tower_drop(&lab, "head.bias");
    OWNED(grail_model) *m = tower_model(&lab, HEADS_OF_16);
    assert_ok(graph_widths(m->graph, widths));
    assert_int_equal(widths[m->graph->output], 32);
}

/* Layer 1 of two gets another ffn width and a head less. */
static void narrow_layer(tower_lab *lab, const char *up, const char *up_bias, const char *down,
                         const char *qkv, const char *qkv_bias, const char *output)
{
    tower_tensor(lab, up)->shape[0] = 20;
    tower_tensor(lab, up_bias)->shape[0] = 20;
    tower_tensor(lab, down)->shape[1] = 20;
    tower_tensor(lab, qkv)->shape[0] /= 2;
    if (qkv_bias != NULL) {
        tower_tensor(lab, qkv_bias)->shape[0] /= 2;
    }
    tower_tensor(lab, output)->shape[1] /= 2;
}

TEST(narrowed_checkpoints_open_by_their_shapes)
{
    int64_t widths[64];
    tower_lab lab;
    tower_open(&lab, "timm-vit");
    narrow_layer(&lab, "blocks.1.mlp.fc1.weight", "blocks.1.mlp.fc1.bias",
                 "blocks.1.mlp.fc2.weight", "blocks.1.attn.qkv.weight", "blocks.1.attn.qkv.bias",
                 "blocks.1.attn.proj.weight");
    grail_model *m = tower_model(&lab, HEADS_OF_16);
    assert_ok(graph_widths(m->graph, widths));
    const int v = graph_find_parameter(m->graph, "blocks.1.attn.qkv.weight[32]");
    assert_true(v != GRAPH_NONE);
    assert_int_equal(m->graph->parameters[v].shape[0], 16);
    assert_int_equal(m->graph->parameters[v].map.rows.first, 32);
    grail_model_close(m);
    tower_close(&lab);
    tower_open(&lab, "simple-vit");
    narrow_layer(&lab, "transformer.layers.1.1.net.1.weight", "transformer.layers.1.1.net.1.bias",
                 "transformer.layers.1.1.net.3.weight", "transformer.layers.1.0.to_qkv.weight",
                 NULL, "transformer.layers.1.0.to_out.weight");
    m = tower_model(&lab, NULL);
    const int out = graph_find_parameter(m->graph, "transformer.layers.1.0.to_out.weight");
    assert_int_equal(m->graph->parameters[out].shape[1], 64);
    grail_model_close(m);
    tower_close(&lab);
}

TEST(sites_are_the_neurons_and_the_heads)
{
    OPENED(grail_model, m, grail_model_open(tower_golden("simple-vit"), &m));
    OPENED(grail_site_list, sites, grail_model_sites(m, GRAIL_GQA_KV_GROUPS, &sites));
    assert_int_equal(grail_site_list_count(sites), 4);
    grail_site_facts s = grail_site_list_at(sites, 2);
    assert_string_equal(s.name, "transformer.layers.1.0.to_out");
    assert_string_equal(s.kind, "heads");
    assert_int_equal(s.block, 1);
    assert_int_equal(s.units, 2);
    assert_int_equal(s.features_per_unit, 64);
    assert_int_equal(s.parameters_per_unit, 4 * 64 * 32);
    s = grail_site_list_at(sites, 3);
    assert_string_equal(s.name, "transformer.layers.1.1.net.3");
    assert_string_equal(s.kind, "ffn");
    assert_int_equal(s.units, 48);
}

TEST(fixed_positions_are_sines_and_cosines_of_both_axes)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "simple-vit");
    grail_model *m = tower_model(&lab, "image_size=24"); /* 3 x 3 patches */
    const node *n = tower_node(m, NODE_POSITIONS);
    assert_int_equal(n->positions.count, 9);
    const double w = pow(10000.0, -3.0 / 7.0);       /* feature 3 of 8 in a quarter */
    const double *row = n->positions.table + 5 * 32; /* y = 1, x = 2 */
    assert_near(row[3], sin(2.0 * w), 1e-12);
    assert_near(row[8 + 3], cos(2.0 * w), 1e-12);
    assert_near(row[16 + 3], sin(w), 1e-12);
    assert_near(row[24 + 3], cos(w), 1e-12);
    grail_model_close(m);
    tower_refuses(
        &lab, "image_size=30", GRAIL_ERROR_ARGUMENT,
        "image_size is 30; give image_size=N with a multiple of the patch size 8, at most 16384");
}

static void assert_verdict(const grail_model *m, const char *loader, bool loads, const char *text)
{
    loader_verdict verdicts[LOADER_COUNT];
    OWNED(json_t) *config = json_deep_copy(m->config);
    assert_ok(m->architecture->describe_narrowed(m->architecture, m->graph, config));
    assert_ok(
        m->architecture->judge_loaders(m->architecture, config, m->graph, m->graph, verdicts));
    assert_string_equal(verdicts[0].loader, loader);
    assert_int_equal(verdicts[0].loads, loads);
    if (strstr(verdicts[0].reason, text) == NULL) {
        fail_msg("'%s' lacks '%s'", verdicts[0].reason, text);
    }
    assert_string_equal(verdicts[1].loader, "ONNX Runtime");
    assert_true(verdicts[1].loads);
}

TEST(loaders_are_judged_by_what_their_classes_build)
{
    static const struct {
        const char *golden, *setting, *loader, *text;
    } cases[] = {{"timm-vit", HEADS_OF_16, "timm", "mlp_ratio=1.5)"},
                 {"torchvision-vit", HEADS_OF_16, "torchvision", "mlp_dim=48"},
                 {"hf-vit", NULL, "transformers", "intermediate_size 48"},
                 {"simple-vit", NULL, "vit-pytorch", "mlp_dim=48, heads=2, dim_head=64"},
                 {"open-clip", HEADS_OF_16, "open_clip", "\"mlp_ratio\": 1.5 in vision_cfg"},
                 {"hf-clip", NULL, "transformers", "intermediate_size 48"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(tower_lab) lab;
        tower_open(&lab, cases[i].golden);
        OWNED(grail_model) *m = tower_model(&lab, cases[i].setting);
        assert_verdict(m, cases[i].loader, true, cases[i].text);
    }
}

TEST(narrow_heads_or_uneven_layers_load_in_no_class)
{
    tower_lab lab;
    tower_open(&lab, "timm-vit");
    for (int layer = 0; layer < 2; layer++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%d.attn.qkv.weight", layer);
        tower_tensor(&lab, name)->shape[0] = 48;
        snprintf(name, sizeof name, "blocks.%d.attn.qkv.bias", layer);
        tower_tensor(&lab, name)->shape[0] = 48;
        snprintf(name, sizeof name, "blocks.%d.attn.proj.weight", layer);
        tower_tensor(&lab, name)->shape[1] = 16;
    }
    grail_model *m = tower_model(&lab, HEADS_OF_16);
    assert_verdict(m, "timm", false, "1 heads of 16 are not 32");
    grail_model_close(m);
    tower_close(&lab);
    tower_open(&lab, "timm-vit");
    tower_tensor(&lab, "blocks.1.mlp.fc1.weight")->shape[0] = 20;
    tower_tensor(&lab, "blocks.1.mlp.fc1.bias")->shape[0] = 20;
    tower_tensor(&lab, "blocks.1.mlp.fc2.weight")->shape[1] = 20;
    m = tower_model(&lab, HEADS_OF_16);
    assert_verdict(m, "timm", false,
                   "the layers have different widths; its class gives all layers the same");
    grail_model_close(m);
    tower_close(&lab);
}

/* 23 of 32 neurons: 23 / 32 = 0.71875, but two decimals do. */
TEST(the_ratio_is_the_shortest_that_gives_the_width)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "timm-vit");
    for (int layer = 0; layer < 2; layer++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%d.mlp.fc1.weight", layer);
        tower_tensor(&lab, name)->shape[0] = 23;
        snprintf(name, sizeof name, "blocks.%d.mlp.fc1.bias", layer);
        tower_tensor(&lab, name)->shape[0] = 23;
        snprintf(name, sizeof name, "blocks.%d.mlp.fc2.weight", layer);
        tower_tensor(&lab, name)->shape[1] = 23;
    }
    OWNED(grail_model) *m = tower_model(&lab, HEADS_OF_16);
    assert_verdict(m, "timm", true, "mlp_ratio=0.72)"); /* 32 * 0.72 = 23.04 */
}

TEST(a_narrowed_tower_is_described_in_the_configuration_it_had)
{
    tower_lab lab;
    tower_open(&lab, "hf-clip");
    grail_model *m = tower_model(&lab, NULL);
    for (int i = 0; i < m->graph->node_count; i++) { /* 30 neurons and one head */
        const node *n = &m->graph->nodes[i];
        const char *name = n->weight == GRAPH_NONE ? "" : m->graph->parameters[n->weight].name;
        int64_t *shape = n->weight == GRAPH_NONE ? NULL : m->graph->parameters[n->weight].shape;
        if (strstr(name, ".fc1.") != NULL) {
            shape[0] = 30;
        } else if (strstr(name, ".fc2.") != NULL) {
            shape[1] = 30;
        } else if (strstr(name, "out_proj") != NULL) {
            shape[1] = 16;
        } else if (strstr(name, "self_attn") != NULL) {
            shape[0] = 16;
        }
    }
    assert_ok(m->architecture->describe_narrowed(m->architecture, m->graph, m->config));
    const json_t *vision = json_object_get(m->config, "vision_config");
    assert_int_equal(json_integer_value(json_object_get(vision, "intermediate_size")), 30);
    assert_int_equal(json_integer_value(json_object_get(vision, "num_attention_heads")), 1);
    assert_int_equal(json_integer_value(json_object_get(vision, "head_dim")), 16);
    assert_null(json_object_get(m->config, "intermediate_size"));
    grail_model_close(m);
    tower_close(&lab);
}

TEST(a_tower_that_was_recognised_is_described_so_that_it_opens_again)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "model-soup");
    grail_model *m = tower_model(&lab, HEADS_OF_16);
    assert_ok(m->architecture->describe_narrowed(m->architecture, m->graph, m->config));
    lab.config = json_deep_copy(m->config);
    grail_model_close(m);
    m = tower_model(&lab, NULL); /* no setting has to be given again */
    assert_int_equal(tower_node(m, NODE_ATTENTION)->attention.head_dim, 16);
    assert_int_equal(tower_node(m, NODE_ACTIVATION)->activation, ACTIVATION_QUICK_GELU);
    assert_non_null(tower_node(m, NODE_UNIT_LENGTH));
    grail_model_close(m);
}

/* simple-vit assumes heads of 64 where nothing else is said. A narrowed one states the size. */
TEST(the_size_of_heads_is_written_where_it_was_taken_for_granted)
{
    OPENED(grail_model, m, grail_model_open(tower_golden("simple-vit"), &m));
    assert_null(json_object_get(m->config, "head_dim"));
    assert_ok(m->architecture->describe_narrowed(m->architecture, m->graph, m->config));
    assert_int_equal(json_integer_value(json_object_get(m->config, "head_dim")), 64);
}

TEST(every_failing_allocation_of_opening_is_survived)
{
    static const char *const names[] = {"model-soup", "hf-vit", "simple-vit"};
    for (int i = 0; i < 3; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s", tower_golden(names[i]));
        support_fail_each_allocation(tower_open_once, path);
    }
}

CMFixtureFunction support_setup = json_memory_use;
