#include "runtime/region_model.h"

#include "base/memory.h"
#include "format/onnx/onnx_fields.h"

#include <string.h>

enum { OLDEST_WITH_CONSTANTS = 4 }; /* IR version from which initializers need be no inputs */

/* -- what a region may hold -------------------------------------------------------------------- */

typedef enum message_kind { MODEL, GRAPH, FUNCTION, NODE, ATTRIBUTE, TENSOR, SPARSE } message_kind;

/* Which messages are in which: those that lead to nodes and tensors, at any depth. */
static const struct {
    message_kind in;
    uint32_t field;
    message_kind kind;
} parts[] = {
    {MODEL, MODEL_GRAPH, GRAPH},
    {MODEL, MODEL_FUNCTION, FUNCTION},
    {FUNCTION, FUNCTION_NODE, NODE},
    {FUNCTION, FUNCTION_ATTRIBUTE, ATTRIBUTE},
    {GRAPH, GRAPH_NODE, NODE},
    {GRAPH, GRAPH_INITIALIZER, TENSOR},
    {GRAPH, GRAPH_SPARSE, SPARSE},
    {NODE, NODE_ATTRIBUTE, ATTRIBUTE},
    {ATTRIBUTE, ATTRIBUTE_TENSOR, TENSOR},
    {ATTRIBUTE, ATTRIBUTE_TENSORS, TENSOR},
    {ATTRIBUTE, ATTRIBUTE_GRAPH, GRAPH},
    {ATTRIBUTE, ATTRIBUTE_GRAPHS, GRAPH},
    {ATTRIBUTE, ATTRIBUTE_SPARSE, SPARSE},
    {ATTRIBUTE, ATTRIBUTE_SPARSES, SPARSE},
    {SPARSE, SPARSE_VALUES, TENSOR},
    {SPARSE, SPARSE_INDICES, TENSOR},
};

static bool draws_numbers(byte_range name)
{
    static const char *const random[] = {"RandomNormal",      "RandomNormalLike", "RandomUniform",
                                         "RandomUniformLike", "Multinomial",      "Bernoulli"};
    for (size_t i = 0; i < sizeof random / sizeof random[0]; i++) {
        if (name.size == strlen(random[i]) && memcmp(name.bytes, random[i], name.size) == 0) {
            return true;
        }
    }
    return false;
}

/* What a message says by itself: where the values of a tensor are, or a node's operator. */
static grail_status check_field(message_kind in, const protobuf_field *field)
{
    const bool is_elsewhere =
        in == TENSOR && (field->number == TENSOR_EXTERNAL ||
                         (field->number == TENSOR_LOCATION && field->value == LOCATION_EXTERNAL));
    if (is_elsewhere) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "a constant of it has its values in another file; save the model as one");
    }
    if (in == NODE && field->number == NODE_OPERATOR && draws_numbers(field->bytes)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "it draws random numbers (%.*s), so that no two runs would be the same",
                         (int)field->bytes.size, (const char *)field->bytes.bytes);
    }
    return GRAIL_OK;
}

/* Depth: a subgraph is three messages deep. */
static grail_status check_message(message_kind in, byte_range rest, int depth)
{
    if (depth > 3 * ONNX_DEEPEST_GRAPH + 8) {
        return error_set(GRAIL_ERROR_FORMAT, "has subgraphs more than %d deep", ONNX_DEEPEST_GRAPH);
    }
    while (rest.size > 0) {
        protobuf_field field;
        CHECK(protobuf_next(&rest, &field));
        CHECK(check_field(in, &field));
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            if (parts[i].in == in && parts[i].field == field.number && field.wire == WIRE_BYTES) {
                CHECK(check_message(parts[i].kind, field.bytes, depth + 1));
            }
        }
    }
    return GRAIL_OK;
}

/* -- the model --------------------------------------------------------------------------------- */

/* Only the channels have a size: others, and of which name each is, the nodes may not rely on. */
size_t region_element_bytes(int element)
{
    return element == ONNX_INT64 ? 8 : element == ONNX_INT32 || element == ONNX_FLOAT ? 4 : 1;
}

static grail_status put_input(const onnx_file *file, const region_value *input, buffer *out)
{
    const size_t value = out->size;
    CHECK(protobuf_put_string(out, VALUE_NAME, file->values[input->value].name));
    const size_t type = out->size; /* a message that is a tensor */
    const bool are_ids = input->rank == REGION_IDS;
    CHECK(protobuf_put_integer(out, TENSOR_TYPE_ELEMENT,
                               are_ids          ? file->values[input->value].element
                               : input->is_half ? ONNX_FLOAT16
                                                : ONNX_FLOAT));
    const size_t sizes = out->size;
    for (int d = 0; d < (are_ids ? file->values[input->value].rank : input->rank); d++) {
        const size_t size = out->size;
        CHECK(d == input->channels && !are_ids ? protobuf_put_integer(out, SIZE_VALUE, input->width)
                                               : GRAIL_OK);
        CHECK(protobuf_end_message(out, SHAPE_SIZE, size, 0));
    }
    CHECK(protobuf_end_message(out, TENSOR_TYPE_SHAPE, sizes, 0));
    CHECK(protobuf_end_message(out, TYPE_TENSOR, type, 0));
    CHECK(protobuf_end_message(out, VALUE_TYPE, type, 0));
    return protobuf_end_message(out, GRAPH_INPUT, value, 0);
}

