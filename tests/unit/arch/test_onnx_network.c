/* Graphs of ONNX files: what is refused, and by which name. The sound ones are in
 * tests/golden/test_vision_onnx.c and tests/cli/test_onnx.sh. */
#include "unit/arch/onnx_lab.h"

#include "arch/onnx_nodes.h"
#include "support/json_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 3, CLASSES = 2 };

static const int64_t pair[] = {2, 2};
static const float zeros[WIDTH * WIDTH * WIDTH * WIDTH];

/* One node between a convolution and a pool: b <- OPERATOR(inputs). */
typedef struct middle {
    const char *operator_name, *inputs;
    onnx_attribute attributes[2]; /* without a name: none */
    const char *text;             /* of the message */
} middle;

typedef struct network {
    middle node;
    int64_t channels; /* of the images */
    bool has_any_size;
    bool has_more;                     /* a second input, or a node that nothing reads */
    const char *reader;                /* operator of the node that reads b */
    const char *output, *other_output; /* NULL: there is one */
} network;

static void put_weights(buffer *nodes, const char *name, int rank, int64_t rows)
{
    const int64_t shape[] = {rows, WIDTH, rank == 2 ? 1 : WIDTH, WIDTH};
    int64_t elements = 0;
    assert_true(shape_elements(rank, shape, &elements));
    put_tensor(nodes, GRAPH_INITIALIZER, name, ONNX_FLOAT, rank, shape, zeros,
               (size_t)elements * sizeof zeros[0], NO_MORE);
}

/* One number, as a tensor of so many dimensions. */
static void put_number(buffer *nodes, const char *name, int rank, float value)
{
    static const int64_t shape[] = {1, 1, 1, 1, 1};
    put_tensor(nodes, GRAPH_INITIALIZER, name, ONNX_FLOAT, rank, shape, &value, sizeof value,
               NO_MORE);
}

static void put_network(buffer *nodes, const network *n)
{
    const int64_t side = n->has_any_size ? ONNX_ANY_SIZE : 8;
    const int64_t images[] = {ONNX_ANY_SIZE, n->channels, side, side};
    const onnx_attribute turned = {.name = "transB", .kind = ONNX_INTEGER, .integer = 1};
    buffer fields;
    buffer_init(&fields, 4096);
    assert_ok(onnx_put_value(nodes, GRAPH_INPUT, "pixels", ONNX_FLOAT, 4, images));
    if (n->has_more) {
        assert_ok(onnx_put_value(nodes, GRAPH_INPUT, "other", ONNX_FLOAT, 4, images));
    }
    put_weights(nodes, "w", 4, WIDTH);
    put_weights(nodes, "k", 4, WIDTH);
    put_weights(nodes, "v", 1, WIDTH);
    put_weights(nodes, "d", 2, CLASSES);
    put_number(nodes, "zero", 0, 0.0F);
    put_number(nodes, "nan", 1, NAN);
    put_number(nodes, "ones", IMAGE_RANK + 1, 1.0F);
    put_tensor(nodes, GRAPH_INITIALIZER, "pair", ONNX_INT64, 1, (const int64_t[]){2}, pair,
               sizeof pair, NO_MORE);
    put_node(nodes, "Conv", "pixels w", "a", NO_MORE);
    put_node(nodes, "Identity", "v", "same_v", NO_MORE);
    for (int i = 0; i < 2 && n->node.attributes[i].name != NULL; i++) {
        assert_ok(onnx_put_attribute(&fields, &n->node.attributes[i]));
    }
    put_node(nodes, n->node.operator_name, n->node.inputs, "b", (more){fields.bytes, fields.size});
    put_node(nodes, n->reader, strcmp(n->reader, "Conv") == 0 ? "b k" : "b", "r", NO_MORE);
    put_node(nodes, "GlobalAveragePool", "r", "p", NO_MORE);
    put_node(nodes, "Flatten", "p", "f", NO_MORE);
    fields.size = 0;
    assert_ok(onnx_put_attribute(&fields, &turned));
    put_node(nodes, "Gemm", "f d", "logits", (more){fields.bytes, fields.size});
    const bool is_ranked = strcmp(n->output, "label") == 0;
    if (is_ranked) {
        put_node(nodes, "ArgMax", "logits", "label", NO_MORE);
    }
    assert_ok(onnx_put_value(nodes, GRAPH_OUTPUT, n->output, is_ranked ? ONNX_INT64 : ONNX_FLOAT, 2,
                             images));
    if (n->other_output != NULL) {
        assert_ok(onnx_put_value(nodes, GRAPH_OUTPUT, n->other_output, ONNX_FLOAT, 4, images));
    }
    buffer_fini(&fields);
}

