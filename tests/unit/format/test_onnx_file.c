/* Reading ONNX files: what is read of bytes made here, and every refusal. test_onnx_edit.c writes
 * them again, and reads the real ones. */
#include "onnx_bytes.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct fixture {
    buffer graph, model;
    onnx_file *file;
} fixture;

static void setup(fixture *f)
{
    *f = (fixture){0};
    buffer_init(&f->graph, 1 << 20);
    buffer_init(&f->model, 1 << 20);
}

static void teardown(fixture *f)
{
    onnx_file_close(f->file);
    buffer_fini(&f->graph);
    buffer_fini(&f->model);
}

#define FIXTURE_TEST(name) TEST_OF(fixture, f, setup, teardown, name)

static grail_status open_graph(fixture *f, int64_t opset, more fields)
{
    onnx_file_close(f->file);
    f->file = NULL;
    f->model.size = 0;
    put_model(&f->model, &f->graph, opset, fields);
    return onnx_file_open_bytes("m.onnx", f->model.bytes, f->model.size, &f->file);
}

static const onnx_value *value_of(const fixture *f, const char *name)
{
    const int64_t i = onnx_file_find(f->file, name);
    assert_true(i >= 0);
    return &f->file->values[i];
}

static const onnx_tensor *tensor_of(const fixture *f, const char *name)
{
    assert_true(value_of(f, name)->tensor >= 0);
    return &f->file->tensors[value_of(f, name)->tensor];
}

FIXTURE_TEST(a_model_is_indexed)
{
    put_graph(&f->graph);
    assert_ok(open_graph(f, 17, MORE("\x72\x0A\x0A\x03key\x12\x03val\x42\x06\x0A\x02my\x10\x02")));
    const onnx_file *m = f->file;
    assert_int_equal(m->ir_version, 8);
    assert_int_equal(m->opset, 17);
    assert_string_equal(m->producer, "tests");
    assert_int_equal(m->import_count, 2);
    assert_string_equal(m->imports[1].domain, "my");
    assert_int_equal(m->imports[1].version, 2);
    assert_int_equal(m->metadata_count, 1);
    assert_string_equal(m->metadata[0].key, "key");
    assert_memory_equal(m->metadata[0].value.bytes, "val", 3);
    assert_int_equal(m->node_count, 7);
    assert_int_equal(m->input_count, 2);
    assert_string_equal(m->values[m->inputs[0]].name, "x");
    assert_int_equal(m->values[m->inputs[0]].shape[0], ONNX_ANY_SIZE);
    assert_string_equal(m->values[m->inputs[0]].symbols[0], "N");
    assert_int_equal(m->values[m->inputs[0]].shape[1], 3);
    assert_int_equal(m->output_count, 1);
    assert_int_equal(m->values[m->outputs[0]].node, 6);
    assert_true(m->values[m->outputs[0]].is_output);
    assert_true(value_of(f, "w")->is_input);
    assert_int_equal(value_of(f, "y")->rank, 2);
    assert_int_equal(value_of(f, "v")->rank, -1);
}

/* Paddle writes -1 for such a size. */
FIXTURE_TEST(a_size_below_zero_is_any)
{
    put_graph(&f->graph);
    const size_t begin = f->graph.size;
    assert_ok(protobuf_put_string(&f->graph, VALUE_NAME, "v"));
    const size_t type = f->graph.size;
    assert_ok(protobuf_put_integer(&f->graph, SIZE_VALUE, -7));
    for (int i = 0; i < 4; i++) {
        static const uint32_t fields[] = {SHAPE_SIZE, TENSOR_TYPE_SHAPE, TYPE_TENSOR, VALUE_TYPE};
        assert_ok(protobuf_end_message(&f->graph, fields[i], type, 0));
    }
    assert_ok(protobuf_end_message(&f->graph, GRAPH_VALUE, begin, 0));
    assert_ok(open_graph(f, 17, NO_MORE));
    assert_int_equal(value_of(f, "v")->rank, 1);
    assert_int_equal(value_of(f, "v")->shape[0], ONNX_ANY_SIZE);
}

