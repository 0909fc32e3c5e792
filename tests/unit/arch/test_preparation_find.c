/* How a model finds what is said of its images and its operators: by files of its directory, in
 * which order, and what it assumes otherwise. */
#include "tower_lab.h"

#include "arch/model_preparation.h"
#include "support/json_memory.h"

#include <grail/images.h>

#include <stdio.h>
#include <string.h>

#define PROCESSOR "preprocessor_config.json"
#define CLIP_CONFIG "open_clip_config.json"

static tower_lab *lab_of(const char *golden, const char *beside, const char *text)
{
    static tower_lab lab;
    tower_open(&lab, golden);
    lab.beside = beside;
    lab.text = text;
    return &lab;
}

/* Copies: strings are borrowed from the model. */
typedef struct found {
    grail_preprocessing p;
    char preset[32], origin[64], notice[NOTICE_SIZE], activation[32], doubt[NOTICE_SIZE];
} found;

static void keep(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from == NULL ? "" : from);
}

/* Opens, describes and closes the model. */
static found find(tower_lab *lab, const char *setting)
{
    found f = {0};
    grail_model_facts facts = {0};
    OWNED(grail_model) *m = tower_model(lab, setting);
    assert_ok(grail_model_describe(m, &facts));
    assert_ok(grail_model_preprocessing(m, &f.p));
    keep(f.preset, sizeof f.preset, f.p.preset);
    keep(f.origin, sizeof f.origin, f.p.origin);
    keep(f.notice, sizeof f.notice, f.p.notice);
    keep(f.activation, sizeof f.activation, facts.activation);
    keep(f.doubt, sizeof f.doubt, facts.activation_notice);
    assert_string_equal(facts.preset, f.preset);
    return f;
}

TEST(a_file_of_the_directory_says_how_images_are_prepared)
{
    tower_lab *lab = lab_of("hf-vit", PROCESSOR, "{\"size\": 24, \"resample\": 3}");
    const found f = find(lab, NULL);
    assert_string_equal(f.preset, "checkpoint");
    assert_string_equal(f.origin, PROCESSOR);
    assert_string_equal(f.notice, "");
    assert_string_equal(f.p.edges, "both");
    assert_string_equal(f.p.interpolation, "bicubic");
    assert_int_equal(f.p.resize, 24);
    assert_int_equal(f.p.crop, 24);
    assert_near(f.p.mean[1], 0.5, 0);
    tower_close(lab);
}

TEST(the_file_of_a_processor_of_images_and_text_has_a_part_for_images)
{
    tower_lab *lab =
        lab_of("hf-clip", "processor_config.json",
               "{\"image_processor\": {\"size\": 30, \"crop_size\": 24}, \"tokenizer\": {}}");
    found f = find(lab, NULL);
    assert_string_equal(f.origin, "processor_config.json");
    assert_int_equal(f.p.resize, 30);
    lab->text = "{\"processor_class\": \"CLIPProcessor\"}";
    f = find(lab, NULL);
    assert_string_equal(f.origin, "");
    tower_close(lab);
}

TEST(another_size_than_the_network_takes_is_scaled_and_told)
{
    tower_lab *lab = lab_of("hf-clip", PROCESSOR, "{\"size\": 256}");
    const found f = find(lab, NULL);
    assert_int_equal(f.p.resize, 27); /* 24 * 256 / 224 = 27.4 */
    assert_int_equal(f.p.crop, 24);
    assert_string_equal(f.p.edges, "shorter");
    assert_non_null(strstr(f.notice, "is for images of 224 pixels, but the network takes 24"));
    tower_close(lab);
}

