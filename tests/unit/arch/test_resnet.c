/* Residual networks recognised from their tensors, and the graphs that are built of them. */
#include "network_fixture.h"

#include "arch/resnet.h"
#include "support/json_memory.h"

#include <stdio.h>
#include <string.h>

/* The preset is copied: it is borrowed from the model. */
static grail_model_facts facts_of(const lab_resnet *r)
{
    static char preset[64];
    OWNED(network_fixture) *f = network_setup(r);
    OWNED(grail_model) *m = network_open(f);
    grail_model_facts facts;
    assert_ok(grail_model_describe(m, &facts));
    snprintf(preset, sizeof preset, "%s", facts.preset);
    facts.preset = preset;
    return facts;
}

static int count_nodes(const graph *g, node_kind kind)
{
    int count = 0;
    for (int n = 0; n < g->node_count; n++) {
        count += g->nodes[n].kind == kind ? 1 : 0;
    }
    return count;
}

static const node *maker_of(const graph *g, int value)
{
    assert_true(g->value_source[value] != GRAPH_NONE);
    return &g->nodes[g->value_source[value]];
}

/* Positions of the value that reaches the mean, for images of `side`. */
static extent last_positions(const graph *g, int64_t side)
{
    extent *extents = NULL;
    extent found = {0};
    assert_ok(memory_new(&extents, (size_t)g->value_count, sizeof extents[0]));
    assert_ok(graph_extents(g, (extent){side, side}, extents));
    for (int n = 0; n < g->node_count; n++) {
        if (g->nodes[n].kind == NODE_MEAN) {
            found = extents[g->nodes[n].inputs[0]];
        }
    }
    memory_free(extents);
    return found;
}

/* -- what published networks cost ------------------------------------------------------------- */

static void costs_are_those_of_torchvisions_resnet18(void **state)
{
    (void)state;
    const lab_resnet r = lab_resnet18();
    const grail_model_facts facts = facts_of(&r);
    assert_string_equal(facts.architecture, "resnet");
    assert_int_equal(facts.parameters, 11689512 + 2 * 4800);      /* and running statistics */
    assert_int_equal(facts.bytes, 4 * facts.parameters + 20 * 8); /* and counters of batches */
    assert_int_equal(facts.macs_per_token, 1814073344);
    assert_int_equal(facts.kv_bytes_per_token, 0);
    assert_int_equal(facts.blocks, 8);
    assert_int_equal(facts.vocabulary, 0);
    assert_int_equal(facts.context, 0);
    assert_int_equal(facts.reads_images, 1);
    assert_int_equal(facts.image_side, 224);
    assert_string_equal(facts.preset, "imagenet");
    assert_int_equal(facts.classes, 1000);
}

static void bottlenecks_carry_their_stride_in_the_middle(void **state)
{
    (void)state;
    const lab_resnet r = lab_resnet50();
    const grail_model_facts facts = facts_of(&r);
    assert_int_equal(facts.parameters, 25557032 + 2 * 26560);
    assert_int_equal(facts.macs_per_token, 4089184256); /* 3858 million with it in the first */
    assert_int_equal(facts.blocks, 16);
}

static void cifar_networks_are_told_by_their_names(void **state)
{
    (void)state;
    lab_resnet r = lab_akamaster(3);
    grail_model_facts facts = facts_of(&r);
    assert_int_equal(facts.parameters, 269722 + 2 * 688);
    assert_int_equal(facts.macs_per_token, 40551040);
    assert_int_equal(facts.image_side, 32);
    assert_string_equal(facts.preset, "cifar-imagenet");
    assert_int_equal(facts.classes, 10);
    r.pads = false;
    facts = facts_of(&r);
    assert_string_equal(facts.preset, "cifar");
    r = lab_cifar_resnet18();
    facts = facts_of(&r);
    assert_int_equal(facts.parameters, 11173962 + 2 * 4800);
    assert_string_equal(facts.preset, "cifar");
    r = lab_pre_activation(64);
    facts = facts_of(&r);
    assert_int_equal(facts.parameters, 11172170 + 2 * 3904);
    assert_string_equal(facts.preset, "cifar-plain");
}

/* -- the graph -------------------------------------------------------------------------------- */