/* Also behind what a subgraph reads. */
FIXTURE_TEST(nodes_are_brought_behind_what_they_read)
{
    put_node(&f->graph, "Neg", "y", "inner", NO_MORE);
    assert_ok(protobuf_end_message(&f->graph, ATTRIBUTE_GRAPH, 0, 0));
    assert_ok(protobuf_put_string(&f->graph, ATTRIBUTE_NAME, "body"));
    assert_ok(protobuf_end_message(&f->graph, NODE_ATTRIBUTE, 0, 0));
    assert_ok(protobuf_put_string(&f->graph, NODE_OPERATOR, "Loop"));
    assert_ok(protobuf_end_message(&f->graph, GRAPH_NODE, 0, 0));
    put_node(&f->graph, "Constant", "", "y", MORE("\x2A\x10\x0A\x09value_int\x18\x01\xA0\x01\x02"));
    put_node(&f->graph, "Abs", "a", "b", NO_MORE);
    put_node(&f->graph, "Neg", "y", "a", NO_MORE);
    assert_ok(open_graph(f, 17, NO_MORE));
    static const char *const sorted[] = {"Constant", "Loop", "Neg", "Abs"};
    static const int64_t order[] = {1, 0, 3, 2};
    assert_int_equal(f->file->node_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(f->file->nodes[i].node.operator_name, sorted[i]);
        assert_int_equal(f->file->order[i], order[i]);
    }
    assert_int_equal(value_of(f, "b")->node, 3);
    assert_int_equal(value_of(f, "y")->node, 0);
}

FIXTURE_TEST(nodes_have_their_attributes_inputs_and_captures)
{
    put_graph(&f->graph);
    assert_ok(open_graph(f, 17, NO_MORE));
    const onnx_file_node *gemm = &f->file->nodes[3];
    assert_true(onnx_node_is(gemm, "Gemm"));
    assert_string_equal(gemm->node.name, "g1");
    assert_int_equal(gemm->node.input_count, 3);
    assert_int_equal(gemm->inputs[1], onnx_file_find(f->file, "v"));
    assert_int_equal(onnx_node_attribute(gemm, "transB")->integer, 1);
    assert_null(onnx_node_attribute(gemm, "transA"));
    const onnx_file_node *custom = &f->file->nodes[4];
    assert_false(onnx_node_is(custom, "Custom"));
    assert_string_equal(custom->node.domain, "my");
    assert_int_equal(custom->inputs[1], -1);
    const onnx_file_node *branch = &f->file->nodes[5];
    assert_true(branch->has_subgraph);
    assert_int_equal(branch->capture_count, 1);
    assert_int_equal(branch->captures[0], onnx_file_find(f->file, "y"));
    const onnx_attribute *ints = onnx_node_attribute(&f->file->nodes[0], "value_ints");
    assert_int_equal(ints->count, 2);
    assert_int_equal(ints->integers[0], -1);
    assert_ptr_equal(gemm->field.bytes + gemm->field.size, custom->field.bytes);
}

FIXTURE_TEST(constants_are_read_however_they_are_stored)
{
    float reals[6];
    int64_t integers[2];
    put_graph(&f->graph);
    assert_ok(open_graph(f, 17, NO_MORE));
    assert_ok(onnx_tensor_f32(tensor_of(f, "v"), reals)); /* an Identity of w, in the file */
    assert_true(tensor_of(f, "v")->view.data >= (const void *)f->model.bytes);
    assert_int_equal(tensor_of(f, "v")->view.shape[1], 3);
    for (int i = 0; i < 6; i++) {
        assert_near(reals[i], i + 1, 0);
    }
    assert_ok(onnx_tensor_f32(tensor_of(f, "b"), reals)); /* F16 as numbers */
    assert_near(reals[0], 1, 0);
    assert_near(reals[1], -2, 0);
    assert_ok(onnx_tensor_f32(tensor_of(f, "t"), reals)); /* one by one and packed */
    assert_near(reals[0], 0.5, 0);
    assert_near(reals[1], 1, 0);
    assert_ok(onnx_tensor_f32(tensor_of(f, "half"), reals));
    assert_near(reals[0], 0.5, 0);
    assert_ok(onnx_tensor_integers(tensor_of(f, "shape"), integers));
    assert_int_equal(integers[0], -1);
    assert_int_equal(integers[1], 2);
    assert_fails(onnx_tensor_f32(tensor_of(f, "shape"), reals), GRAIL_ERROR_UNSUPPORTED,
                 "'shape' has elements of INT64, expected FLOAT");
    assert_fails(onnx_tensor_integers(tensor_of(f, "half"), integers), GRAIL_ERROR_UNSUPPORTED,
                 "'half' has elements of FLOAT, expected integers");
}

