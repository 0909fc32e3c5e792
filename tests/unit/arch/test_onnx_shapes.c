/* Numbers that an ONNX file computes from sizes: which targets are understood, and what is refused
 * by the node's name. The sound networks are in tests/golden/test_vision_onnx.c. */
#include "unit/arch/onnx_lab.h"

#include "support/json_memory.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 3, SIDE = 8, CLASSES = 2, MOST_STEPS = 8 };

static const float zeros[WIDTH * WIDTH * SIDE * SIDE];

/* name <- OPERATOR(inputs), or with a NULL operator the end. */
typedef struct step {
    const char *operator_name, *inputs, *name;
    onnx_attribute attribute; /* without a name: none */
} step;

/* The steps compute `target`, to which [N, 3, 8, 8] is reshaped. */
typedef struct sizes {
    step steps[MOST_STEPS];
    const char *text; /* of the message; NULL: it opens, the target is [N, 3, 64] */
} sizes;

static void put_floats(buffer *nodes, const char *name, int rank, const int64_t shape[])
{
    int64_t elements = 0;
    assert_true(shape_elements(rank, shape, &elements));
    put_tensor(nodes, GRAPH_INITIALIZER, name, ONNX_FLOAT, rank, shape, zeros,
               (size_t)elements * sizeof zeros[0], NO_MORE);
}

static void put_integers(buffer *nodes, const char *name, int rank, int64_t count,
                         const int64_t values[])
{
    put_tensor(nodes, GRAPH_INITIALIZER, name, ONNX_INT64, rank, &count, values,
               (size_t)count * sizeof values[0], NO_MORE);
}

static void put_step(buffer *nodes, const step *s)
{
    buffer fields;
    buffer_init(&fields, 4096);
    if (s->attribute.name != NULL) {
        assert_ok(onnx_put_attribute(&fields, &s->attribute));
    }
    put_node(nodes, s->operator_name, s->inputs, s->name, (more){fields.bytes, fields.size});
    buffer_fini(&fields);
}

/* Constants that the steps read: -1 to 3, 64, large ones, and lists. */
static void put_constants(buffer *nodes)
{
    static const struct {
        const char *name;
        int64_t value;
    } ones[] = {{"minus", -1}, {"0", 0},   {"1", 1},           {"2", 2},
                {"3", 3},      {"64", 64}, {"big", INT64_MAX}, {"least", INT64_MIN}};
    static const int64_t list[] = {1, 0, 2, 64};
    static const int64_t pairs[] = {-1, 2};
    for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++) {
        char name[16];
        put_integers(nodes, ones[i].name, 1, 1, &ones[i].value);
        snprintf(name, sizeof name, "%s'", ones[i].name);
        put_integers(nodes, name, 0, 1, &ones[i].value);
    }
    put_integers(nodes, "list", 1, 4, list);
    put_integers(nodes, "pairs", 1, 2, pairs);
}

static void put_network(buffer *nodes, const sizes *s)
{
    static const int64_t turn[] = {0, 2, 1};
    static const int64_t middle[] = {1};
    const int64_t images[] = {ONNX_ANY_SIZE, WIDTH, SIDE, SIDE};
    const step behind[] = {
        {"Reshape", "c target", "r", {0}},
        {"Transpose",
         "r",
         "t",
         {.name = "perm", .kind = ONNX_INTEGERS, .integers = turn, .count = 3}},
        {"MatMul", "t m", "y", {0}},
        {"ReduceMean",
         "y",
         "pooled",
         {.name = "axes", .kind = ONNX_INTEGERS, .integers = middle, .count = 1}},
        {"Squeeze",
         "pooled",
         "f",
         {.name = "axes", .kind = ONNX_INTEGERS, .integers = middle, .count = 1}},
        {"MatMul", "f d", "logits", {0}}};
    assert_ok(onnx_put_value(nodes, GRAPH_INPUT, "pixels", ONNX_FLOAT, 4, images));
    put_floats(nodes, "w", 4, (const int64_t[]){WIDTH, WIDTH, 1, 1});
    put_floats(nodes, "m", 2, (const int64_t[]){WIDTH, WIDTH});
    put_floats(nodes, "d", 2, (const int64_t[]){WIDTH, CLASSES});
    put_constants(nodes);
    put_node(nodes, "Conv", "pixels w", "c", NO_MORE);
    put_node(nodes, "Shape", "c", "shape", NO_MORE);
    for (int i = 0; i < MOST_STEPS && s->steps[i].operator_name != NULL; i++) {
        put_step(nodes, &s->steps[i]);
    }
    for (size_t i = 0; i < sizeof behind / sizeof behind[0]; i++) {
        put_step(nodes, &behind[i]);
    }
    assert_ok(onnx_put_value(nodes, GRAPH_OUTPUT, "logits", ONNX_FLOAT, 2, images));
}

