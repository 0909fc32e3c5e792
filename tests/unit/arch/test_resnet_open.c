/* What goes with a residual network's tensors: configuration, settings, and the stock classes that
 * load a narrowed one. */
#include "network_fixture.h"
#include "support/json_memory.h"

#include <stdio.h>
#include <string.h>

/* -- configuration ---------------------------------------------------------------------------- */

TEST(settings_fill_in_what_the_tensors_do_not_say)
{
    static const char *const settings[] = {"preset=cifar", "downsample_in_bottleneck=true",
                                           "hidden_act=silu"};
    const lab_resnet r = lab_resnet50();
    OWNED(network_fixture) *f = network_setup(&r);
    OWNED(grail_model) *m = network_open_with(f, settings, 3);
    grail_model_facts facts;
    assert_ok(grail_model_describe(m, &facts));
    assert_string_equal(facts.preset, "cifar");
    assert_int_equal(network_reader(m->graph, "layer2.0.conv1.weight")->window.height.stride, 2);
    assert_int_equal(network_reader(m->graph, "layer2.0.conv2.weight")->window.height.stride, 1);
    assert_int_equal(m->graph->nodes[2].activation, ACTIVATION_SILU);
}

TEST(a_setting_that_is_not_one_is_refused)
{
    static const struct {
        const char *setting, *text;
    } bad[] = {{"head_dim=64",
                "a resnet network has no setting 'head_dim'; known settings: hidden_act, "
                "downsample_in_first_stage, downsample_in_bottleneck, preset"},
               {"preset", "setting 'preset' is not of the form key=value"},
               {"=1", "setting '=1' is not of the form key=value"},
               {"preset=\xff", "is not UTF-8 text"}};
    const lab_resnet r = lab_akamaster(1);
    OWNED(network_fixture) *f = network_setup(&r);
    lab_network_write(&f->n, f->directory, false);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        grail_model *m = NULL;
        const grail_model_options options = {.settings = &bad[i].setting, .setting_count = 1};
        assert_fails(grail_model_open_with(f->directory, &options, &m), GRAIL_ERROR_ARGUMENT,
                     bad[i].text);
        assert_null(m);
    }
    const char *wrong = "downsample_in_bottleneck=maybe";
    const grail_model_options options = {.settings = &wrong, .setting_count = 1};
    grail_model *m = NULL;
    assert_fails(grail_model_open_with(f->directory, &options, &m), GRAIL_ERROR_FORMAT,
                 "\"downsample_in_bottleneck\" is not");
}

static const char *preset_of(const network_fixture *f)
{
    static char text[64];
    OWNED(grail_model) *m = network_open(f);
    grail_model_facts facts;
    assert_ok(grail_model_describe(m, &facts));
    snprintf(text, sizeof text, "%s", facts.preset);
    return text;
}

TEST(what_an_earlier_run_wrote_stands_for_the_configuration)
{
    const lab_resnet r = lab_akamaster(1);
    OWNED(network_fixture) *f = network_setup(&r);
    assert_string_equal(preset_of(f), "cifar-imagenet");
    network_write_config(f, "grail.json", "{\"model_type\": \"resnet\", \"preset\": \"clip\"}");
    assert_string_equal(preset_of(f), "clip");
    network_write_config(f, "config.json", "{\"model_type\": \"resnet\"}");
    assert_string_equal(preset_of(f), "imagenet");
    network_write_config(f, "config.json", "{\"model_type\": \"resnext\"}");
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "unknown model_type \"resnext\"; expected one of");
}

TEST(filters_that_no_tensor_shows_are_refused_by_name)
{
    static const char *const refused[] = {
        "{\"architecture\": \"resnetblur50\"}", "{\"architecture\": \"resnetaa50d\"}",
        "{\"architecture\": \"resnet50\", \"model_args\": {\"aa_layer\": \"avg\"}}"};
    const lab_resnet r = lab_akamaster(1);
    network_fixture *f = network_setup(&r);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        network_write_config(f, "config.json", refused[i]);
        assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED, "(anti-aliasing)");
    }
    network_write_config(f, "config.json",
                         "{\"architecture\": \"resnet20\", \"model_args\": {\"aa_layer\": null}}");
    assert_ok(network_try(f));
    network_teardown(f);
}