FIXTURE_TEST(integers_of_every_width_keep_their_sign)
{
    static const struct {
        int element;
        more raw;
        int64_t first, second;
    } cases[] = {{2, MORE("\x7F\xFF"), 127, 255},
                 {3, MORE("\x7F\xFF"), 127, -1},
                 {4, MORE("\xFE\xFF\x01\x00"), 65534, 1},
                 {5, MORE("\xFE\xFF\x01\x00"), -2, 1},
                 {6, MORE("\xFE\xFF\xFF\xFF\x01\x00\x00\x00"), -2, 1},
                 {9, MORE("\x01\x00"), 1, 0},
                 {12, MORE("\xFE\xFF\xFF\xFF\x01\x00\x00\x00"), 4294967294, 1}};
    const int64_t two = 2;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t values[2];
        f->graph.size = 0;
        put_tensor(&f->graph, GRAPH_INITIALIZER, "a", cases[i].element, 1, &two, cases[i].raw.bytes,
                   cases[i].raw.size, NO_MORE);
        assert_ok(open_graph(f, 13, NO_MORE));
        assert_ok(onnx_tensor_integers(tensor_of(f, "a"), values));
        assert_int_equal(values[0], cases[i].first);
        assert_int_equal(values[1], cases[i].second);
    }
    f->graph.size = 0;
    put_tensor(&f->graph, GRAPH_INITIALIZER, "a", 13, 0, NULL, "\0\0\0\0\0\0\0\x80", 8, NO_MORE);
    assert_ok(open_graph(f, 13, NO_MORE));
    int64_t beyond = 0;
    assert_fails(onnx_tensor_integers(tensor_of(f, "a"), &beyond), GRAIL_ERROR_UNSUPPORTED,
                 "9223372036854775808, beyond 2^63 - 1");
}

/* Types that grail does not compute with are opened, if their sizes are right. */
FIXTURE_TEST(every_type_of_elements_is_measured)
{
    static const struct {
        int element;
        size_t bytes; /* of three elements; 0: texts */
    } cases[] = {{1, 12}, {2, 3},   {3, 3},   {4, 6},   {5, 6},   {6, 12},  {7, 24}, {9, 3},
                 {10, 6}, {11, 24}, {12, 12}, {13, 24}, {14, 24}, {15, 48}, {16, 6}, {17, 3},
                 {18, 3}, {19, 3},  {20, 3},  {21, 2},  {22, 2},  {23, 2}};
    static const unsigned char zeros[49];
    const int64_t three = 3;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char loaded[48];
        f->graph.size = 0;
        put_tensor(&f->graph, GRAPH_INITIALIZER, "a", cases[i].element, 1, &three, zeros,
                   cases[i].bytes, NO_MORE);
        assert_ok(open_graph(f, 13, NO_MORE));
        assert_ok(onnx_tensor_load(tensor_of(f, "a"), loaded));
        f->graph.size = 0;
        put_tensor(&f->graph, GRAPH_INITIALIZER, "a", cases[i].element, 1, &three, zeros,
                   cases[i].bytes + 1, NO_MORE);
        assert_fails(open_graph(f, 13, NO_MORE), GRAIL_ERROR_FORMAT,
                     onnx_element_name(cases[i].element));
    }
    f->graph.size = 0;
    put_tensor(&f->graph, GRAPH_INITIALIZER, "a", ONNX_STRING, 1, &three, NULL, 0,
               MORE("\x32\x01x\x32\x00\x32\x01y"));
    assert_ok(open_graph(f, 13, NO_MORE));
    unsigned char none = 0;
    assert_fails(onnx_tensor_load(tensor_of(f, "a"), &none), GRAIL_ERROR_UNSUPPORTED,
                 "'a' holds texts");
}