/* Writes the network and opens it; *out may be NULL. */
static grail_status open_network_as(const char *directory, const network *n,
                                    const grail_model_options *options, grail_model **out)
{
    buffer nodes;
    buffer_init(&nodes, 1 << 16);
    put_network(&nodes, n);
    const grail_status status = open_onnx_graph(directory, &nodes, 17, options, out);
    buffer_fini(&nodes);
    return status;
}

static grail_status open_network(const char *directory, const network *n)
{
    return open_network_as(directory, n, NULL, NULL);
}

static network usual(void)
{
    return (network){.node = {.operator_name = "Relu", .inputs = "a"},
                     .channels = WIDTH,
                     .reader = "Relu",
                     .output = "logits"};
}

DIRECTORY_TEST(nodes_that_no_row_fits_are_refused_by_name)
{
    static const int64_t pairs[] = {2, 1, 1, 1, 1, 1, 1, 1};
#define LIST(key, length)                                                                          \
    {                                                                                              \
        .name = (key), .kind = ONNX_INTEGERS, .integers = pairs, .count = (length)                 \
    }
#define NUMBER(key, value)                                                                         \
    {                                                                                              \
        .name = (key), .kind = ONNX_INTEGER, .integer = (value)                                    \
    }
/* The attribute auto_pad as its bytes: name, string of the length in octal, type 3. */
#define PADS(length, value)                                                                        \
    {                                                                                              \
        .name = "auto_pad", .message = {                                                           \
            (const unsigned char *)"\012\010auto_pad\042" length value "\240\001\003",             \
            14 + sizeof(value)                                                                     \
        }                                                                                          \
    }
    static const middle cases[] = {
        {"Conv", "a k", {LIST("strides", 3)}, "has 3 strides, expected 2"},
        {"Conv", "a k", {LIST("pads", 2)}, "has 2 pads, expected 4"},
        {"Conv", "a k", {LIST("pads", 5)}, "has 5 pads, expected 4"},
        {"Conv", "a k", {NUMBER("group", 2)}, "which are no 2 groups"},
        {"Conv", "a a", {{0}}, "its weights (input 1) are computed, or missing"},
        {"Conv", "a v", {{0}}, "tensor 'v' has shape [3], expected 4 dimensions"},
        {"Conv", "k a", {{0}}, "its input 0 is a constant"},
        {"Conv", "a k d", {{0}}, "tensor 'd' has shape [2, 3], expected 1 dimensions"},
        {"Pad", "a", {LIST("pads", 4)}, "pads with other than zeros above"},
        {"Pad", "a", {LIST("pads", 8)}, "pads with other than zeros above"},
        {"MaxPool", "a", {{0}}, "is no pooling over windows of the positions alone"},
        {"AveragePool",
         "a",
         {LIST("kernel_shape", 2), LIST("dilations", 2)},
         "is a mean over windows with dilation"},
        {"Conv", "a k", {PADS("\004", "SAME")}, "its 'auto_pad' is not known"},
        {"Add",
         "a v",
         {{0}},
         "its constant 'v' has shape [3], expected one value for each of the 3 "
         "channels, or one for all"},
        {"Mul", "d a", {{0}}, "its constant 'd' has shape [2, 3], expected one value"},
        {"Add", "v v", {{0}}, "its input 1 is a constant"},
        {"Div", "a a", {{0}}, "puts two values together"},
        {"Div", "a zero", {{0}}, "divides by 0"},
        {"Div", "zero a", {{0}}, "divides by a value"},
        {"Mul", "a nan", {{0}}, "its constant 'nan' is no finite number"},
        {"Add",
         "a ones",
         {{0}},
         "its constant 'ones' has shape [1, 1, 1, 1, 1], expected one value"},
        {"Reshape", "v pair", {{0}}, "gives a constant dimensions that it has not"},
        {"Unsqueeze", "v", {LIST("axes", 3)}, "names dimension 1 of a constant of 1"},
        {"Transpose", "a", {LIST("perm", 3)}, "its 'perm' is no order of 4 dimensions"},
        {"Concat", "a a", {NUMBER("axis", 2)}, "is along dimension 2"},
        {"Clip", "a nan", {{0}}, "has the bounds nan and inf"},
        {"DepthToSpace", "a", {NUMBER("blocksize", 2)}, "makes squares of 2 x 2 positions of 3"},
        {"DepthToSpace", "a", {{0}}, "makes squares of 0 x 0 positions"},
        {"Max", "a a", {{0}}, "compares values, for which grail has no row"},
        {"Max", "a nan", {{0}}, "its constant 'nan' is no finite number"},
        {"Min", "a v", {{0}}, "compares a value with several numbers"},
        {"Min", "a zero zero", {{0}}, "compares values, for which grail has no row"},
        {"Sum", "a a v", {{0}}, "its input 2 is a constant"},
        {"PRelu", "a a", {{0}}, "its slopes are computed"},
        {"PRelu", "a d", {{0}}, "its constant 'd' has shape [2, 3], expected one value"},
        {"Softmax", "a", {{0}}, "reads 4 dimensions, expected [N, C]"},
        {"Gather", "v pair", {{0}}, "takes parts that are computed, or more than one"},
        {"Concat", "pair a", {NUMBER("axis", 0)}, "its input 0 is a constant"},
        {"Cast", "a", {NUMBER("to", 11)}, "makes values of another type than FLOAT"},
        {"Einsum", "a", {{0}}, "grail has no row for this operator"},
        {"Attention", "a a a", {{0}}, "is attention with a cap, earlier keys"},
        {"MatMul", "a a", {{0}}, "multiplies two values that are no heads of attention"},
        {"MatMul", "a d", {{0}}, "multiplies other dimensions than that of the channels"},
        {"LayerNormalization", "a v", {{0}}, "is a norm over other dimensions than"},
        {"LayerNormalization", "a v", {NUMBER("axis", 2)}, "is a norm over several dimensions"},
        {"RMSNormalization", "a", {{0}}, "has no scale, or more than that"},
        {"RMSNormalization", "a v v", {{0}}, "has no scale, or more than that"},
        {"Gather", "a v", {{0}}, "takes parts that are computed, or more than one"},
        {"Gather", "a a", {{0}}, "takes parts that are computed, or more than one"},
        {"Slice",
         "a",
         {LIST("starts", 1), LIST("ends", 1)},
         "takes a run from 2 to 2, for which grail has no row"},
        {"Expand",
         "v pair",
         {{0}},
         "repeats a constant in other dimensions than that of the samples"},
        {"Expand", "a pair", {{0}}, "repeats other than each head"},
        {"Cast", "a", {NUMBER("to", 7)}, "makes values of another type than FLOAT"},
        {"Transpose", "a", {LIST("perm", 4)}, "its 'perm' is no order of 4 dimensions"},
        {"Split", "a", {NUMBER("axis", 1), LIST("split", 2)}, "has 1 outputs, and 2 sizes"},
        {"ConvTranspose", "a k", {NUMBER("group", 3)}, "is in groups, for which grail has no row"},
        {"ConvTranspose",
         "a k",
         {LIST("output_padding", 2)},
         "adds 2 x 1 positions, which are not fewer than its strides"},
        {"ConvTranspose", "a k", {LIST("output_shape", 2)}, "pads to a size that it states"},
        {"GroupNormalization", "a v v", {{0}}, "scales groups, as before operator set 21"},
        {"InstanceNormalization", "a v", {{0}}, "its weights (input 2) are computed, or missing"},
        {"Slice", "a", {LIST("starts", 1), LIST("ends", 2)}, "takes parts of 2 dimensions"},
        {"Resize", "a", {{0}}, "states neither scales nor sizes"},
        {"Resize", "a", {NUMBER("antialias", 1)}, "smooths what it makes smaller"},
        {"Resize", "a", {LIST("mode", 2)}, "its 'mode' is one that grail has no row for"},
        {"Resize", "a _ k", {{0}}, "its scales are not known, not of [N, C, H, W]"},
        {"Upsample", "a a", {{0}}, "its scales are not known"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[128];
        network n = usual();
        n.node = cases[i];
        snprintf(name, sizeof name, "net.onnx: node of 'b' (%s): ", cases[i].operator_name);
        assert_fails(open_network(directory, &n), GRAIL_ERROR_UNSUPPORTED, cases[i].text);
        assert_fails(open_network(directory, &n), GRAIL_ERROR_UNSUPPORTED, name);
    }
    network n = usual();
    n.node = (middle){"Conv", "a k", {LIST("strides", 2), PADS("\012", "SAME_LOWER")}, NULL};
    assert_ok(open_network(directory, &n));
    n.has_any_size = true;
    assert_fails(open_network(directory, &n), GRAIL_ERROR_UNSUPPORTED,
                 "pads by 'auto_pad' and strides, which depends on the size of images; the "
                 "settings height=N and width=N say it");
}
#undef LIST
#undef PADS
#undef NUMBER

DIRECTORY_TEST(positions_beside_channels_are_counted)
{
    network n = usual();
    n.node = (middle){.operator_name = "Flatten", .inputs = "a"};
    assert_fails(open_network(directory, &n), GRAIL_ERROR_UNSUPPORTED,
                 "(GlobalAveragePool): reads dimensions [N,CT]");
    n.node.operator_name = "GlobalMaxPool";
    n.has_any_size = true;
    assert_fails(
        open_network(directory, &n), GRAIL_ERROR_UNSUPPORTED,
        "(GlobalMaxPool): needs to know how large images are; export the network for images of "
        "one size");
}

DIRECTORY_TEST(other_inputs_and_outputs_are_refused)
{
    network n = usual();
    assert_ok(open_network(directory, &n));
    n.channels = 4;
    assert_fails(open_network(directory, &n), GRAIL_ERROR_UNSUPPORTED,
                 "reads 3 channels in a group, but there are 4");
    n.channels = ONNX_ANY_SIZE;
    assert_fails(
        open_network(directory, &n), GRAIL_ERROR_UNSUPPORTED,
        "the input 'pixels' has element type 1 and shape [-1, -1, 8, 8]; grail reads FLOAT (1) "
        "[N, channels, height, width], [N, height, width, channels] where a Transpose follows, [N, "
        "channels, length] or [N, channels] with a stated number "
        "of channels");
    n = usual();
    n.has_more = true;
    assert_ok(open_network(directory, &n));
    n.has_any_size = true;
    assert_fails(open_network(directory, &n), GRAIL_ERROR_UNSUPPORTED,
                 "the input 'pixels' leaves sizes open, which a run of a network of several inputs "
                 "needs; settings NAME=N say them");
}

DIRECTORY_TEST(outputs_that_cannot_be_narrowed_are_refused_by_name)
{
    static const struct {
        const char *output, *text;
    } cases[] = {
        {"pixels", "the output 'pixels' is an input, which grail does not narrow"},
        {"v", "the output 'v' is a constant"},
        {"same_v", "the output 'same_v' is a constant"},
        {"logits", "the output 'logits' is declared twice"},
        {"nothing", "the output 'nothing' is made by no node"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bool is_broken =
            strstr(cases[i].text, " by no ") != NULL || strstr(cases[i].text, "twice") != NULL;
        network n = usual();
        n.other_output = cases[i].output;
        assert_fails(open_network(directory, &n),
                     is_broken ? GRAIL_ERROR_FORMAT : GRAIL_ERROR_UNSUPPORTED, cases[i].text);
    }
}

/* Classes by number, or zeros around a value: what they are made of is given in their place. */
DIRECTORY_TEST(what_an_output_is_made_of_stands_for_it)
{
    static const int64_t around[] = {0, 0, 1, 1, 0, 0, 1, 1};
    grail_model *m = NULL;
    network n = usual();
    n.output = "label";
    n.other_output = "b";
    n.node = (middle){"Pad",
                      "a",
                      {{.name = "pads", .kind = ONNX_INTEGERS, .integers = around, .count = 8}},
                      NULL};
    n.reader = "Conv";
    assert_ok(open_network_as(directory, &n, NULL, &m));
    const graph *g = m->graph;
    assert_int_equal(g->output_count, 2);
    assert_string_equal(g->outputs[0].name, "logits");
    assert_string_equal(g->outputs[0].stands_for, "label");
    assert_true(g->outputs[0].is_logits);
    assert_int_equal(g->classes, CLASSES);
    assert_string_equal(g->outputs[1].name, "a");
    assert_string_equal(g->outputs[1].stands_for, "b");
    assert_false(g->outputs[1].is_logits);
    assert_non_null(strstr(m->notices[0], "make 'label' of 'logits'"));
    grail_model_close(m);

    n.other_output = "logits";
    assert_ok(open_network_as(directory, &n, NULL, &m));
    assert_int_equal(m->graph->output_count, 1);
    assert_string_equal(m->graph->outputs[0].stands_for, "label");
    grail_model_close(m);
}

DIRECTORY_TEST(settings_say_sizes_that_the_file_leaves_open)
{
    static const struct {
        const char *settings[2];
        grail_status status;
        const char *text; /* of the refusal */
    } cases[] = {
        {{"height=8", "width=16"}, GRAIL_OK, ""},
        {{"height=8"},
         GRAIL_ERROR_UNSUPPORTED,
         "leaves the width of the images open, but not the other size; the setting "
         "width=N says it"},
        {{"height=-1", "width=2"},
         GRAIL_ERROR_ARGUMENT,
         "the setting height=-1 is not between 1 and"},
        {{"height=99999", "width=2"},
         GRAIL_ERROR_ARGUMENT,
         "the setting height=99999 is not between"},
        {{"height=high"}, GRAIL_ERROR_FORMAT, "net.onnx: \"height\" is not an integer"},
        {{"depth=2"},
         GRAIL_ERROR_ARGUMENT,
         "a onnx network has no setting 'depth', and no input of the file has an open size of that "
         "name; known settings: preset, height"},
    };
    network n = usual();
    n.has_any_size = true;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        grail_model *m = NULL;
        const grail_model_options options = {.settings = cases[i].settings,
                                             .setting_count = cases[i].settings[1] ? 2 : 1};
        const grail_status status = open_network_as(directory, &n, &options, &m);
        if (cases[i].status == GRAIL_OK) {
            assert_ok(status);
            assert_int_equal(m->graph->image.height, 8);
            assert_int_equal(m->graph->image.width, 16);
        } else {
            assert_fails(status, cases[i].status, cases[i].text);
        }
        grail_model_close(m);
    }
    n.has_any_size = false;
    assert_fails(
        open_network_as(directory, &n,
                        &(grail_model_options){.settings = cases[0].settings, .setting_count = 2},
                        NULL),
        GRAIL_ERROR_ARGUMENT,
        "the input 'pixels' has a width of 8, but the setting width=16 says another");
}

/* The channels of what is given, and goes on, are no site. */
TEST(outputs_keep_their_channels)
{
    static const char *const names[] = {"far", "middle", "scores", "near", "embedding"};
    grail_model *m = NULL;
    site_list sites = {0};
    assert_ok(grail_model_open(GRAIL_SOURCE_DIR "/tests/golden/vision/onnx/outputs.onnx", &m));
    const graph *g = m->graph;
    assert_int_equal(g->output_count, 5);
    assert_int_equal(g->output, g->outputs[0].value);
    assert_int_equal(g->classes, 0);
    assert_ok(sites_derive(g, GQA_QUERY_PER_GROUP, &sites));
    for (int i = 0; i < g->output_count; i++) {
        assert_string_equal(g->outputs[i].name, names[i]);
        assert_int_equal(g->last_use[g->outputs[i].value], g->node_count);
        assert_int_equal(graph_sole_reader(g, g->outputs[i].value), GRAPH_NONE);
    }
    assert_int_equal(sites.count, 6);
    for (int i = 0; i < sites.count; i++) {
        assert_string_not_equal(sites.sites[i].name, "d1"); /* by its consumers */
        ;
        assert_string_not_equal(sites.sites[i].name, "f2");
    }
    site_list_fini(&sites);
    grail_model_close(m);
}

static grail_status open_golden(void *path)
{
    grail_model *m = NULL;
    const grail_status status = grail_model_open(path, &m);
    grail_model_close(m);
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    static char paths[][256] = {GRAIL_SOURCE_DIR "/tests/golden/vision/onnx/net.onnx",
                                GRAIL_SOURCE_DIR "/tests/golden/vision/onnx_flat/net.onnx",
                                GRAIL_SOURCE_DIR "/tests/golden/vision/onnx_decoder/net.onnx"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        support_fail_each_allocation(open_golden, paths[i]);
    }
}

TEST(blocks_begin_where_values_fork)
{
    grail_model *m = NULL;
    assert_ok(grail_model_open(GRAIL_SOURCE_DIR "/tests/golden/vision/onnx/net.onnx", &m));
    const graph *g = m->graph;
    assert_int_equal(g->block_count, 4);
    assert_int_equal(g->nodes[0].block, GRAPH_NONE);
    assert_int_equal(g->nodes[0].kind, NODE_CONV2D);
    for (int i = 1; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        assert_true(n->kind != NODE_MEAN || n->inputs[0] != g->nodes[i - 1].output ||
                    n->block == g->nodes[i - 1].block || n->block == g->block_count);
    }
    assert_int_equal(g->classes, 10);
    assert_int_equal(g->image.height, 32);
    grail_model_close(m);
}

CMFixtureFunction support_setup = json_memory_use;
