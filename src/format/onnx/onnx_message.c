#include "format/onnx/onnx_message.h"

#include "format/onnx/onnx_fields.h"

#include <stdio.h>

grail_status onnx_put_attribute(buffer *out, const onnx_attribute *a)
{
    const size_t begin = out->size;
    if (a->message.size > 0) {
        return protobuf_put_bytes(out, NODE_ATTRIBUTE, a->message.bytes, a->message.size);
    }
    CHECK(protobuf_put_string(out, ATTRIBUTE_NAME, a->name));
    CHECK(protobuf_put_integer(out, ATTRIBUTE_TYPE, a->kind));
    if (a->kind == ONNX_INTEGER) {
        CHECK(protobuf_put_integer(out, ATTRIBUTE_INTEGER, a->integer));
    } else if (a->kind == ONNX_REAL) {
        CHECK(protobuf_put_f32(out, ATTRIBUTE_REAL, (float)a->real));
    }
    for (int i = 0; a->kind == ONNX_INTEGERS && i < a->count; i++) {
        CHECK(protobuf_put_integer(out, ATTRIBUTE_INTEGERS, a->integers[i]));
    }
    return protobuf_end_message(out, NODE_ATTRIBUTE, begin, 0);
}

static grail_status put_text(buffer *out, uint32_t field, const char *text)
{
    return text == NULL || *text == '\0' ? GRAIL_OK : protobuf_put_string(out, field, text);
}

grail_status onnx_put_node(buffer *out, const onnx_node *n)
{
    const size_t begin = out->size;
    for (int i = 0; i < n->input_count; i++) {
        CHECK(protobuf_put_string(out, NODE_INPUT, n->inputs[i]));
    }
    for (int i = 0; i < n->output_count; i++) {
        CHECK(protobuf_put_string(out, NODE_OUTPUT, n->outputs[i]));
    }
    CHECK(put_text(out, NODE_NAME, n->name));
    CHECK(protobuf_put_string(out, NODE_OPERATOR, n->operator_name));
    for (int i = 0; i < n->attribute_count; i++) {
        CHECK(onnx_put_attribute(out, &n->attributes[i]));
    }
    CHECK(put_text(out, NODE_DOMAIN, n->domain));
    return protobuf_end_message(out, GRAPH_NODE, begin, 0);
}

/* TensorShapeProto */
static grail_status put_shape(buffer *out, int rank, const int64_t shape[])
{
    for (int i = 0; i < rank; i++) {
        const size_t begin = out->size;
        CHECK(shape[i] == ONNX_ANY_SIZE ? protobuf_put_string(out, SIZE_NAME, "N")
                                        : protobuf_put_integer(out, SIZE_VALUE, shape[i]));
        CHECK(protobuf_end_message(out, SHAPE_SIZE, begin, 0));
    }
    return GRAIL_OK;
}

grail_status onnx_put_value(buffer *out, uint32_t field, const char *name, int element, int rank,
                            const int64_t shape[])
{
    const size_t value = out->size;
    CHECK(protobuf_put_string(out, VALUE_NAME, name));
    const size_t type = out->size; /* a message that is a tensor */
    CHECK(protobuf_put_integer(out, TENSOR_TYPE_ELEMENT, element));
    const size_t sizes = out->size;
    CHECK(put_shape(out, rank, shape));
    CHECK(protobuf_end_message(out, TENSOR_TYPE_SHAPE, sizes, 0));
    CHECK(protobuf_end_message(out, TYPE_TENSOR, type, 0));
    CHECK(protobuf_end_message(out, VALUE_TYPE, type, 0));
    return protobuf_end_message(out, field, value, 0);
}

grail_status onnx_put_sizes(buffer *out, int rank, const int64_t shape[])
{
    for (int i = 0; i < rank; i++) {
        CHECK(protobuf_put_integer(out, TENSOR_SIZE, shape[i]));
    }
    return GRAIL_OK;
}

/* "key": text, one entry of external_data */
static grail_status put_entry(buffer *out, const char *key, const char *text)
{
    const size_t begin = out->size;
    CHECK(protobuf_put_string(out, ENTRY_KEY, key));
    CHECK(protobuf_put_string(out, ENTRY_VALUE, text));
    return protobuf_end_message(out, TENSOR_EXTERNAL, begin, 0);
}

grail_status onnx_put_location(buffer *out, const char *file, uint64_t offset, uint64_t bytes)
{
    char text[24];
    CHECK(put_entry(out, "location", file));
    snprintf(text, sizeof text, "%llu", (unsigned long long)offset);
    CHECK(put_entry(out, "offset", text));
    snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    CHECK(put_entry(out, "length", text));
    return protobuf_put_integer(out, TENSOR_LOCATION, LOCATION_EXTERNAL);
}