static void stems_are_told_by_their_kernel(void **state)
{
    (void)state;
    lab_resnet r = lab_resnet18();
    OWNED(network_fixture) *f = network_setup(&r);
    grail_model *m = network_open(f);
    const node *stem = network_reader(m->graph, "conv1.weight");
    assert_int_equal(m->graph->input_kind, INPUT_IMAGES);
    assert_int_equal(m->graph->image.height, 0);
    assert_int_equal(stem->block, GRAPH_NONE);
    assert_int_equal(stem->window.height.stride, 2);
    assert_int_equal(stem->window.height.before, 3);
    assert_int_equal(count_nodes(m->graph, NODE_MAX_POOL), 1);
    assert_int_equal(last_positions(m->graph, 224).height, 7);
    grail_model_close(m);
    r.stem_kernel = 3;
    lab_network_init(&f->n, &r);
    m = network_open(f);
    stem = network_reader(m->graph, "conv1.weight");
    assert_int_equal(stem->window.height.stride, 1);
    assert_int_equal(stem->window.height.before, 1);
    assert_int_equal(count_nodes(m->graph, NODE_MAX_POOL), 0);
    assert_int_equal(last_positions(m->graph, 32).height, 4);
    grail_model_close(m);
}

static void shortcuts_without_tensors_pad_channels_on_both_sides(void **state)
{
    (void)state;
    const lab_resnet r = lab_akamaster(5);
    OWNED(network_fixture) *f = network_setup(&r);
    OWNED(grail_model) *m = network_open(f);
    const graph *g = m->graph;
    int64_t pad = 8;
    assert_int_equal(count_nodes(g, NODE_SHORTCUT), 2);
    assert_int_equal(count_nodes(g, NODE_ADD), 15);
    for (int n = 0; n < g->node_count; n++) {
        if (g->nodes[n].kind == NODE_SHORTCUT) {
            assert_int_equal(g->nodes[n].block, pad == 8 ? 5 : 10);
            assert_int_equal(g->nodes[n].window.height.stride, 2);
            assert_int_equal(g->nodes[n].pad, pad);
            pad *= 2;
        }
    }
    assert_int_equal(last_positions(g, 32).height, 8);
}

static void a_block_ends_with_the_activation_of_its_sum(void **state)
{
    (void)state;
    const lab_resnet r = lab_cifar_resnet18();
    OWNED(network_fixture) *f = network_setup(&r);
    OWNED(grail_model) *m = network_open(f);
    const graph *g = m->graph;
    const node *projection = network_reader(g, "layer2.0.downsample.0.weight");
    const node *first = network_reader(g, "layer2.0.conv1.weight");
    const node *last = network_reader(g, "layer2.0.bn2.weight");
    assert_int_equal(projection->inputs[0], first->inputs[0]);
    assert_int_equal(projection->window.height.stride, 2);
    assert_int_equal(projection->window.height.before, 0);
    assert_int_equal(first->window.height.stride, 2);
    assert_true(last->norm.epsilon == 1e-5);
    const node *sum = &g->nodes[g->last_use[last->output]];
    assert_int_equal(sum->kind, NODE_ADD);
    assert_int_equal(maker_of(g, sum->inputs[0])->kind, NODE_BATCH_NORM);
    const node *end = &g->nodes[g->last_use[sum->output]];
    assert_int_equal(end->kind, NODE_ACTIVATION);
    assert_int_equal(end->activation, ACTIVATION_RELU);
    assert_int_equal(end->block, 2);
    assert_int_equal(network_reader(g, "layer2.1.conv1.weight")->inputs[0], end->output);
    assert_int_equal(network_reader(g, "fc.weight")->block, g->block_count);
}

static void pre_activation_projects_what_it_activated(void **state)
{
    (void)state;
    const lab_resnet r = lab_pre_activation(16);
    OWNED(network_fixture) *f = network_setup(&r);
    OWNED(grail_model) *m = network_open(f);
    const graph *g = m->graph;
    const node *norm = network_reader(g, "layer2.0.bn1.weight");
    const node *conv = network_reader(g, "layer2.0.conv1.weight");
    const node *projection = network_reader(g, "layer2.0.shortcut.0.weight");
    assert_int_equal(maker_of(g, norm->inputs[0])->kind, NODE_ADD);
    assert_int_equal(projection->inputs[0], conv->inputs[0]);
    assert_int_equal(maker_of(g, conv->inputs[0])->kind, NODE_ACTIVATION);
    assert_int_equal(maker_of(g, network_reader(g, "layer2.0.bn2.weight")->inputs[0])->kind,
                     NODE_CONV2D);
    /* an identity carries the residual stream unchanged */
    const node *sum = maker_of(g, network_reader(g, "layer3.0.bn1.weight")->inputs[0]);
    assert_int_equal(sum->inputs[0], network_reader(g, "layer2.1.bn1.weight")->inputs[0]);
    assert_int_equal(network_reader(g, "bn.weight")->block, g->block_count);
}