/* The notice names the size that the preparation has, which is the network's, not the preset's. */
TEST(nothing_said_is_told_with_what_is_assumed)
{
    char crop[64];
    static const struct {
        const char *golden, *preset;
    } cases[] = {{"timm-vit", "vit"},
                 {"torchvision-vit", "imagenet"},
                 {"hf-vit", "vit-square"},
                 {"open-clip", "clip"},
                 {"hf-clip-vision", "clip"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tower_lab *lab = lab_of(cases[i].golden, NULL, NULL);
        const found f = find(lab, HEADS_OF_16);
        assert_string_equal(f.preset, cases[i].preset);
        assert_string_equal(f.origin, "");
        assert_non_null(strstr(f.notice, "assumed is the preset"));
        assert_non_null(strstr(f.notice, cases[i].preset));
        snprintf(crop, sizeof crop, " to %lld, %s, crop %lld,", (long long)f.p.resize,
                 f.p.interpolation, (long long)f.p.crop);
        assert_non_null(strstr(f.notice, crop));
        assert_int_equal(f.p.crop, 24);
        tower_close(lab);
    }
}

TEST(timm_goes_before_another_file)
{
    tower_lab *lab = lab_of("timm-vit-hub", PROCESSOR, "{\"size\": 24}");
    found f = find(lab, NULL);
    assert_string_equal(f.origin, "config.json");
    assert_string_equal(f.p.interpolation, "bicubic");
    assert_int_equal(f.p.resize, 27); /* 24 / 0.875 */
    json_object_del(lab->config, "pretrained_cfg");
    f = find(lab, NULL);
    assert_string_equal(f.origin, PROCESSOR);
    tower_close(lab);
}

TEST(what_cannot_be_followed_is_an_error_without_a_preset)
{
    static const char *const texts[] = {"{\"size\": 0}", "[]", "{\"size\": NaN}", "{\"size\": 24"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        tower_lab *lab = lab_of("hf-vit", PROCESSOR, texts[i]);
        grail_model_facts facts = {0};
        grail_preprocessing p;
        grail_images *images = NULL;
        grail_image_source source = {.path = lab->directory};
        grail_model *m = tower_model(lab, NULL);
        assert_ok(grail_model_describe(m, &facts));
        assert_null(facts.preset);
        assert_fails(grail_model_preprocessing(m, &p), GRAIL_ERROR_FORMAT, PROCESSOR);
        assert_fails(grail_images_open(m, &source, &images), GRAIL_ERROR_FORMAT,
                     "name the preset by which images are prepared");
        source.preset = "vit";
        assert_fails(grail_images_open(m, &source, &images), GRAIL_ERROR_FORMAT, "image");
        grail_model_close(m);
        tower_close(lab);
    }
}

TEST(a_weights_file_that_is_one_of_several_has_no_files_beside_it)
{
    char path[1200];
    grail_model *m = NULL;
    grail_preprocessing p;
    tower_lab *lab = lab_of("timm-vit", PROCESSOR, "{\"size\": 24}");
    const char *const setting = HEADS_OF_16;
    const grail_model_options options = {.settings = &setting, .setting_count = 1};
    lab->weights = "a.safetensors";
    grail_model_close(tower_model(lab, HEADS_OF_16));
    snprintf(path, sizeof path, "%s/a.safetensors", lab->path);
    assert_ok(grail_model_open_with(path, &options, &m));
    assert_ok(grail_model_preprocessing(m, &p));
    assert_string_equal(p.origin, PROCESSOR);
    grail_model_close(m);
    support_write_file(lab->path, "b.safetensors", "x", 1);
    assert_ok(grail_model_open_with(path, &options, &m));
    assert_ok(grail_model_preprocessing(m, &p));
    assert_null(p.origin);
    grail_model_close(m);
    tower_close(lab);
}

TEST(open_clip_tells_its_activation_in_its_file)
{
    static const struct {
        const char *beside, *text, *activation;
        bool doubted;
    } cases[] = {
        {NULL, NULL, "gelu", true},
        {CLIP_CONFIG, "{\"preprocess_cfg\": {}}", "gelu", true},
        {CLIP_CONFIG, "{\"model_cfg\": {}}", "gelu", false},
        {CLIP_CONFIG, "{\"model_cfg\": {\"quick_gelu\": true}}", "quick_gelu", false},
        {CLIP_CONFIG, "{\"model_cfg\": {\"quick_gelu\": false}}", "gelu", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tower_lab *lab = lab_of("open-clip", cases[i].beside, cases[i].text);
        const found f = find(lab, HEADS_OF_16);
        assert_string_equal(f.activation, cases[i].activation);
        assert_int_equal(f.doubt[0] != 0, cases[i].doubted);
        assert_string_equal(f.origin, cases[i].beside == NULL ? "" : cases[i].beside);
        tower_close(lab);
    }
    tower_lab *lab = lab_of("open-clip", CLIP_CONFIG, "{\"model_cfg\": {\"quick_gelu\": 1}}");
    tower_refuses(lab, HEADS_OF_16, GRAIL_ERROR_FORMAT, "\"quick_gelu\" is not");
    tower_close(lab);
}

TEST(names_of_quick_gelu_are_heeded_and_told)
{
    static const struct {
        const char *weights;
        bool quick;
    } cases[] = {{"ViT-B-32-quickgelu-laion400m.safetensors", true},
                 {"vit_b_32-QuickGELU.safetensors", true},
                 {"vit_base_patch32_clip_224.openai.safetensors", true},
                 {"myopenaiish.safetensors", false},
                 {"open_clip_model.safetensors", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tower_lab *lab = lab_of("open-clip", NULL, NULL);
        lab->weights = cases[i].weights;
        const found f = find(lab, HEADS_OF_16);
        assert_string_equal(f.activation, cases[i].quick ? "quick_gelu" : "gelu");
        assert_non_null(strstr(f.doubt, cases[i].quick ? "taken from the name" : "is assumed"));
        tower_close(lab);
    }
}

TEST(a_setting_ends_the_doubt)
{
    tower_lab *lab = lab_of("open-clip", CLIP_CONFIG, "{\"preprocess_cfg\": {}}");
    lab->config = json_pack("{s:s, s:i}", "architecture", "x", "head_dim", 16);
    const found f = find(lab, "activation=quick_gelu");
    assert_string_equal(f.activation, "quick_gelu");
    assert_string_equal(f.doubt, "");
    tower_close(lab);
}

static json_t *timm_config(const char *class, const char *arguments)
{
    json_t *config = json_pack("{s:s}", "architecture", class);
    json_t *made = NULL;
    assert_ok(json_parse("arguments", arguments, strlen(arguments), &made));
    assert_ok(json_put(config, "model_args", made));
    return config;
}

TEST(timm_tells_heads_activation_and_epsilon)
{
    static const struct {
        const char *class, *arguments;
        int64_t head_dim;
        activation_kind activation;
        double epsilon;
    } cases[] = {
        {"vit_tiny_patch16_224", "{\"num_heads\": 2}", 16, ACTIVATION_GELU, 1e-6},
        {"vit_base_patch32_clip_quickgelu_224", "{\"num_heads\": 4}", 8, ACTIVATION_QUICK_GELU,
         1e-5},
        {"vit_base_patch32_clip_224", "{\"num_heads\": 1, \"act_layer\": \"gelu_tanh\"}", 32,
         ACTIVATION_GELU_TANH, 1e-5},
        {"test_vit", "{}", 16, ACTIVATION_GELU, 1e-6},
        {"vit_huge_patch14_224", "{}", 2, ACTIVATION_GELU, 1e-6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tower_lab *lab = lab_of("timm-vit", NULL, NULL);
        lab->config = timm_config(cases[i].class, cases[i].arguments);
        grail_model *m = tower_model(lab, NULL);
        assert_int_equal(tower_node(m, NODE_ATTENTION)->attention.head_dim, cases[i].head_dim);
        assert_int_equal(tower_node(m, NODE_ACTIVATION)->activation, cases[i].activation);
        assert_near(tower_node(m, NODE_LAYER_NORM)->norm.epsilon, cases[i].epsilon, 1e-12);
        grail_model_close(m);
        tower_close(lab);
    }
}

TEST(what_timm_says_and_grail_lacks_is_refused)
{
    static const struct {
        const char *arguments;
        grail_status code;
        const char *text;
    } cases[] = {{"[]", GRAIL_ERROR_FORMAT, "\"model_args\" is not an object"},
                 {"{\"num_heads\": \"2\"}", GRAIL_ERROR_FORMAT, "\"num_heads\" is not an integer"},
                 {"{\"num_heads\": -2}", GRAIL_ERROR_FORMAT, "\"num_heads\" is -2"},
                 {"{\"num_heads\": 2, \"act_layer\": \"elu\"}", GRAIL_ERROR_UNSUPPORTED, "\"elu\""},
                 {"{\"num_heads\": 2, \"global_pool\": \"avg\"}", GRAIL_ERROR_UNSUPPORTED,
                  "\"global_pool\" is \"avg\""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tower_lab *lab = lab_of("timm-vit", NULL, NULL);
        lab->config = timm_config("vit_tiny_patch16_224", cases[i].arguments);
        tower_refuses(lab, NULL, cases[i].code, cases[i].text);
        tower_close(lab);
    }
}

TEST(timm_gets_the_ratio_of_the_narrowed_width)
{
    loader_verdict verdicts[LOADER_COUNT];
    tower_lab *lab = lab_of("timm-vit", NULL, NULL);
    lab->config = timm_config("vit_tiny_patch16_224", "{\"num_heads\": 2, \"depth\": 2}");
    grail_model *m = tower_model(lab, NULL);
    assert_ok(m->architecture->describe_narrowed(m->architecture, m->graph, m->config));
    const json_t *arguments = json_object_get(m->config, "model_args");
    assert_near(json_real_value(json_object_get(arguments, "mlp_ratio")), 1.5, 0);
    assert_int_equal(json_integer_value(json_object_get(arguments, "depth")), 2);
    assert_ok(
        m->architecture->judge_loaders(m->architecture, m->config, m->graph, m->graph, verdicts));
    assert_true(verdicts[0].loads);
    assert_non_null(strstr(verdicts[0].reason, "create_model('local-dir:OUTPUT'"));
    json_object_del(m->config, "model_args"); /* classes whose defaults it had */
    assert_ok(m->architecture->describe_narrowed(m->architecture, m->graph, m->config));
    assert_non_null(json_object_get(json_object_get(m->config, "model_args"), "mlp_ratio"));
    grail_model_close(m);
    tower_close(lab);
}

TEST(every_failing_allocation_is_survived)
{
    static const struct {
        const char *golden, *beside, *text;
    } cases[] = {{"hf-vit", PROCESSOR, "{\"size\": 24}"},
                 {"hf-vit", PROCESSOR, "{\"size\": 0}"},
                 {"timm-vit-hub", NULL, NULL},
                 {"open-clip", CLIP_CONFIG, "{\"model_cfg\": {\"quick_gelu\": true}}"},
                 {"open-clip", PROCESSOR, "{}"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tower_lab *lab = lab_of(cases[i].golden, cases[i].beside, cases[i].text);
        grail_model_close(tower_model(lab, HEADS_OF_16));
        support_fail_each_allocation(tower_open_once, lab->path);
        tower_close(lab);
    }
}

CMFixtureFunction support_setup = json_memory_use;