FIXTURE_TEST(tensors_that_lie_are_refused)
{
    static const unsigned char zeros[64];
    const struct {
        int element, rank;
        int64_t shape[3];
        size_t raw; /* bytes; 0: no such field */
        more fields;
        grail_status status;
        const char *text;
    } cases[] = {
        {1,
         2,
         {2, 3},
         20,
         NO_MORE,
         GRAIL_ERROR_FORMAT,
         "m.onnx: tensor 'a': holds 20 bytes, but [2, 3] elements of FLOAT are 24"},
        {1, 2, {2, 3}, 0, NO_MORE, GRAIL_ERROR_FORMAT, "holds 0 values, but [2, 3] elements"},
        {1, 1, {2}, 0, MORE("\x22\x04\0\0\0\0"), GRAIL_ERROR_FORMAT, "holds 1 values, but [2]"},
        {1, 1, {2}, 0, MORE("\x22\x05\0\0\0\0\0"), GRAIL_ERROR_FORMAT, "ends within a field"},
        {1, 1, {2}, 0, MORE("\x20\x00\x20\x00"), GRAIL_ERROR_FORMAT, "field 4 of the wire type 0"},
        {1, 1, {1}, 4, MORE("\x22\x04\0\0\0\0"), GRAIL_ERROR_FORMAT, "holds its values twice"},
        {1, 1, {1}, 4, MORE("\x4A\x04\0\0\0\0"), GRAIL_ERROR_FORMAT, "has field 9 twice"},
        {7,
         1,
         {1},
         0,
         MORE("\x2A\x01\x05"),
         GRAIL_ERROR_FORMAT,
         "has values in field 5, but those of INT64 are in 7"},
        {1, 2, {-1, 4}, 16, NO_MORE, GRAIL_ERROR_FORMAT, "has the shape [-1, 4]"},
        {1, 3, {1LL << 40, 1LL << 40, 0}, 0, NO_MORE, GRAIL_ERROR_FORMAT, "no tensor can have"},
        {7, 2, {1LL << 30, 1LL << 30}, 0, NO_MORE, GRAIL_ERROR_FORMAT, "no tensor can have"},
        {0, 1, {1}, 4, NO_MORE, GRAIL_ERROR_UNSUPPORTED, "elements of type 0"},
        {99, 1, {1}, 4, NO_MORE, GRAIL_ERROR_UNSUPPORTED, "elements of type 99"},
        {1, 1, {1}, 4, MORE("\x1A\x00"), GRAIL_ERROR_UNSUPPORTED, "is a segment"},
        {1,
         1,
         {1},
         4,
         MORE("\x08\1\x08\1\x08\1\x08\1\x08\1\x08\1\x08\1\x08\1"),
         GRAIL_ERROR_UNSUPPORTED,
         "has more than 8 dimensions"},
        {8, 1, {2}, 0, MORE("\x32\x01x"), GRAIL_ERROR_FORMAT, "holds 1 values, but [2]"},
        {1, 1, {1}, 0, MORE("\x70\x01"), GRAIL_ERROR_FORMAT, "a file without a name"},
        {1, 1, {1}, 4, MORE("\x70\x01"), GRAIL_ERROR_FORMAT, "in this file and in another"},
        {1,
         1,
         {1},
         0,
         MORE("\x70\x01\x6A\x0D\x0A\x08location\x12\x01"
              "d"),
         GRAIL_ERROR_UNSUPPORTED,
         "a file beside the model, which is read here as one file; save it as one"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        f->graph.size = 0;
        put_tensor(&f->graph, GRAPH_INITIALIZER, "a", cases[i].element, cases[i].rank,
                   cases[i].shape, cases[i].raw == 0 ? NULL : zeros, cases[i].raw, cases[i].fields);
        assert_fails(open_graph(f, 17, NO_MORE), cases[i].status, cases[i].text);
    }
}

FIXTURE_TEST(graphs_that_lie_are_refused)
{
    const int64_t one = 1;
    const struct {
        const char *text;
        const char *nodes[3][3]; /* operator, inputs, outputs */
        more fields;             /* of the first node */
        const char *output;
        grail_status status;
    } cases[] = {
        {"node 0 (Relu): reads 'q', which nothing makes", .nodes = {{"Relu", "q", "y"}}},
        {"node (Relu) reads what follows from what it makes",
         .nodes = {{"Relu", "z", "y"}, {"Relu", "y", "z"}}},
        {"node (Add) reads what follows from what it makes", .nodes = {{"Add", "x y", "y"}}},
        {"the value 'y' is made twice", .nodes = {{"Relu", "x", "y"}, {"Abs", "x", "y"}}},
        {"the value 'x' is made twice", .nodes = {{"Relu", "w", "x"}}},
        {"the value 'w' is made twice", .nodes = {{"Relu", "x", "w"}}},
        {"the output 'q' is made by no node", .nodes = {{"Relu", "x", "y"}}, .output = "q"},
        {"a domain has 5000 bytes, more than the allowed 4096", .nodes = {{"Relu", "x", "y"}},
         .fields = {.size = 5000}},
        {"an input is not UTF-8", .nodes = {{"Relu", "\xFF", "y"}}},
        {"has the attribute 'a' twice", .nodes = {{"Relu", "x", "y"}},
         .fields = MORE("\x2A\x03\x0A\x01"
                        "a\x2A\x03\x0A\x01"
                        "a")},
        {"has field 5 of the wire type 0", .nodes = {{"Relu", "x", "y"}},
         .fields = MORE("\x28\x00")},
        {"attribute 'a': tensor '': holds 1 values, but [2]", .nodes = {{"Relu", "x", "y"}},
         .fields = MORE("\x2A\x13\x0A\x01"
                        "a\xA0\x01\x04\x2A\x0B\x08\x02\x10\x01\x25\0\0\0\0\x62\0")},
        {"attribute 'a': has 0 values where one is expected", .nodes = {{"Relu", "x", "y"}},
         .fields = MORE("\x2A\x06\x0A\x01"
                        "a\xA0\x01\x01")},
        {"node 1 (): has no operator", .nodes = {{"Relu", "x", "y"}, {"", "x", "z"}}},
        {"expected 1 of each", .nodes = {{"Constant", "", "c"}}},
        {"claims a field of 9 bytes", .nodes = {{"Relu", "x", "y"}}, .fields = MORE("\x3A\x09")},
        {"node 0 (QLinearConv): computes with quantised values",
         .nodes = {{"QLinearConv", "x", "y"}}, .status = GRAIL_ERROR_UNSUPPORTED},
        {"node 1 (DequantizeLinear): computes with quantised values",
         .nodes = {{"Relu", "x", "y"}, {"DequantizeLinear", "y", "z"}},
         .status = GRAIL_ERROR_UNSUPPORTED},
    };
    char domain[5003] = {0x3A, (char)0x88, 0x27};
    memset(domain + 3, 'd', 5000);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const more spoilt = cases[i].fields.size == 5000 ? (more){domain, 5003} : cases[i].fields;
        f->graph.size = 0;
        assert_ok(onnx_put_value(&f->graph, GRAPH_INPUT, "x", ONNX_FLOAT, 1, &one));
        put_tensor(&f->graph, GRAPH_INITIALIZER, "w", ONNX_FLOAT, 1, &one, "\0\0\0\0", 4, NO_MORE);
        for (int j = 0; j < 3 && cases[i].nodes[j][0] != NULL; j++) {
            put_node(&f->graph, cases[i].nodes[j][0], cases[i].nodes[j][1], cases[i].nodes[j][2],
                     j == 0 && spoilt.bytes != NULL ? spoilt : NO_MORE);
        }
        if (cases[i].output != NULL) {
            assert_ok(onnx_put_value(&f->graph, GRAPH_OUTPUT, cases[i].output, 1, 1, &one));
        }
        assert_fails(open_graph(f, 17, NO_MORE),
                     cases[i].status == GRAIL_OK ? GRAIL_ERROR_FORMAT : cases[i].status,
                     cases[i].text);
    }
}