static void mark_constants(const onnx_file *file, const int64_t *values, int64_t count, bool *read)
{
    for (int64_t i = 0; i < count; i++) {
        const onnx_value *v = values[i] < 0 ? NULL : &file->values[values[i]];
        if (v != NULL && v->node < 0 && v->tensor >= 0) {
            read[v->tensor] = true;
        }
    }
}

static grail_status put_constants(const onnx_file *file, int64_t node_count, const int64_t nodes[],
                                  buffer *out)
{
    grail_status status = GRAIL_OK;
    bool *read = NULL; /* of tensors */
    TRY(memory_new(&read, (size_t)file->tensor_count, sizeof read[0]));
    for (int64_t i = 0; i < node_count; i++) {
        const onnx_file_node *n = &file->nodes[nodes[i]];
        mark_constants(file, n->inputs, n->node.input_count, read);
        mark_constants(file, n->captures, n->capture_count, read);
    }
    for (int64_t t = 0; t < file->initializer_count; t++) {
        const byte_range message = file->tensors[t].message;
        if (read[t]) {
            TRY(protobuf_put_bytes(out, GRAPH_INITIALIZER, message.bytes, message.size));
        }
    }
out:
    memory_free(read);
    return status;
}

static grail_status put_numbers(const onnx_file *file, const region_numbers *n, buffer *out)
{
    const size_t tensor = out->size;
    const int64_t count = n->count;
    CHECK(n->rank > 0 ? protobuf_put_integer(out, TENSOR_SIZE, count) : GRAIL_OK);
    CHECK(protobuf_put_integer(out, TENSOR_TYPE, ONNX_INT64));
    for (int64_t i = 0; i < count; i++) {
        CHECK(protobuf_put_integer(out, TENSOR_INTEGERS64, n->items[i]));
    }
    CHECK(protobuf_put_string(out, TENSOR_NAME, file->values[n->value].name));
    return protobuf_end_message(out, GRAPH_INITIALIZER, tensor, 0);
}

static grail_status put_graph(const onnx_file *file, int64_t node_count, const int64_t nodes[],
                              int64_t number_count, const region_numbers numbers[], int input_count,
                              const region_value inputs[], int64_t output_count,
                              const int64_t outputs[], buffer *out)
{
    const size_t graph = out->size;
    for (int64_t i = 0; i < node_count; i++) {
        const byte_range field = file->nodes[nodes[i]].field;
        CHECK(buffer_append(out, field.bytes, field.size));
    }
    CHECK(protobuf_put_string(out, GRAPH_NAME, "grail"));
    CHECK(put_constants(file, node_count, nodes, out));
    for (int64_t i = 0; i < number_count; i++) {
        CHECK(put_numbers(file, &numbers[i], out));
    }
    for (int i = 0; i < input_count; i++) {
        CHECK(put_input(file, &inputs[i], out));
    }
    for (int64_t i = 0; i < output_count; i++) {
        const size_t value = out->size;
        CHECK(protobuf_put_string(out, VALUE_NAME, file->values[outputs[i]].name));
        CHECK(protobuf_end_message(out, GRAPH_OUTPUT, value, 0));
    }
    return protobuf_end_message(out, MODEL_GRAPH, graph, 0);
}

grail_status region_model_put(const onnx_file *file, int64_t node_count, const int64_t nodes[],
                              int64_t number_count, const region_numbers numbers[], int input_count,
                              const region_value inputs[], int64_t output_count,
                              const int64_t outputs[], buffer *out)
{
    const int64_t version =
        file->ir_version < OLDEST_WITH_CONSTANTS ? OLDEST_WITH_CONSTANTS : file->ir_version;
    CHECK(protobuf_put_integer(out, MODEL_IR_VERSION, version));
    for (byte_range rest = file->bytes; rest.size > 0;) {
        protobuf_field field;
        CHECK(protobuf_next(&rest, &field));
        if (field.number == MODEL_OPSET || field.number == MODEL_FUNCTION) {
            CHECK(buffer_append(out, field.whole.bytes, field.whole.size));
        }
    }
    CHECK(put_graph(file, node_count, nodes, number_count, numbers, input_count, inputs,
                    output_count, outputs, out));
    return check_message(MODEL, (byte_range){out->bytes, out->size}, 0);
}