TEST(a_weights_file_is_opened_with_the_configuration_beside_it)
{
    const lab_resnet r = lab_akamaster(1);
    OWNED(network_fixture) *f = network_setup(&r);
    char path[1024];
    grail_model_facts facts;
    network_write_config(f, "grail.json", "{\"model_type\": \"resnet\", \"preset\": \"clip\"}");
    lab_network_write(&f->n, f->directory, false);
    snprintf(path, sizeof path, "%s/model.safetensors", f->directory);
    OPENED(grail_model, m, grail_model_open(path, &m));
    assert_ok(grail_model_describe(m, &facts));
    assert_string_equal(facts.directory, path);
    assert_string_equal(facts.preset, "clip");
}

TEST(a_weights_file_that_fits_nothing_names_what_comes_nearest)
{
    const lab_resnet r = lab_akamaster(1);
    OWNED(network_fixture) *f = network_setup(&r);
    char path[1024];
    grail_model *m = NULL;
    lab_network_remove(&f->n, "linear.weight");
    lab_network_write(&f->n, f->directory, false);
    snprintf(path, sizeof path, "%s/model.safetensors", f->directory);
    assert_fails(grail_model_open(path, &m), GRAIL_ERROR_UNSUPPORTED,
                 "model.safetensors: its tensors fit no known family; the nearest is resnet, but "
                 "its tensor");
}

TEST(prefixes_of_torchs_wrappers_do_not_matter)
{
    const lab_resnet r = lab_akamaster(1);
    OWNED(network_fixture) *f = network_setup(&r);
    lab_network_put_behind(&f->n, 0, "module.");
    assert_string_equal(preset_of(f), "cifar-imagenet");
    lab_network_add(&f->n, "module.linear2.bias", 1, (const int64_t[]){3});
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "tensor 'module.linear2.bias' is not part of the resnet network");
}

TEST(timms_configuration_leaves_the_family_to_the_tensors)
{
    const lab_resnet r = lab_akamaster(1);
    OWNED(network_fixture) *f = network_setup(&r);
    network_write_config(f, "config.json", "{\"architecture\": \"resnet20\", \"num_classes\": 10}");
    assert_string_equal(preset_of(f), "cifar-imagenet");
    network_write_config(f, "config.json",
                         "{\"architecture\": \"resnet20\", \"preset\": \"clip\"}");
    assert_string_equal(preset_of(f), "clip");
    network_write_config(f, "config.json", "{\"num_classes\": 10}");
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "unknown model_type \"(missing)\"; expected one of");
}

/* -- narrowed networks described -------------------------------------------------------------- */

static loader_verdict verdict_of(const network_fixture *f)
{
    OWNED(grail_model) *m = network_open(f);
    loader_verdict verdicts[LOADER_COUNT];
    assert_ok(
        m->architecture->judge_loaders(m->architecture, m->config, m->graph, m->graph, verdicts));
    assert_string_equal(verdicts[1].loader, "ONNX Runtime");
    assert_true(verdicts[1].loads);
    judge_weights_file(m->checkpoint, verdicts);
    assert_string_equal(verdicts[2].loader, "safetensors");
    assert_true(verdicts[2].loads);
    return verdicts[0];
}

static loader_verdict class_verdict(const lab_resnet *r)
{
    OWNED(network_fixture) *f = network_setup(r);
    const loader_verdict v = verdict_of(f);
    return v;
}

/* 50 layers and one more in the third stage, so that no function of a library builds it. */
static lab_resnet lab_resnet53(void)
{
    lab_resnet r = lab_resnet50();
    r.blocks[2]++;
    return r;
}