FIXTURE_TEST(declarations_that_lie_are_refused)
{
    const int64_t shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    put_tensor(&f->graph, GRAPH_INITIALIZER, "w", ONNX_FLOAT, 1, shape, "\0\0\0\0", 4, NO_MORE);
    const size_t sound = f->graph.size;
    put_tensor(&f->graph, GRAPH_INITIALIZER, "w", ONNX_FLOAT, 1, shape, "\0\0\0\0", 4, NO_MORE);
    assert_fails(open_graph(f, 17, NO_MORE), GRAIL_ERROR_FORMAT,
                 "the initializer 'w' is made twice; the file is damaged, or no ONNX model");
    f->graph.size = sound;
    assert_ok(onnx_put_value(&f->graph, GRAPH_INPUT, "x", ONNX_FLOAT, 9, shape));
    assert_fails(open_graph(f, 17, NO_MORE), GRAIL_ERROR_UNSUPPORTED,
                 "value 'x': has more than 8 dimensions");
    f->graph.size = sound;
    assert_ok(onnx_put_value(&f->graph, GRAPH_INPUT, "x", ONNX_FLOAT, 1, shape));
    assert_ok(onnx_put_value(&f->graph, GRAPH_INPUT, "x", ONNX_FLOAT, 1, shape));
    assert_fails(open_graph(f, 17, NO_MORE), GRAIL_ERROR_FORMAT, "the value 'x' is made twice");
    f->graph.size = sound;
    assert_ok(onnx_put_value(&f->graph, GRAPH_INPUT, "", ONNX_FLOAT, 1, shape));
    assert_fails(open_graph(f, 17, NO_MORE), GRAIL_ERROR_FORMAT, "a value without a name");
    f->graph.size = sound;
    assert_ok(protobuf_put_bytes(&f->graph, GRAPH_SPARSE, "\x0A\x03\x42\x01s", 5));
    assert_fails(open_graph(f, 17, NO_MORE), GRAIL_ERROR_UNSUPPORTED,
                 "the initializer 's' is sparse");
}