static void a_configuration_of_another_network_is_refused(void **state)
{
    (void)state;
    static const char mine[] =
        "\"depths\": [1, 2, 1], \"hidden_sizes\": [12, 20, 28], \"embedding_size\": 8";
    static const char *const cases[][2] = {
        {"\"depths\": [1, 3, 1]", "\"depths\"[1] is 3, but the tensors have 2 blocks there"},
        {"\"depths\": [1, 2]", "\"depths\" lists 2 stages, but the tensors have 3"},
        {"\"depths\": 3", "\"depths\" lists 0 stages"},
        {"\"hidden_sizes\": [12, 20, 32]", "\"hidden_sizes\"[2] is 32, but the tensors have 28"},
        {"\"embedding_size\": 64", "\"embedding_size\" is 64, but the tensors have 8"},
        {"\"layer_type\": \"basic\"",
         "\"layer_type\" is basic, but the tensors have blocks of 3 convolutions (\"bottleneck\")"},
        {"\"layer_type\": 3", "\"layer_type\" is no text"},
        {"\"num_channels\": 1", "\"num_channels\" is 1, but the tensors have 3 channels of images"},
        {"\"id2label\": {\"0\": \"cat\"}",
         "\"id2label\" names 1 class(es), but the tensors have 5"},
        {mine, NULL},
    };
    const lab_resnet r = lab_hugging_face(true);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[200];
        OWNED(network_fixture) *f = network_setup(&r);
        snprintf(text, sizeof text, "{\"model_type\": \"resnet\", %s}", cases[i][0]);
        network_write_config(f, "config.json", text);
        if (cases[i][1] == NULL) {
            OWNED(grail_model) *m = network_open(f);
            assert_false(resnet_has_class_widths(m->graph)); /* of other libraries */
        } else {
            assert_fails(network_try(f), GRAIL_ERROR_SHAPE, cases[i][1]);
            assert_non_null(strstr(grail_error_message(), "give the config.json of this one"));
        }
    }
}

static void what_hugging_face_configures_is_read(void **state)
{
    (void)state;
    lab_resnet r = lab_hugging_face(true);
    r.strides_first_stage = true;
    OWNED(network_fixture) *f = network_setup(&r);
    network_write_config(f, "config.json",
                         "{\"model_type\": \"resnet\", \"downsample_in_first_stage\": true,"
                         " \"downsample_in_bottleneck\": true, \"hidden_act\": \"gelu\"}");
    OWNED(grail_model) *m = network_open(f);
    const graph *g = m->graph;
    assert_int_equal(
        network_reader(g, "resnet.encoder.stages.0.layers.0.shortcut.convolution.weight")
            ->window.height.stride,
        2);
    assert_int_equal(
        network_reader(g, "resnet.encoder.stages.1.layers.0.layer.0.convolution.weight")
            ->window.height.stride,
        2);
    assert_int_equal(
        network_reader(g, "resnet.encoder.stages.1.layers.0.layer.1.convolution.weight")
            ->window.height.stride,
        1);
    assert_int_equal(
        maker_of(g, network_reader(g, "resnet.encoder.stages.1.layers.0.layer.0.convolution"
                                      ".weight")
                        ->inputs[0])
            ->activation,
        ACTIVATION_GELU);
    grail_model_facts facts;
    assert_ok(grail_model_describe(m, &facts));
    assert_string_equal(facts.preset, "imagenet");
}