/* The file for timm's adapt_model_from_string; "" for none. Owned. */
static buffer widths_of(const lab_resnet *r, const char *config)
{
    const char *name = NULL;
    buffer text;
    OWNED(network_fixture) *f = network_setup(r);
    if (config != NULL) {
        network_write_config(f, "config.json", config);
    }
    OWNED(grail_model) *m = network_open(f);
    buffer_init(&text, 1 << 20);
    assert_ok(m->architecture->loader_file(m->architecture, m->config, m->graph, &name, &text));
    assert_int_equal(name != NULL, text.size > 0);
    assert_true(name == NULL || strcmp(name, "timm-widths.txt") == 0);
    return text;
}

TEST(timm_is_told_widths_that_no_class_has)
{
    lab_resnet r = lab_resnet50();
    buffer text = widths_of(&r, NULL);
    assert_int_equal(text.size, 0); /* the class has them */
    r.inner[3] = 100;
    r.stem = 60;
    r.out[1] = 508;
    r.classes = 7;
    loader_verdict v = class_verdict(&r);
    assert_true(v.loads);
    assert_non_null(strstr(v.reason, "adapt_model_from_string and timm-widths.txt"));
    assert_non_null(strstr(
        v.lines, "\nimport timm\nmodel = timm.models.adapt_model_from_string(timm.create_model"
                 "(\"resnet50\", num_classes=7), open(\"DIR/timm-widths.txt\").read())\n"));
    text = widths_of(&r, NULL);
    assert_ptr_equal(strstr((char *)text.bytes, "conv1.weight:[60, 3, 7, 7]***bn1.weight:[60]***"),
                     (char *)text.bytes);
    assert_non_null(strstr((char *)text.bytes, "***layer4.1.conv2.weight:[100, 100, 3, 3]***"));
    assert_non_null(strstr((char *)text.bytes, "***fc.weight:[7, 2048]"));
    assert_null(strstr((char *)text.bytes, "bias"));
    buffer_fini(&text);
    r = lab_resnet18();
    r.stem = r.out[0] = r.inner[0] = 32;
    v = class_verdict(&r);
    assert_non_null(strstr(v.lines, "(timm.create_model(\"resnet18\"), open"));
}

TEST(but_only_of_networks_that_it_builds)
{
    lab_resnet r = lab_resnet53();
    r.inner[3] = 100;
    assert_false(class_verdict(&r).loads);
    buffer text = widths_of(&r, NULL);
    assert_int_equal(text.size, 0);
    r = lab_resnet50();
    r.inner[3] = 100;
    text = widths_of(&r, "{\"model_type\": \"resnet\", \"downsample_in_bottleneck\": true}");
    assert_int_equal(text.size, 0);
    text = widths_of(&r, "{\"model_type\": \"resnet\", \"hidden_act\": \"gelu\"}");
    assert_int_equal(text.size, 0);
    r = lab_cifar_resnet18(); /* another stem */
    r.inner[1] = 100;
    text = widths_of(&r, NULL);
    assert_int_equal(text.size, 0);
}

TEST(stock_classes_load_only_their_own_widths)
{
    lab_resnet r = lab_resnet50();
    assert_string_equal(class_verdict(&r).loader, "torchvision, timm");
    assert_true(class_verdict(&r).loads);
    r = lab_resnet53();
    assert_true(class_verdict(&r).loads);
    r.inner[3] = 100;
    assert_false(class_verdict(&r).loads);
    assert_non_null(strstr(class_verdict(&r).reason, "double from stage to stage"));
    r = lab_resnet53();
    r.stem = 60;
    assert_false(class_verdict(&r).loads);
    r = lab_resnet53();
    r.out[1] = 508;
    assert_false(class_verdict(&r).loads);
    r = lab_akamaster(2);
    assert_string_equal(class_verdict(&r).loader, "its own class");
    assert_true(class_verdict(&r).loads);
    r.inner[0] = 15;
    assert_false(class_verdict(&r).loads);
    r = lab_pre_activation(12); /* model_width */
    assert_true(class_verdict(&r).loads);
}