FIXTURE_TEST(models_that_are_none_are_refused)
{
    onnx_file *m = NULL;
    assert_fails(onnx_file_open_bytes("m", "", 0, &m), GRAIL_ERROR_FORMAT, "has 0 graphs");
    assert_fails(onnx_file_open_bytes("m", "GGUF\3\0\0\0", 8, &m), GRAIL_ERROR_FORMAT,
                 "m: has a field of the wire type 7; the file is damaged, or no ONNX model");
    assert_fails(onnx_file_open_bytes("m", "\x3A\x00", 2, &m), GRAIL_ERROR_FORMAT,
                 "has no ir_version");
    assert_fails(open_graph(f, 17, MORE("\x3A\x00")), GRAIL_ERROR_FORMAT, "has 2 graphs");
    assert_fails(open_graph(f, 6, NO_MORE), GRAIL_ERROR_UNSUPPORTED,
                 "uses operator set 6; grail reads 7 to 23");
    assert_fails(open_graph(f, 24, NO_MORE), GRAIL_ERROR_UNSUPPORTED, "uses operator set 24");
    assert_fails(open_graph(f, 0, NO_MORE), GRAIL_ERROR_UNSUPPORTED, "uses operator set 1");
    assert_fails(open_graph(f, 17, MORE("\xA2\x01\x00")), GRAIL_ERROR_UNSUPPORTED,
                 "holds a graph for training");
    assert_ok(open_graph(f, 7, NO_MORE));
    assert_ok(open_graph(f, 23, NO_MORE));
    assert_int_equal(f->file->node_count, 0);
}

