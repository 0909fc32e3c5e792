#include "onnx_bytes.h"

#include <string.h>

static void put_names(buffer *out, uint32_t field, const char *names)
{
    while (*names != '\0') {
        const size_t length = strcspn(names, " ");
        const bool is_left_out = length == 1 && *names == '_';
        assert_ok(protobuf_put_bytes(out, field, names, is_left_out ? 0 : length));
        names += length + (names[length] == ' ');
    }
}

void put_node(buffer *graph, const char *operator_name, const char *inputs, const char *outputs,
              more fields)
{
    const size_t begin = graph->size;
    put_names(graph, NODE_INPUT, inputs);
    put_names(graph, NODE_OUTPUT, outputs);
    assert_ok(protobuf_put_string(graph, NODE_OPERATOR, operator_name));
    assert_ok(buffer_append(graph, fields.bytes, fields.size));
    assert_ok(protobuf_end_message(graph, GRAPH_NODE, begin, 0));
}

void put_tensor(buffer *out, uint32_t field, const char *name, int element, int rank,
                const int64_t shape[], const void *raw, size_t size, more fields)
{
    const size_t begin = out->size;
    assert_ok(onnx_put_sizes(out, rank, shape));
    assert_ok(protobuf_put_integer(out, TENSOR_TYPE, element));
    assert_ok(protobuf_put_string(out, TENSOR_NAME, name));
    if (raw != NULL) {
        assert_ok(protobuf_put_bytes(out, TENSOR_RAW, raw, size));
    }
    assert_ok(buffer_append(out, fields.bytes, fields.size));
    assert_ok(protobuf_end_message(out, field, begin, 0));
}

void put_model(buffer *out, const buffer *graph, int64_t opset, more fields)
{
    assert_ok(protobuf_put_integer(out, MODEL_IR_VERSION, 8));
    assert_ok(protobuf_put_string(out, MODEL_PRODUCER, "tests"));
    assert_ok(protobuf_put_bytes(out, MODEL_GRAPH, graph->bytes, graph->size));
    if (opset != 0) {
        const size_t begin = out->size;
        assert_ok(protobuf_put_integer(out, OPSET_VERSION, opset));
        assert_ok(protobuf_end_message(out, MODEL_OPSET, begin, 0));
    }
    assert_ok(buffer_append(out, fields.bytes, fields.size));
}

static void put_constants(buffer *graph)
{
    static const float half = 0.5F;
    OWNED(buffer) value;
    buffer_init(&value, 256);
    put_node(graph, "Constant", "", "shape",
             MORE("\x2A\x1C\x0A\x0Avalue_ints\x42\x0B\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x02"
                  "\xA0\x01\x07"));
    const size_t begin = value.size;
    assert_ok(protobuf_put_string(&value, ATTRIBUTE_NAME, "value"));
    put_tensor(&value, ATTRIBUTE_TENSOR, "", ONNX_FLOAT, 0, NULL, &half, sizeof half, NO_MORE);
    assert_ok(protobuf_put_integer(&value, ATTRIBUTE_TYPE, ONNX_TENSOR));
    assert_ok(protobuf_end_message(&value, NODE_ATTRIBUTE, begin, 0));
    put_node(graph, "Constant", "", "half", (more){value.bytes, value.size});
}

/* then_branch: inner <- Neg(y), which it gives out. */
static void put_if(buffer *graph)
{
    OWNED(buffer) branch;
    buffer_init(&branch, 256);
    assert_ok(protobuf_put_string(&branch, ATTRIBUTE_NAME, "then_branch"));
    const size_t begin = branch.size;
    put_node(&branch, "Neg", "y", "inner", NO_MORE);
    assert_ok(onnx_put_value(&branch, GRAPH_OUTPUT, "inner", ONNX_FLOAT, 0, NULL));
    assert_ok(protobuf_end_message(&branch, ATTRIBUTE_GRAPH, begin, 0));
    assert_ok(protobuf_put_integer(&branch, ATTRIBUTE_TYPE, ONNX_GRAPH));
    assert_ok(protobuf_end_message(&branch, NODE_ATTRIBUTE, 0, 0));
    put_node(graph, "If", "half", "i", (more){branch.bytes, branch.size});
}

void put_graph(buffer *graph)
{
    static const float w[6] = {1, 2, 3, 4, 5, 6};
    const int64_t any[] = {ONNX_ANY_SIZE, 3};
    const int64_t shape[] = {2, 3};
    assert_ok(onnx_put_value(graph, GRAPH_INPUT, "x", ONNX_FLOAT, 2, any));
    assert_ok(onnx_put_value(graph, GRAPH_INPUT, "w", ONNX_FLOAT, 2, shape));
    put_constants(graph);
    put_node(graph, "Identity", "w", "v", NO_MORE);
    put_node(graph, "Gemm", "x v b", "y",
             MORE("\x1A\x02g1\x2A\x0D\x0A\x06transB\x18\x01\xA0\x01\x02\x32\x03"
                  "doc"));
    put_node(graph, "Custom", "y _ half", "z", MORE("\x3A\x02my"));
    put_if(graph);
    put_node(graph, "Reshape", "z shape", "out", NO_MORE);
    put_tensor(graph, GRAPH_INITIALIZER, "w", ONNX_FLOAT, 2, shape, w, sizeof w,
               MORE("\x62\x03"
                    "doc"));
    put_tensor(graph, GRAPH_INITIALIZER, "b", 10, 1, shape, NULL, 0, /* 1.0 and -2.0 */
               MORE("\x2A\x05\x80\x78\x80\x80\x03"));
    put_tensor(graph, GRAPH_INITIALIZER, "t", ONNX_FLOAT, 1, shape, NULL, 0,
               MORE("\x25\x00\x00\x00\x3F\x22\x04\x00\x00\x80\x3F"));
    assert_ok(onnx_put_value(graph, GRAPH_OUTPUT, "out", ONNX_FLOAT, 2, any));
    assert_ok(onnx_put_value(graph, GRAPH_VALUE, "y", ONNX_FLOAT, 2, shape));
    assert_ok(onnx_put_value(graph, GRAPH_VALUE, "z", ONNX_FLOAT, 2, shape));
}