/* torchvision: width_per_group, timm: base_width. */
TEST(bottlenecks_of_doubling_widths_name_the_call_that_builds_them)
{
    lab_resnet r = lab_resnet50();
    for (int s = 0; s < 4; s++) {
        r.inner[s] = 48LL << s;
    }
    assert_true(class_verdict(&r).loads);
    assert_non_null(strstr(class_verdict(&r).reason, "width_per_group"));
    assert_non_null(strstr(class_verdict(&r).reason, "48"));
    const loader_verdict v = class_verdict(&r);
    assert_ptr_equal(strstr(v.lines, "import safetensors.torch\ntensors = "), v.lines);
    assert_non_null(strstr(v.lines, "\nmodel = torchvision.models.resnet50(width_per_group=48"));
    assert_non_null(strstr(v.lines, "\nmodel.load_state_dict(tensors)\n"));
    assert_null(strstr(v.lines, "re.sub"));
    r = lab_resnet53();
    r.inner[2] = 200;
    assert_false(class_verdict(&r).loads);
    assert_string_equal(class_verdict(&r).lines, "");
    assert_non_null(
        strstr(class_verdict(&r).reason, "double from stage to stage (width_per_group"));
    r.out[1] = 508; /* a cut residual stream has no class at all */
    assert_false(class_verdict(&r).loads);
    assert_null(strstr(class_verdict(&r).reason, "double"));
}

/* Each group loses as many channels, so the class has an argument for it; timm's file of widths
 * has no groups. */
TEST(a_resnext_is_built_with_its_groups)
{
    lab_resnet r = lab_resnet50();
    r.groups = 32;
    for (int width = 4; width >= 3; width--) {
        char call[96];
        for (int s = 0; s < 4; s++) {
            r.inner[s] = 32LL * width << s;
        }
        const loader_verdict v = class_verdict(&r);
        assert_true(v.loads);
        snprintf(call, sizeof call, "torchvision.models.resnet50(groups=32, width_per_group=%d",
                 width);
        assert_non_null(strstr(v.lines, call));
        snprintf(call, sizeof call, "timm.create_model('resnet50', cardinality=32, base_width=%d",
                 width);
        assert_non_null(strstr(v.reason, call));
    }
    r.inner[2] = 416;
    assert_false(class_verdict(&r).loads);
    OWNED(buffer) text = widths_of(&r, NULL);
    assert_int_equal(text.size, 0);
}

/* A site of each side of the groups, which all keep as many. */
TEST(a_resnext_has_sites_through_its_groups)
{
    lab_resnet r = lab_resnet50();
    int grouped = 0;
    r.groups = 32;
    for (int s = 0; s < 4; s++) {
        r.inner[s] = 128LL << s;
    }
    OWNED(network_fixture) *f = network_setup(&r);
    OWNED(grail_model) *m = network_open(f);
    OPENED(grail_site_list, sites, grail_model_sites(m, GRAIL_GQA_KV_GROUPS, &sites));
    for (int i = 0; i < sites->list.count; i++) {
        grouped += sites->list.sites[i].groups == 32 ? 1 : 0;
    }
    assert_int_equal(grouped, 2 * (3 + 4 + 6 + 3));
}

/* The function that config.json names gets the width as an argument, beside what it gets already.
 */