/* Each subgraph is in an attribute of a node of the one around it. */
FIXTURE_TEST(subgraphs_are_limited_in_depth)
{
    for (int depth = ONNX_DEEPEST_GRAPH; depth <= ONNX_DEEPEST_GRAPH + 1; depth++) {
        f->graph.size = 0;
        put_node(&f->graph, "Relu", "x", "inner", NO_MORE);
        for (int i = 0; i < depth; i++) {
            assert_ok(protobuf_end_message(&f->graph, ATTRIBUTE_GRAPH, 0, 0));
            assert_ok(protobuf_put_string(&f->graph, ATTRIBUTE_NAME, "body"));
            assert_ok(protobuf_end_message(&f->graph, NODE_ATTRIBUTE, 0, 0));
            assert_ok(protobuf_put_string(&f->graph, NODE_OPERATOR, "Loop"));
            assert_ok(protobuf_end_message(&f->graph, GRAPH_NODE, 0, 0));
        }
        const int64_t one = 1;
        assert_ok(onnx_put_value(&f->graph, GRAPH_INPUT, "x", ONNX_FLOAT, 1, &one));
        if (depth == ONNX_DEEPEST_GRAPH) {
            assert_ok(open_graph(f, 17, NO_MORE));
            assert_int_equal(f->file->nodes[0].capture_count, 1);
        } else {
            assert_fails(open_graph(f, 17, NO_MORE), GRAIL_ERROR_FORMAT, "more than 32 deep");
        }
    }
}

FIXTURE_TEST(a_node_of_many_attributes_is_refused)
{
    buffer many;
    buffer_init(&many, 1 << 16);
    for (int i = 0; i <= ONNX_MOST_ATTRIBUTES; i++) {
        char name[16];
        snprintf(name, sizeof name, "a%d", i);
        assert_ok(onnx_put_attribute(&many, &(onnx_attribute){.name = name, .kind = ONNX_INTEGER}));
    }
    put_node(&f->graph, "Relu", "", "y", (more){many.bytes, many.size});
    buffer_fini(&many);
    assert_fails(open_graph(f, 17, NO_MORE), GRAIL_ERROR_FORMAT,
                 "has 257 attributes, more than the allowed 256");
}