static void narrowed_networks_open_as_dense_ones_do(void **state)
{
    (void)state;
    const lab_resnet networks[] = {
        {.style = LAB_TORCHVISION,
         .stem_kernel = 7,
         .stem = 13,
         .bottleneck = true,
         .stages = 4,
         .blocks = {1, 2, 1, 2},
         .inner = {3, 5, 7, 9},
         .out = {13, 11, 17, 10}, /* as wide as the stem, yet not strided: no shortcut */
         .classes = 4},
        {.style = LAB_CIFAR,
         .stem_kernel = 3,
         .stem = 7,
         .pads = true,
         .stages = 3,
         .blocks = {2, 1, 1},
         .inner = {1, 6, 5},
         .out = {7, 11, 21},
         .classes = 3},
        {.style = LAB_PRE_ACTIVATION,
         .stem_kernel = 3,
         .stem = 5,
         .stages = 2,
         .blocks = {2, 2},
         .inner = {1, 2},
         .out = {5, 9},
         .classes = 2}};
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        assert_int_equal(facts_of(&networks[i]).classes, networks[i].classes);
    }
}

/* -- what is refused -------------------------------------------------------------------------- */

static void a_stranger_is_told_what_it_lacks(void **state)
{
    (void)state;
    const lab_resnet r = lab_cifar_resnet18();
    OWNED(network_fixture) *f = network_setup(&r);
    lab_network_remove(&f->n, "layer3.0.downsample.1.running_var");
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "its tensors fit no known family; the nearest is resnet, but its tensor "
                 "'layer3.0.downsample.1.running_var' is missing (100 of 101 tensors are there)");
    f->n.count = 0;
    lab_network_add(&f->n, "embedding.table", 2, (const int64_t[]){3, 4});
    assert_fails(
        network_try(f), GRAIL_ERROR_UNSUPPORTED,
        "its tensors fit no known family; these families are recognised by their tensors: resnet");
    lab_network_init(&f->n, &r);
    network_write_config(f, "config.json", "{\"model_type\": \"resnet\"}");
    lab_network_remove(&f->n, "layer3.0.downsample.1.running_var");
    assert_fails(
        network_try(f), GRAIL_ERROR_FORMAT,
        "tensor 'layer3.0.downsample.1.running_var' is missing, but a resnet network needs it");
}

static void add_weight(lab_network *n, const char *name, int64_t out, int64_t in, int64_t kernel)
{
    lab_network_add(n, name, 4, (const int64_t[]){out, in, kernel, kernel});
}

static void variants_are_refused_by_name(void **state)
{
    (void)state;
    lab_resnet r = lab_resnet18();
    OWNED(network_fixture) *f = network_setup(&r);
    lab_network_remove(&f->n, "conv1.weight");
    add_weight(&f->n, "conv1.0.weight", 32, 3, 3);
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "a stem of several convolutions ('conv1.0.weight') is not supported: ResNet-C");
    lab_network_init(&f->n, &r);
    add_weight(&f->n, "layer2.0.downsample.2.weight", 32, 3, 1);
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "a shortcut with average pooling (before 'layer2.0.downsample.2.weight')");
    lab_network_init(&f->n, &r);
    add_weight(&f->n, "layer1.0.se.fc1.weight", 8, 64, 1);
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "tensor 'layer1.0.se.fc1.weight' belongs to channel attention such as "
                 "squeeze-excitation");
    r = lab_resnet50();
    lab_network_init(&f->n, &r);
    lab_network_find(&f->n, "conv1.weight")->shape[2] = 5;
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "tensor 'conv1.weight' has a kernel of size 5; the kernel of the first "
                 "convolution must have size 7 (ImageNet) or 3 (CIFAR)");
}

static void images_have_three_channels(void **state)
{
    (void)state;
    const lab_resnet r = lab_akamaster(1);
    OWNED(network_fixture) *f = network_setup(&r);
    lab_network_find(&f->n, "conv1.weight")->shape[1] = 1;
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "tensor 'conv1.weight' reads 1 channel(s) of images; only images of 3 channels");
}