TEST(timms_directory_says_the_width_of_bottlenecks)
{
    lab_resnet r = lab_resnet50();
    for (int s = 0; s < 4; s++) {
        r.inner[s] = 48LL << s;
    }
    for (int fits = 0; fits < 2; fits++) {
        r.inner[2] = fits ? 192 : 196;
        OWNED(network_fixture) *f = network_setup(&r);
        network_write_config(f, "config.json",
                             "{\"architecture\": \"resnet50\", \"model_args\": {\"in_chans\": 3}}");
        OWNED(grail_model) *m = network_open(f);
        loader_verdict verdicts[LOADER_COUNT];
        assert_ok(m->architecture->describe_narrowed(m->architecture, m->graph, m->config));
        const json_t *arguments = json_object_get(m->config, "model_args");
        assert_int_equal(json_integer_value(json_object_get(arguments, "base_width")),
                         fits ? 48 : 0);
        assert_int_equal(json_integer_value(json_object_get(arguments, "in_chans")), 3);
        assert_ok(m->architecture->judge_loaders(m->architecture, m->config, m->graph, m->graph,
                                                 verdicts));
        assert_true(verdicts[0].loads);
        assert_int_equal(strstr(verdicts[0].reason, "adapt_model_from_string") != NULL, !fits);
        assert_int_equal(strstr(verdicts[0].lines, "timm.create_model(\"local-dir:DIR\"") != NULL,
                         fits);
    }
}

TEST(hugging_face_loads_equal_widths_in_a_stage)
{
    lab_resnet r = lab_hugging_face(false);
    assert_string_equal(class_verdict(&r).loader, "transformers");
    assert_true(class_verdict(&r).loads);
    r.inner[1] = 19;
    assert_false(class_verdict(&r).loads);
    r = lab_hugging_face(true);
    assert_true(class_verdict(&r).loads);
    r.inner[1] = 6;
    assert_false(class_verdict(&r).loads);
}

/* Where its class sees no reason for a projection, it builds none. */
TEST(hugging_face_loads_no_projection_between_equal_widths)
{
    const int64_t width = 12;
    lab_resnet r = lab_hugging_face(true);
    char name[LAB_NETWORK_NAME];
    r.stem = width;
    OWNED(network_fixture) *f = network_setup(&r);
    assert_true(verdict_of(f).loads);
    lab_network_add(&f->n, "resnet.encoder.stages.0.layers.0.shortcut.convolution.weight", 4,
                    (const int64_t[]){width, width, 1, 1});
    static const char *const suffixes[] = {"weight", "bias", "running_mean", "running_var"};
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "resnet.encoder.stages.0.layers.0.shortcut.normalization.%s",
                 suffixes[i]);
        lab_network_add(&f->n, name, 1, &width);
    }
    assert_false(verdict_of(f).loads);
}

TEST(hugging_faces_configuration_is_given_the_new_widths)
{
    lab_resnet r = lab_hugging_face(false);
    OWNED(network_fixture) *f = network_setup(&r);
    OWNED(grail_model) *m = network_open(f);
    assert_ok(m->architecture->describe_narrowed(m->architecture, m->graph, m->config));
    const json_t *sizes = json_object_get(m->config, "hidden_sizes");
    assert_int_equal(json_array_size(sizes), 3);
    assert_int_equal(json_integer_value(json_array_get(sizes, 1)), 20);
    assert_int_equal(json_integer_value(json_object_get(m->config, "embedding_size")), 8);
}

/* -- allocation failure ----------------------------------------------------------------------- */

static grail_status open_and_describe(void *context)
{
    static const char *const settings[] = {"preset=cifar"};
    const grail_model_options options = {.settings = settings, .setting_count = 1};
    const network_fixture *f = context;
    OWNED(grail_model) *m = NULL;
    grail_model_facts facts;
    CHECK(grail_model_open_with(f->directory, &options, &m));
    CHECK(grail_model_describe(m, &facts));
    return m->architecture->describe_narrowed(m->architecture, m->graph, m->config);
}

TEST(every_failing_allocation_is_survived)
{
    const lab_resnet networks[] = {lab_akamaster(1), lab_hugging_face(true)};
    for (int i = 0; i < 2; i++) {
        OWNED(network_fixture) *f = network_setup(&networks[i]);
        lab_network_write(&f->n, f->directory, false);
        support_fail_each_allocation(open_and_describe, f);
    }
}

CMFixtureFunction support_setup = json_memory_use;