/* Every byte of a sound model set to other values, and every cut of it: opened or refused. */
FIXTURE_TEST(spoilt_bytes_are_survived)
{
    static const unsigned char others[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
    int refused = 0;
    put_graph(&f->graph);
    assert_ok(open_graph(f, 17, NO_MORE));
    for (size_t i = 0; i < f->model.size; i++) {
        const unsigned char was = f->model.bytes[i];
        onnx_file *m = NULL;
        for (size_t j = 0; j < sizeof others; j++) {
            f->model.bytes[i] = others[j];
            refused += onnx_file_open_bytes("m", f->model.bytes, f->model.size, &m) != GRAIL_OK;
            onnx_file_close(m);
            m = NULL;
        }
        f->model.bytes[i] = was;
        assert_true(onnx_file_open_bytes("m", f->model.bytes, i, &m) != GRAIL_OK);
    }
    assert_true(refused > 100);
}

static grail_status open_once(void *context)
{
    fixture *f = context;
    onnx_file *m = NULL;
    const grail_status status = onnx_file_open_bytes("m.onnx", f->model.bytes, f->model.size, &m);
    onnx_file_close(m);
    return status;
}

FIXTURE_TEST(every_failing_allocation_is_survived)
{
    put_graph(&f->graph);
    put_model(&f->model, &f->graph, 17, NO_MORE);
    support_fail_each_allocation(open_once, f);
}

/* -- values in other files --------------------------------------------------------------------- */

/* One tensor of two values in the file `location`. */
static grail_status open_outside(const char *directory, const char *location, const char *offset,
                                 const char *length, onnx_file **out)
{
    const int64_t two = 2;
    const char *const entries[][2] = {
        {"location", location}, {"offset", offset}, {"length", length}, {"checksum", "none"}};
    buffer graph;
    buffer model;
    buffer fields;
    char path[512];
    buffer_init(&graph, 1 << 16);
    buffer_init(&model, 1 << 16);
    buffer_init(&fields, 1 << 16);
    for (int i = 0; i < 4; i++) {
        const size_t begin = fields.size;
        assert_ok(protobuf_put_string(&fields, ENTRY_KEY, entries[i][0]));
        assert_ok(protobuf_put_string(&fields, ENTRY_VALUE, entries[i][1]));
        assert_ok(protobuf_end_message(&fields, TENSOR_EXTERNAL, begin, 0));
    }
    assert_ok(protobuf_put_integer(&fields, TENSOR_LOCATION, LOCATION_EXTERNAL));
    put_tensor(&graph, GRAPH_INITIALIZER, "a", ONNX_FLOAT, 1, &two, NULL, 0,
               (more){fields.bytes, fields.size});
    put_model(&model, &graph, 17, NO_MORE);
    support_write_file(directory, "m.onnx", model.bytes, model.size);
    snprintf(path, sizeof path, "%s/m.onnx", directory);
    buffer_fini(&graph);
    buffer_fini(&model);
    buffer_fini(&fields);
    return onnx_file_open(path, out);
}

DIRECTORY_TEST(values_are_mapped_from_another_file)
{
    static const float values[] = {7, 1.5F, -2};
    onnx_file *m = NULL;
    float read[2];
    support_write_file(directory, "d.bin", values, sizeof values);
    assert_ok(open_outside(directory, "d.bin", "4", "8", &m));
    assert_ok(onnx_tensor_f32(&m->tensors[0], read));
    assert_near(read[0], 1.5, 0);
    assert_near(read[1], -2, 0);
    assert_int_equal(m->data_file_count, 1);
    onnx_file_close(m);
    assert_ok(open_outside(directory, "./d.bin", "", "", &m));
    assert_ok(onnx_tensor_f32(&m->tensors[0], read));
    assert_near(read[0], 7, 0);
    onnx_file_close(m);
}

DIRECTORY_TEST(values_elsewhere_are_refused)
{
    static const float values[] = {7, 1.5F, -2};
    char link[512];
    char beside[512];
    onnx_file *m = NULL;
    support_write_file(directory, "d.bin", values, sizeof values);
    snprintf(link, sizeof link, "%s/link", directory);
    assert_int_equal(symlink("/etc/passwd", link), 0);
    snprintf(link, sizeof link, "%s/sub", directory);
    assert_int_equal(mkdir(link, 0777), 0);
    snprintf(link, sizeof link, "%s-2", directory); /* begins with the same name */
    assert_int_equal(mkdir(link, 0777), 0);
    support_write_file(link, "d.bin", values, sizeof values);
    snprintf(beside, sizeof beside, "..%s/d.bin", strrchr(link, '/'));
    const struct {
        const char *location, *offset, *length, *text;
        grail_status status;
    } cases[] = {
        {"/etc/passwd", "0", "8", "not in the directory of the model", GRAIL_ERROR_UNSUPPORTED},
        {"../../../../../../etc/passwd", "0", "8",
         "outside the directory of the model ('/etc/passwd')", GRAIL_ERROR_UNSUPPORTED},
        {"link", "0", "8", "outside the directory", GRAIL_ERROR_UNSUPPORTED},
        {beside, "0", "8", "outside the directory", GRAIL_ERROR_UNSUPPORTED},
        {"missing", "0", "8", "tensor 'a': cannot open", GRAIL_ERROR_IO},
        {"sub", "0", "8", "is not a regular file", GRAIL_ERROR_IO},
        {"d.bin", "8", "8", "has 8 bytes from byte 8 of 'd.bin' on, which has 12",
         GRAIL_ERROR_FORMAT},
        {"d.bin", "18446744073709551615", "8", "which has 12: truncated?", GRAIL_ERROR_FORMAT},
        {"d.bin", "18446744073709551616", "8", "which is no number", GRAIL_ERROR_FORMAT},
        {"d.bin", "-4", "8", "has values at '-4', which is no number", GRAIL_ERROR_FORMAT},
        {"d.bin", "0", "12", "claims 12 bytes of values, expected 8", GRAIL_ERROR_FORMAT},
        {"", "0", "8", "in a file without a name", GRAIL_ERROR_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(
            open_outside(directory, cases[i].location, cases[i].offset, cases[i].length, &m),
            cases[i].status, cases[i].text);
    }
    support_remove_tree(link);
}
