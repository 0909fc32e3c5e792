#include "support/onnx_reader.h"

#include "format/onnx/protobuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Field numbers are those of onnx.proto. */

static onnx_file_read file;

typedef grail_status (*protobuf_handler)(const protobuf_field *field, void *context);

/* Calls the handler for each field of a message, in order. */
static grail_status protobuf_read(byte_range message, protobuf_handler handler, void *context)
{
    while (message.size > 0) {
        protobuf_field field;
        CHECK(protobuf_next(&message, &field));
        CHECK(handler(&field, context));
    }
    return GRAIL_OK;
}

static void copy_text(const protobuf_field *f, char out[ONNX_NAME])
{
    assert_int_equal(f->wire, WIRE_BYTES);
    assert_true(f->bytes.size < ONNX_NAME);
    snprintf(out, ONNX_NAME, "%.*s", (int)f->bytes.size, (const char *)f->bytes.bytes);
}

static void unknown_field(const char *message, const protobuf_field *f)
{
    fail_msg("%s has a field %u", message, f->number);
}

typedef struct entry {
    char key[ONNX_NAME], value[ONNX_NAME];
} entry;

static grail_status read_entry(const protobuf_field *f, void *context)
{
    entry *e = context;
    copy_text(f, f->number == 1 ? e->key : e->value);
    return GRAIL_OK;
}

static void read_external(const protobuf_field *f, onnx_read_tensor *t)
{
    entry e = {0};
    assert_ok(protobuf_read(f->bytes, read_entry, &e));
    if (strcmp(e.key, "location") == 0) {
        snprintf(t->location, ONNX_NAME, "%s", e.value);
    } else if (strcmp(e.key, "offset") == 0) {
        t->offset = strtoll(e.value, NULL, 10);
    } else {
        assert_string_equal(e.key, "length");
        t->length = strtoll(e.value, NULL, 10);
    }
}

static grail_status read_tensor(const protobuf_field *f, void *context)
{
    onnx_read_tensor *t = context;
    switch (f->number) {
    case 1:
        t->shape[t->rank++] = (int64_t)f->value;
        break;
    case 2:
        t->type = (int)f->value;
        break;
    case 8:
        copy_text(f, t->name);
        break;
    case 9:
        t->raw = f->bytes.bytes;
        t->bytes = f->bytes.size;
        break;
    case 13:
        read_external(f, t);
        break;
    case 14:
        assert_int_equal(f->value, 1);
        break;
    default:
        unknown_field("a tensor", f);
    }
    return GRAIL_OK;
}

static grail_status read_attribute(const protobuf_field *f, void *context)
{
    (void)context;
    if (f->number != 1 && f->number != 2 && f->number != 3 && f->number != 8 && f->number != 20) {
        unknown_field("an attribute", f);
    }
    return GRAIL_OK;
}

static grail_status read_node(const protobuf_field *f, void *context)
{
    onnx_read_node *n = context;
    switch (f->number) {
    case 1:
        copy_text(f, n->inputs[n->input_count++]);
        break;
    case 2:
        copy_text(f, n->output);
        break;
    case 4:
        copy_text(f, n->type);
        break;
    case 5:
        n->attribute_count++;
        assert_ok(protobuf_read(f->bytes, read_attribute, NULL));
        break;
    default:
        unknown_field("a node", f);
    }
    return GRAIL_OK;
}

typedef struct value_read {
    char *name;
    int64_t *shape;
    int rank;
} value_read;

/* Goes down to the sizes: type 2 > tensor 1 > shape 2 > size 1 > value 1 or name 2. */
static grail_status read_size(const protobuf_field *f, void *context)
{
    value_read *v = context;
    assert_true(f->number == 1 || f->number == 2);
    v->shape[v->rank++] = f->number == 1 ? (int64_t)f->value : -1;
    return GRAIL_OK;
}

static grail_status read_shape(const protobuf_field *f, void *context)
{
    return protobuf_read(f->bytes, read_size, context);
}

static grail_status read_tensor_type(const protobuf_field *f, void *context)
{
    if (f->number == 1) {
        assert_int_equal(f->value, 1); /* FLOAT */
        return GRAIL_OK;
    }
    return protobuf_read(f->bytes, read_shape, context);
}

static grail_status read_type(const protobuf_field *f, void *context)
{
    assert_int_equal(f->number, 1);
    return protobuf_read(f->bytes, read_tensor_type, context);
}

static grail_status read_value(const protobuf_field *f, void *context)
{
    value_read *v = context;
    if (f->number == 1) {
        copy_text(f, v->name);
        return GRAIL_OK;
    }
    return protobuf_read(f->bytes, read_type, context);
}

static grail_status read_graph(const protobuf_field *f, void *context)
{
    onnx_file_read *r = context;
    value_read input = {.name = r->input, .shape = r->input_shape};
    value_read output = {.name = r->output, .shape = r->output_shape};
    switch (f->number) {
    case 1:
        assert_true(r->node_count < ONNX_MOST);
        return protobuf_read(f->bytes, read_node, &r->nodes[r->node_count++]);
    case 2:
        return GRAIL_OK;
    case 5:
        assert_true(r->tensor_count < ONNX_MOST);
        return protobuf_read(f->bytes, read_tensor, &r->tensors[r->tensor_count++]);
    case 11:
        return protobuf_read(f->bytes, read_value, &input);
    case 12:
        return protobuf_read(f->bytes, read_value, &output);
    default:
        unknown_field("the graph", f);
    }
    return GRAIL_OK;
}

static grail_status read_opset(const protobuf_field *f, void *context)
{
    assert_int_equal(f->number, 2);
    *(int64_t *)context = (int64_t)f->value;
    return GRAIL_OK;
}

static grail_status read_model(const protobuf_field *f, void *context)
{
    onnx_file_read *r = context;
    switch (f->number) {
    case 1:
        r->ir_version = (int64_t)f->value;
        return GRAIL_OK;
    case 2:
        return GRAIL_OK;
    case 7:
        return protobuf_read(f->bytes, read_graph, r);
    case 8:
        return protobuf_read(f->bytes, read_opset, &r->opset);
    default:
        unknown_field("the model", f);
    }
    return GRAIL_OK;
}

const onnx_file_read *onnx_read(const char *path)
{
    file_map_close(&file.map);
    file = (onnx_file_read){0};
    assert_ok(file_map_open(&file.map, path));
    assert_ok(protobuf_read((byte_range){file.map.data, file.map.size}, read_model, &file));
    return &file;
}

const onnx_read_tensor *onnx_find_tensor(const onnx_file_read *f, const char *name)
{
    for (int i = 0; i < f->tensor_count; i++) {
        if (strcmp(f->tensors[i].name, name) == 0) {
            return &f->tensors[i];
        }
    }
    return NULL;
}

int onnx_count_nodes(const onnx_file_read *f, const char *type)
{
    int count = 0;
    for (int i = 0; i < f->node_count; i++) {
        count += strcmp(f->nodes[i].type, type) == 0;
    }
    return count;
}