static grail_status open_network(const char *directory, const sizes *s)
{
    buffer nodes;
    buffer_init(&nodes, 1 << 16);
    put_network(&nodes, s);
    const grail_status status = open_onnx_graph(directory, &nodes, 12, NULL, NULL);
    buffer_fini(&nodes);
    return status;
}

#define NUMBER(key, value)                                                                         \
    {                                                                                              \
        .name = (key), .kind = ONNX_INTEGER, .integer = (value)                                    \
    }
#define LIST(key, values, length)                                                                  \
    {                                                                                              \
        .name = (key), .kind = ONNX_INTEGERS, .integers = (values), .count = (length)              \
    }
#define ALONG NUMBER("axis", 0)

static const int64_t first_axis[] = {0};
static const int64_t wrong_axis[] = {-3};
static const int64_t turned[] = {1, 0};
static const int64_t around[] = {3, 2, 1, 0};

DIRECTORY_TEST(targets_that_are_computed_from_sizes_are_known)
{
    static const sizes cases[] = {
        {{{"Slice", "shape 0 2", "n", {0}}, {"Concat", "n minus", "target", ALONG}}, NULL},
        {{{"Slice", "shape minus big", "x", {0}},
          {"Mul", "x x", "p", {0}},
          {"Slice", "shape least 2", "n", {0}},
          {"Concat", "n p", "target", ALONG}},
         NULL},
        {{{"Gather", "shape 0'", "n", ALONG},
          {"Unsqueeze", "n", "u", LIST("axes", first_axis, 1)},
          {"Concat", "u minus 64", "target", ALONG}},
         NULL},
        {{{"Gather", "shape list", "g", ALONG},
          {"Slice", "shape 0 1", "n", {0}},
          {"Div", "64 1", "p", {0}},
          {"Slice", "g 0 1", "c1", {0}},
          {"Concat", "n c1 p", "target", ALONG}},
         "takes number 64 of 4"},
        {{{"Equal", "shape minus", "e", {0}},
          {"Where", "e 1 shape", "w1", {0}},
          {"Slice", "w1 0 2", "n", {0}},
          {"Concat", "n 64", "target", ALONG}},
         NULL},
        {{{"ConstantOfShape", "1", "z", {0}},
          {"Cast", "z", "zi", NUMBER("to", 7)},
          {"Concat", "zi 3 minus", "target", ALONG}},
         NULL},
        {{{"Range", "0' 3' 1'", "k", {0}},
          {"Slice", "k 0 1", "z", {0}},
          {"Concat", "z 3 64", "target", ALONG}},
         NULL},
        {{{"Expand", "minus 1", "z", {0}}, {"Concat", "z 3 64", "target", ALONG}}, NULL},
        {{{"Mod", "minus 3", "q", {0}},
          {"Add", "q 1", "c1", {0}},
          {"Concat", "0 c1 minus", "target", ALONG}},
         NULL},
        /* pads of older exporters, which turn a matrix upside down */
        {{{"Concat", "64 0 3 0", "l", ALONG},
          {"Reshape", "l pairs", "k", {0}},
          {"Slice", "k minus least 0 minus", "s", {0}},
          {"Transpose", "s", "u", LIST("perm", turned, 2)},
          {"Reshape", "u minus", "v", {0}},
          {"Slice", "v 0 2", "q", {0}},
          {"Concat", "0 q", "target", ALONG}},
         NULL},
        {{{"Cast", "64", "e", NUMBER("to", 1)},
          {"Cast", "3", "h", NUMBER("to", 1)},
          {"Div", "e h", "q", {0}},
          {"Ceil", "q", "k", {0}},
          {"Clip", "k 0' 3'", "l", {0}},
          {"Cast", "l", "z", NUMBER("to", 7)},
          {"Concat", "0 z minus", "target", ALONG}},
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const grail_status status = open_network(directory, &cases[i]);
        if (cases[i].text == NULL) {
            assert_ok(status);
        } else {
            assert_fails(status, GRAIL_ERROR_UNSUPPORTED, cases[i].text);
        }
    }
}

DIRECTORY_TEST(tables_that_cannot_be_made_are_refused_by_name)
{
    static const sizes cases[] = {
        {{{"Resize", "w _ _ list", "target", {0}}}, "(Resize): resizes a table otherwise than"},
        {{{"Resize", "w _ _ shape", "target", {0}}}, "(Resize): resizes a table otherwise than"},
        {{{"Transpose", "w", "target", LIST("perm", turned, 2)}},
         "(Transpose): its 'perm' is no order of 4 dimensions"},
        {{{"Transpose", "w", "k", LIST("perm", around, 4)}, {"Concat", "k m", "target", ALONG}},
         "(Concat): its inputs have other dimensions"},
        {{{"Transpose", "w", "k", LIST("perm", around, 4)},
          {"Concat", "k k", "target", NUMBER("axis", 4)}},
         "(Concat): is along no dimension of 4"},
        {{{"Transpose", "w", "k", LIST("perm", around, 4)}, {"Reshape", "k list", "target", {0}}},
         "(Reshape): gives a table dimensions that are not known"},
        {{{"Transpose", "w", "k", LIST("perm", around, 4)}, {"Reshape", "k 64", "target", {0}}},
         "(Reshape): makes another number of values than it reads"},
        {{{"Transpose", "w", "k", LIST("perm", around, 4)}, {"Reshape", "k big", "target", {0}}},
         "(Reshape): gives a table dimensions that are not known"},
        {{{"Transpose", "w", "target", LIST("perm", around, 4)}},
         "(Reshape): 'target' is computed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(open_network(directory, &cases[i]), GRAIL_ERROR_UNSUPPORTED, cases[i].text);
    }
}

DIRECTORY_TEST(numbers_that_cannot_be_told_are_refused_by_name)
{
    static const sizes cases[] = {
        {{{"Div", "64 0", "p", {0}}, {"Concat", "0 3 p", "target", ALONG}},
         "is computed of what is not known"},
        {{{"Mod", "64 0", "p", {0}}, {"Concat", "0 3 p", "target", ALONG}},
         "is computed of what is not known"},
        {{{"Div", "least minus", "p", {0}}, {"Concat", "0 3 p", "target", ALONG}},
         "is computed of what is not known"},
        {{{"Mul", "big big", "p", {0}}, {"Concat", "0 3 p", "target", ALONG}},
         "is computed of what is not known"},
        {{{"Add", "big 1", "p", {0}}, {"Concat", "0 3 p", "target", ALONG}},
         "is computed of what is not known"},
        {{{"Slice", "shape 0 1", "n", {0}},
          {"Add", "n 1", "p", {0}},
          {"Concat", "p 3 minus", "target", ALONG}},
         "is computed of what is not known"},
        {{{"Concat", "0 big big", "target", ALONG}}, "moves sizes that are not known"},
        {{{"Concat", "0 minus minus", "target", ALONG}}, "is computed of what is not known"},
        {{{"Concat", "0 3 3", "target", ALONG}}, "makes another number of values than it reads"},
        {{{"Concat", "0 64 3", "target", ALONG}}, "puts samples, positions and channels together"},
        {{{"ConstantOfShape", "big", "z", {0}}, {"Concat", "z 3 minus", "target", ALONG}},
         "(ConstantOfShape): makes more than 64 numbers"},
        {{{"ConstantOfShape", "list", "z", {0}}, {"Concat", "z 3 minus", "target", ALONG}},
         "(ConstantOfShape): makes more than 64 numbers"},
        {{{"ConstantOfShape", "minus", "z", {0}}, {"Concat", "z 3 minus", "target", ALONG}},
         "(ConstantOfShape): makes more than 64 numbers"},
        {{{"Range", "0' big' 1'", "z", {0}}, {"Concat", "z 3 minus", "target", ALONG}},
         "(Range): makes more than 64 numbers"},
        {{{"Range", "0' 3' 0'", "z", {0}}, {"Concat", "z 3 minus", "target", ALONG}},
         "(Range): makes more than 64 numbers"},
        {{{"Expand", "1 big", "z", {0}}, {"Concat", "z 3 minus", "target", ALONG}},
         "(Expand): makes more than 64 numbers"},
        {{{"Gather", "shape least'", "z", ALONG}, {"Concat", "z 3 minus", "target", ALONG}},
         "(Gather): takes number"},
        {{{"Slice", "shape list 2", "z", {0}}, {"Concat", "z 3 minus", "target", ALONG}},
         "(Slice): takes other numbers than a run"},
        {{{"Squeeze", "list", "z", LIST("axes", wrong_axis, 1)},
          {"Concat", "z 3 minus", "target", ALONG}},
         "(Squeeze): makes numbers in 0 dimensions"},
        {{{"Unsqueeze", "list", "z", LIST("axes", wrong_axis, 1)},
          {"Concat", "z 3 minus", "target", ALONG}},
         "(Unsqueeze): makes numbers in 2 dimensions"},
        {{{"Where", "list shape 1", "e", {0}},
          {"Add", "e shape", "z", {0}},
          {"Mul", "z list", "y1", {0}},
          {"Concat", "y1 list", "target", ALONG}},
         "is computed of what is not known"},
        {{{"Reshape", "shape pairs", "k", {0}}, {"Concat", "k minus", "target", ALONG}},
         "(Concat): reads a matrix of numbers, 'k'"},
        {{{"Transpose", "shape", "target", LIST("perm", turned, 2)}},
         "(Transpose): turns no matrix of numbers"},
        {{{"Slice", "shape 0 2 0 0", "target", {0}}}, "(Slice): takes other numbers than a run"},
        {{{"Slice", "shape 0 2 2", "target", {0}}}, "(Slice): takes other numbers than a run"},
        {{{"Gather", "shape 0'", "n", ALONG},
          {"Range", "0' n 1'", "k", {0}},
          {"Add", "k shape", "z", {0}},
          {"Concat", "z 3 minus", "target", ALONG}},
         "(Add): takes values by indices that depend on the number of samples"},
        {{{"Add", "shape list", "z", {0}},
          {"Slice", "z 0 3", "q", {0}},
          {"Add", "q list", "target", {0}}},
         "(Add): reads 3 and 4 numbers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(open_network(directory, &cases[i]), GRAIL_ERROR_UNSUPPORTED, cases[i].text);
        assert_fails(open_network(directory, &cases[i]), GRAIL_ERROR_UNSUPPORTED,
                     "net.onnx: node of '");
    }
}

static grail_status open_golden(void *context)
{
    grail_model *m = NULL;
    const grail_status status = grail_model_open(context, &m);
    grail_model_close(m);
    return status;
}

TEST(every_failing_allocation_of_a_transformer_is_survived)
{
    char fused[] = GRAIL_SOURCE_DIR "/tests/golden/vision/onnx_deit/net.onnx";
    char resized[] = GRAIL_SOURCE_DIR "/tests/golden/vision/onnx_dinov2/net.onnx";
    support_fail_each_allocation(open_golden, fused);
    support_fail_each_allocation(open_golden, resized);
}

CMFixtureFunction support_setup = json_memory_use;