static void shapes_that_do_not_fit_are_named_with_what_was_expected(void **state)
{
    (void)state;
    static const struct {
        const char *tensor;
        int dimension;
        int64_t size;
        const char *text;
    } bad[] = {
        {"layer1.0.conv2.weight", 1, 15,
         "has shape [16, 15, 3, 3], but a resnet network needs shape [16, 16, 3, 3]"},
        {"layer1.0.conv2.weight", 3, 1,
         "has shape [16, 16, 3, 1], but a resnet network needs shape"},
        {"layer2.0.bn1.running_mean", 0, 31,
         "has shape [31], but a resnet network needs shape [32]"},
        {"layer2.0.conv2.weight", 0, 31,
         "block 1: a shortcut without a convolution cannot pad 16 channels to 31: it adds the same "
         "number of zeros on both sides"},
        {"layer3.0.conv2.weight", 0, 0, "expected 4 dimensions of 1 or more"},
        {"linear.weight", 1, 63, "has shape [10, 63], but a resnet network needs shape [10, 64]"},
        {"linear.bias", 0, 9, "has shape [9], but a resnet network needs shape [10]"}};
    const lab_resnet r = lab_akamaster(1);
    network_fixture *f = network_setup(&r);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lab_network_init(&f->n, &r);
        lab_network_find(&f->n, bad[i].tensor)->shape[bad[i].dimension] = bad[i].size;
        assert_fails(network_try(f), GRAIL_ERROR_SHAPE, bad[i].text);
    }
    lab_network_init(&f->n, &r);
    lab_network_find(&f->n, "conv1.weight")->rank = 2;
    assert_fails(network_try(f), GRAIL_ERROR_SHAPE,
                 "tensor 'conv1.weight' has shape [16, 3], expected 4 dimensions of 1 or more");
    network_teardown(f);
}

static void a_block_that_does_not_project_keeps_its_width(void **state)
{
    (void)state;
    lab_resnet r = lab_resnet18();
    OWNED(network_fixture) *f = network_setup(&r);
    lab_network_find(&f->n, "layer1.1.conv2.weight")->shape[0] = 63;
    assert_fails(network_try(f), GRAIL_ERROR_SHAPE,
                 "tensor 'layer1.1.conv2.weight' has shape [63, 64, 3, 3], but a resnet network "
                 "needs shape [64, 64, 3, 3]");
    r.inner[1] = r.out[1] = 64;
    lab_network_init(&f->n, &r);
    lab_network_remove(&f->n, "layer2.0.downsample.0.weight");
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "its tensors fit no known family; the nearest is resnet, but its tensor "
                 "'layer2.0.downsample.0.weight' is missing (");
    r = lab_resnet50();
    lab_network_init(&f->n, &r);
    lab_network_remove(&f->n, "layer1.0.downsample.0.weight"); /* widens without a stride */
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "its tensors fit no known family; the nearest is resnet, but its tensor "
                 "'layer1.0.downsample.0.weight' is missing (");
}

static void heads_may_have_no_bias_and_leading_dimensions_of_one_are_passed_over(void **state)
{
    (void)state;
    const lab_resnet r = lab_akamaster(1);
    OWNED(network_fixture) *f = network_setup(&r);
    lab_network_remove(&f->n, "linear.bias");
    lab_shape *norm = lab_network_find(&f->n, "bn1.weight");
    norm->rank = 3;
    memcpy(norm->shape, (const int64_t[]){1, 1, 16}, sizeof(int64_t[3]));
    grail_model *m = network_open(f);
    assert_int_equal(network_reader(m->graph, "linear.weight")->bias, GRAPH_NONE);
    grail_model_close(m);
    norm->shape[0] = 2;
    assert_fails(network_try(f), GRAIL_ERROR_SHAPE,
                 "tensor 'bn1.weight' has shape [2, 1, 16], but a resnet network needs shape [16]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_those_of_torchvisions_resnet18),
        cmocka_unit_test(bottlenecks_carry_their_stride_in_the_middle),
        cmocka_unit_test(cifar_networks_are_told_by_their_names),
        cmocka_unit_test(stems_are_told_by_their_kernel),
        cmocka_unit_test(shortcuts_without_tensors_pad_channels_on_both_sides),
        cmocka_unit_test(a_block_ends_with_the_activation_of_its_sum),
        cmocka_unit_test(pre_activation_projects_what_it_activated),
        cmocka_unit_test(a_configuration_of_another_network_is_refused),
        cmocka_unit_test(what_hugging_face_configures_is_read),
        cmocka_unit_test(narrowed_networks_open_as_dense_ones_do),
        cmocka_unit_test(a_stranger_is_told_what_it_lacks),
        cmocka_unit_test(variants_are_refused_by_name),
        cmocka_unit_test(images_have_three_channels),
        cmocka_unit_test(shapes_that_do_not_fit_are_named_with_what_was_expected),
        cmocka_unit_test(a_block_that_does_not_project_keeps_its_width),
        cmocka_unit_test(heads_may_have_no_bias_and_leading_dimensions_of_one_are_passed_over),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
