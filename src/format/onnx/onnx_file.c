#include "format/onnx/onnx_file.h"

#include "format/onnx/onnx_order.h"

#include "base/utf8.h"
#include "format/onnx/onnx_fields.h"
#include "format/tensor_limits.h"

#include <stdlib.h>
#include <string.h>

/* -- memory and names -------------------------------------------------------------------------- */

typedef struct chunk {
    struct chunk *next;
    size_t used, size; /* bytes behind this head */
} chunk;

enum { CHUNK = 1 << 16, ALIGNMENT = 16, CHUNK_HEAD = 32 };
_Static_assert(sizeof(chunk) <= CHUNK_HEAD, "the head of a chunk keeps its alignment");

/* Zeroed memory that lives as long as the file. */
static grail_status take(onnx_file *file, size_t count, size_t size, void *out)
{
    size_t bytes = 0;
    if (!size_multiply(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        return error_set(GRAIL_ERROR_MEMORY, "out of memory: cannot hold %zu names", count);
    }
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (file->chunks == NULL || bytes > file->chunks->size - file->chunks->used) {
        chunk *fresh = NULL;
        const size_t room = bytes > CHUNK ? bytes : CHUNK;
        CHECK(memory_new(&fresh, CHUNK_HEAD + room, 1));
        *fresh = (chunk){.next = file->chunks, .size = room};
        file->chunks = fresh;
    }
    void *taken = (unsigned char *)file->chunks + CHUNK_HEAD + file->chunks->used;
    file->chunks->used += bytes;
    memcpy(out, &taken, sizeof taken);
    return GRAIL_OK;
}

/* A name or another text of a few words. */
static grail_status keep_text(onnx_file *file, const char *what, byte_range text, const char **out)
{
    char *copy = NULL;
    const size_t valid = utf8_valid_prefix(text.bytes, text.size);
    if (text.size > TENSOR_LONGEST_NAME) {
        return error_set(GRAIL_ERROR_FORMAT, "%s has %zu bytes, more than the allowed %d", what,
                         text.size, TENSOR_LONGEST_NAME);
    }
    if (text.size == 0) {
        *out = "";
        return GRAIL_OK;
    }
    if (valid < text.size || memchr(text.bytes, 0, text.size) != NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "%s is not UTF-8 without NUL bytes", what);
    }
    CHECK(take(file, text.size + 1, 1, &copy));
    memcpy(copy, text.bytes, text.size);
    *out = copy;
    return GRAIL_OK;
}

/* "ai.onnx" is another name of "". */
static grail_status keep_domain(onnx_file *file, byte_range text, const char **out)
{
    CHECK(keep_text(file, "a domain", text, out));
    *out = strcmp(*out, "ai.onnx") == 0 ? "" : *out;
    return GRAIL_OK;
}

/* Room for one more of nodes, values or tensors, which *items has `count` of. */
static grail_status grow(void *items, int64_t count, size_t size, const char *what)
{
    return count < TENSOR_MOST_IN_FILE
               ? memory_reserve(items, (size_t)count + 1, size)
               : error_set(GRAIL_ERROR_FORMAT, "holds more than %d %s", TENSOR_MOST_IN_FILE, what);
}

/* -- values ------------------------------------------------------------------------------------ */

static grail_status add_value(onnx_file *file, const char *name, int64_t *out)
{
    CHECK(grow(&file->values, file->value_count, sizeof file->values[0], "values"));
    *out = file->value_count++;
    file->values[*out] = (onnx_value){.name = name, .node = -1, .tensor = -1, .rank = -1};
    return *name == '\0' ? error_set(GRAIL_ERROR_FORMAT, "has a value without a name") : GRAIL_OK;
}

/* TensorShapeProto */
static grail_status take_shape(onnx_file *file, byte_range shape, onnx_value *v)
{
    for (v->rank = 0; shape.size > 0;) {
        protobuf_field field;
        byte_range symbol = {0};
        int64_t size = ONNX_ANY_SIZE;
        const protobuf_part parts[] = {{SIZE_VALUE, .integer = &size},
                                       {SIZE_NAME, .bytes = &symbol}};
        CHECK(protobuf_next(&shape, &field));
        if (field.number != SHAPE_SIZE) {
            continue;
        }
        if (v->rank == ONNX_MAX_RANK) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "has more than %d dimensions, which grail does not read",
                             ONNX_MAX_RANK);
        }
        CHECK(protobuf_take(field.bytes, 2, parts));
        CHECK(keep_text(file, "the name of a size", symbol, &v->symbols[v->rank]));
        v->shape[v->rank++] = size < 0 ? ONNX_ANY_SIZE : size;
    }
    return GRAIL_OK;
}

/* TypeProto; of a type that is no tensor nothing is taken. */
static grail_status take_type(onnx_file *file, byte_range type, onnx_value *v)
{
    byte_range tensor = {0};
    byte_range shape = {0};
    int64_t element = 0;
    const protobuf_part parts[] = {{TENSOR_TYPE_ELEMENT, .integer = &element},
                                   {TENSOR_TYPE_SHAPE, .bytes = &shape}};
    CHECK(protobuf_take(type, 1, &(protobuf_part){TYPE_TENSOR, .bytes = &tensor}));
    CHECK(protobuf_take(tensor, 2, parts));
    v->element = element > 0 && element <= INT32_MAX ? (int)element : 0;
    return shape.bytes == NULL ? GRAIL_OK : take_shape(file, shape, v);
}

/* ValueInfoProto: the number of the value and its type; -1 of one that is not known. An input is
 * added. */
static grail_status take_declared(onnx_file *file, const protobuf_field *field, const char **name,
                                  int64_t *out)
{
    byte_range message;
    byte_range text = {0};
    byte_range type = {0};
    const protobuf_part parts[] = {{VALUE_NAME, .bytes = &text}, {VALUE_TYPE, .bytes = &type}};
    CHECK(protobuf_bytes_of(field, &message));
    CHECK(protobuf_take(message, 2, parts));
    CHECK(keep_text(file, "the name of a value", text, name));
    *out = name_index_find(&file->index, *name);
    if (*out < 0 && field->number == GRAPH_INPUT) {
        CHECK(add_value(file, *name, out));
    }
    return *out < 0 ? GRAIL_OK
                    : error_in(take_type(file, type, &file->values[*out]), "value '%s'", *name);
}

static grail_status add_to_list(int64_t **list, int64_t *count, int64_t value)
{
    CHECK(grow(list, *count, sizeof **list, "inputs or outputs"));
    (*list)[(*count)++] = value;
    return GRAIL_OK;
}

static grail_status read_input(onnx_file *file, const protobuf_field *field)
{
    const char *name = NULL;
    int64_t value = -1;
    CHECK(take_declared(file, field, &name, &value));
    if (file->values[value].is_input) {
        return error_set(GRAIL_ERROR_FORMAT, "the input '%s' is declared twice", name);
    }
    file->values[value].is_input = true;
    return add_to_list(&file->inputs, &file->input_count, value);
}

static grail_status read_output(onnx_file *file, const protobuf_field *field)
{
    const char *name = NULL;
    int64_t value = -1;
    CHECK(take_declared(file, field, &name, &value));
    if (value < 0) {
        return error_set(GRAIL_ERROR_FORMAT, "the output '%s' is made by no node", name);
    }
    if (file->values[value].is_output) {
        return error_set(GRAIL_ERROR_FORMAT, "the output '%s' is declared twice", name);
    }
    file->values[value].is_output = true;
    return add_to_list(&file->outputs, &file->output_count, value);
}

/* What is said of values that nothing makes, of those in subgraphs for example, is left alone. */
static grail_status read_value(onnx_file *file, const protobuf_field *field)
{
    const char *name = NULL;
    int64_t value = -1;
    return take_declared(file, field, &name, &value);
}

/* -- tensors ----------------------------------------------------------------------------------- */

static grail_status add_tensor(onnx_file *file, const onnx_tensor *tensor, int64_t *out)
{
    CHECK(grow(&file->tensors, file->tensor_count, sizeof file->tensors[0], "tensors"));
    *out = file->tensor_count++;
    file->tensors[*out] = *tensor;
    return GRAIL_OK;
}

static grail_status read_tensor(onnx_file *file, byte_range message, int64_t *out)
{
    byte_range name = {0};
    const char *text = "";
    onnx_tensor tensor;
    const grail_status status = onnx_tensor_parse(message, &name, &tensor);
    if (status != GRAIL_OK) {
        error_prefix("tensor '%.*s'", (int)(name.size < 256 ? name.size : 256),
                     name.size == 0 ? "" : (const char *)name.bytes);
        return status;
    }
    CHECK(keep_text(file, "the name of a tensor", name, &text));
    tensor.view.name = text;
    return add_tensor(file, &tensor, out);
}

static grail_status read_initializer(onnx_file *file, const protobuf_field *field)
{
    int64_t tensor = -1;
    int64_t value = -1;
    CHECK(read_tensor(file, field->bytes, &tensor));
    CHECK(add_value(file, file->tensors[tensor].view.name, &value));
    file->values[value].tensor = tensor;
    file->initializer_count = file->tensor_count;
    return GRAIL_OK;
}

static grail_status refuse_sparse(onnx_file *file, const protobuf_field *field)
{
    byte_range values = {0};
    byte_range name = {0};
    const char *text = "";
    CHECK(protobuf_take(field->bytes, 1, &(protobuf_part){SPARSE_VALUES, .bytes = &values}));
    CHECK(protobuf_take(values, 1, &(protobuf_part){TENSOR_NAME, .bytes = &name}));
    CHECK(keep_text(file, "the name of a tensor", name, &text));
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "the initializer '%s' is sparse, which grail does not read; export the "
                     "network with dense weights",
                     text);
}

/* The number of the file of that location, which lies in the directory of the model: not above it,
 * and not where a link leads out of it. */
static grail_status open_data_file(onnx_file *file, const char *location, int64_t *out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    char *inside = NULL;
    char *real = NULL;
    for (*out = 0; *out < file->data_file_count; ++*out) {
        if (strcmp(file->data_files[*out].location, location) == 0) {
            return GRAIL_OK;
        }
    }
    if (file->directory == NULL || location[0] == '/') {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED, "has its values in '%s': %s", location,
            file->directory == NULL
                ? "a file beside the model, which is read here as one file; save it as one"
                : "not in the directory of the model; move that file there");
    }
    CHECK(grow(&file->data_files, *out, sizeof file->data_files[0], "other files"));
    CHECK(path_join(&path, file->directory, location));
    inside = realpath(file->directory, NULL);
    real = realpath(path, NULL);
    if (real == NULL || inside == NULL) {
        TRY(error_from_errno("cannot open", path));
    }
    const size_t length = strlen(inside);
    if (strncmp(real, inside, length) != 0 || (real[length] != '/' && length > 1)) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "has its values in '%s', outside the directory of the model ('%s'); copy that file "
             "into it",
             location, real);
    }
    file->data_files[*out] = (onnx_data_file){.location = location};
    TRY(file_map_open(&file->data_files[*out].map, real));
    file->data_file_count++;
out:
    memory_free(path);
    free(inside); /* realpath's own allocator */
    free(real);   /* realpath's own allocator */
    return status;
}

static grail_status find_values(onnx_file *file, onnx_tensor *t)
{
    const char *location = NULL;
    if (t->location.size == 0) {
        return GRAIL_OK;
    }
    CHECK(keep_text(file, "the name of a file", t->location, &location));
    CHECK(open_data_file(file, location, &t->data_file));
    const file_map *map = &file->data_files[t->data_file].map;
    if (t->offset > map->size || t->view.bytes > map->size - t->offset) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "has %zu bytes from byte %llu of '%s' on, which has %zu: truncated?",
                         t->view.bytes, (unsigned long long)t->offset, location, map->size);
    }
    t->view.data = t->view.bytes == 0 ? NULL : map->data + t->offset;
    return GRAIL_OK;
}

/* -- nodes ------------------------------------------------------------------------------------- */

/* Numbers of an attribute, in memory of the file. */
static grail_status take_numbers(onnx_file *file, onnx_attribute *a)
{
    const bool is_integers = a->kind == ONNX_INTEGERS;
    onnx_tensor list;
    int64_t *integers = NULL;
    float *reals = NULL;
    CHECK(onnx_tensor_of_numbers(a->message, is_integers ? ATTRIBUTE_INTEGERS : ATTRIBUTE_REALS,
                                 is_integers ? ONNX_INT64 : ONNX_FLOAT, true, &list));
    if (list.view.shape[0] > INT32_MAX) {
        return error_set(GRAIL_ERROR_FORMAT, "has more than %d numbers", INT32_MAX);
    }
    a->count = (int)list.view.shape[0];
    if (is_integers) {
        CHECK(take(file, list.view.bytes, 1, &integers));
        a->integers = integers;
        return onnx_tensor_integers(&list, integers);
    }
    CHECK(take(file, list.view.bytes, 1, &reals));
    a->reals = reals;
    return onnx_tensor_f32(&list, reals);
}

/* AttributeProto */
static grail_status read_attribute(onnx_file *file, const protobuf_field *field, onnx_attribute *a)
{
    byte_range name = {0};
    byte_range tensor = {0};
    int64_t kind = 0;
    const protobuf_part parts[] = {{ATTRIBUTE_NAME, .bytes = &name},
                                   {ATTRIBUTE_TYPE, .integer = &kind},
                                   {ATTRIBUTE_INTEGER, .integer = &a->integer},
                                   {ATTRIBUTE_TEXT, .bytes = &a->text},
                                   {ATTRIBUTE_TENSOR, .bytes = &tensor}};
    onnx_tensor real;
    float value = 0;
    *a = (onnx_attribute){.name = "", .tensor = -1};
    CHECK(protobuf_bytes_of(field, &a->message));
    CHECK(protobuf_take(a->message, sizeof parts / sizeof parts[0], parts));
    CHECK(keep_text(file, "the name of an attribute", name, &a->name));
    a->kind = (onnx_attribute_kind)(kind < 0 || kind > UINT8_MAX ? 0 : kind);
    switch (a->kind) {
    case ONNX_REAL:
        CHECK(onnx_tensor_of_numbers(a->message, ATTRIBUTE_REAL, ONNX_FLOAT, false, &real));
        CHECK(onnx_tensor_f32(&real, &value));
        a->real = (double)value;
        return GRAIL_OK;
    case ONNX_REALS:
    case ONNX_INTEGERS:
        return take_numbers(file, a);
    case ONNX_TENSOR:
        return read_tensor(file, tensor, &a->tensor);
    default:
        return GRAIL_OK;
    }
}

/* Names of inputs and outputs, and attributes; the arrays are long enough. */
static grail_status fill_node(onnx_file *file, byte_range message, onnx_node *n,
                              const char **inputs, const char **outputs, onnx_attribute *attributes)
{
    while (message.size > 0) {
        protobuf_field field;
        CHECK(protobuf_next(&message, &field));
        if (field.number == NODE_INPUT) {
            CHECK(keep_text(file, "an input", field.bytes, &inputs[n->input_count++]));
        } else if (field.number == NODE_OUTPUT) {
            CHECK(keep_text(file, "an output", field.bytes, &outputs[n->output_count++]));
        } else if (field.number == NODE_ATTRIBUTE) {
            onnx_attribute *a = &attributes[n->attribute_count++];
            const grail_status status = read_attribute(file, &field, a);
            CHECK(error_in(status, "attribute '%s'", a->name));
            for (int i = 0; i < n->attribute_count - 1; i++) {
                if (strcmp(attributes[i].name, a->name) == 0) {
                    return error_set(GRAIL_ERROR_FORMAT, "has the attribute '%s' twice", a->name);
                }
            }
        }
    }
    return GRAIL_OK;
}

/* What a Constant holds, where grail reads it; texts and sparse tensors stay bytes. */
static grail_status read_constant(onnx_file *file, const onnx_file_node *n,
                                  onnx_attribute *attributes)
{
    static const struct {
        const char *name;
        uint32_t field;
        int element;
        bool is_list;
    } kinds[] = {{"value_float", ATTRIBUTE_REAL, ONNX_FLOAT, false},
                 {"value_floats", ATTRIBUTE_REALS, ONNX_FLOAT, true},
                 {"value_int", ATTRIBUTE_INTEGER, ONNX_INT64, false},
                 {"value_ints", ATTRIBUTE_INTEGERS, ONNX_INT64, true}};
    if (n->node.output_count != 1 || n->outputs[0] < 0 || n->node.attribute_count != 1) {
        return error_set(GRAIL_ERROR_FORMAT, "has %d outputs and %d attributes, expected 1 of each",
                         n->node.output_count, n->node.attribute_count);
    }
    onnx_attribute *a = &attributes[0];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(a->name, kinds[i].name) == 0) {
            onnx_tensor made;
            CHECK(onnx_tensor_of_numbers(a->message, kinds[i].field, kinds[i].element,
                                         kinds[i].is_list, &made));
            CHECK(add_tensor(file, &made, &a->tensor));
        }
    }
    if (a->tensor >= 0) {
        file->tensors[a->tensor].view.name = n->node.outputs[0];
        file->values[n->outputs[0]].tensor = a->tensor;
    }
    return GRAIL_OK;
}

static grail_status check_operator(const onnx_node *n)
{
    static const char *const names[] = {
        "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ConvInteger",
        "MatMulInteger",  "MatMulNBits",      "DynamicQuantizeMatMul", "QGemm"};
    if (*n->operator_name == '\0') {
        return error_set(GRAIL_ERROR_FORMAT, "has no operator");
    }
    bool is_quantised = strncmp(n->operator_name, "QLinear", strlen("QLinear")) == 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        is_quantised = is_quantised || strcmp(n->operator_name, names[i]) == 0;
    }
    return is_quantised ? error_set(GRAIL_ERROR_UNSUPPORTED,
                                    "computes with quantised values, which grail does not cut; "
                                    "give the network as it was before it was quantised")
                        : GRAIL_OK;
}

static grail_status read_node_parts(onnx_file *file, byte_range message, onnx_file_node *n)
{
    byte_range texts[3] = {{0}};
    byte_range part = {0}; /* inputs, outputs and attributes are bytes, too */
    size_t counts[3] = {0};
    const protobuf_part parts[] = {{NODE_NAME, .bytes = &texts[0]},
                                   {NODE_OPERATOR, .bytes = &texts[1]},
                                   {NODE_DOMAIN, .bytes = &texts[2]},
                                   {NODE_INPUT, .bytes = &part, .count = &counts[0]},
                                   {NODE_OUTPUT, .bytes = &part, .count = &counts[1]},
                                   {NODE_ATTRIBUTE, .bytes = &part, .count = &counts[2]}};
    const char **inputs = NULL;
    const char **outputs = NULL;
    onnx_attribute *attributes = NULL;
    int64_t *numbers = NULL;
    CHECK(protobuf_take(message, sizeof parts / sizeof parts[0], parts));
    CHECK(keep_text(file, "the name of a node", texts[0], &n->node.name));
    CHECK(keep_text(file, "the name of an operator", texts[1], &n->node.operator_name));
    CHECK(keep_domain(file, texts[2], &n->node.domain));
    CHECK(check_operator(&n->node));
    if (counts[2] > ONNX_MOST_ATTRIBUTES || counts[0] > INT32_MAX || counts[1] > INT32_MAX) {
        return error_set(GRAIL_ERROR_FORMAT, "has %zu attributes, more than the allowed %d",
                         counts[2], ONNX_MOST_ATTRIBUTES);
    }
    CHECK(take(file, counts[0], sizeof *inputs, &inputs));
    CHECK(take(file, counts[1], sizeof *outputs, &outputs));
    CHECK(take(file, counts[2], sizeof *attributes, &attributes));
    CHECK(take(file, counts[1], sizeof *numbers, &numbers));
    n->node.inputs = inputs;
    n->node.outputs = outputs;
    n->node.attributes = attributes;
    n->outputs = numbers;
    CHECK(fill_node(file, message, &n->node, inputs, outputs, attributes));
    for (int i = 0; i < n->node.output_count; i++) {
        numbers[i] = -1;
        if (*outputs[i] != '\0') {
            CHECK(add_value(file, outputs[i], &numbers[i]));
            file->values[numbers[i]].node = file->node_count;
        }
    }
    return onnx_node_is(n, "Constant") ? read_constant(file, n, attributes) : GRAIL_OK;
}

static grail_status in_node(grail_status status, const onnx_file *file, int64_t i)
{
    const onnx_node *n = &file->nodes[i].node;
    return error_in(status, "node %lld%s%s%s (%s)", (long long)i, *n->name == '\0' ? "" : " '",
                    n->name, *n->name == '\0' ? "" : "'", n->operator_name);
}

static grail_status read_node(onnx_file *file, const protobuf_field *field)
{
    byte_range message;
    CHECK(grow(&file->nodes, file->node_count, sizeof file->nodes[0], "nodes"));
    onnx_file_node *n = &file->nodes[file->node_count];
    *n = (onnx_file_node){.node = {.operator_name = "", .name = "", .domain = ""},
                          .field = field->whole};
    CHECK(protobuf_bytes_of(field, &message));
    CHECK(in_node(read_node_parts(file, message, n), file, file->node_count));
    file->node_count++;
    return GRAIL_OK;
}

/* -- edges ------------------------------------------------------------------------------------- */

static grail_status capture(onnx_file *file, onnx_file_node *n, byte_range name)
{
    const char *text = NULL;
    CHECK(keep_text(file, "the name of a value", name, &text));
    const int64_t value = name_index_find(&file->index, text);
    return value < 0 ? GRAIL_OK : add_to_list(&n->captures, &n->capture_count, value);
}

static grail_status capture_attribute(onnx_file *file, onnx_file_node *n, byte_range message,
                                      int depth);

/* The outer values among what a node of a subgraph reads. */
static grail_status capture_node(onnx_file *file, onnx_file_node *n, byte_range message, int depth)
{
    while (message.size > 0) {
        protobuf_field field;
        CHECK(protobuf_next(&message, &field));
        if (field.number == NODE_INPUT) {
            CHECK(capture(file, n, field.bytes));
        } else if (field.number == NODE_ATTRIBUTE) {
            CHECK(capture_attribute(file, n, field.bytes, depth));
        }
    }
    return GRAIL_OK;
}

/* Those that a subgraph reads or gives out. A name is made once in a graph and all its subgraphs,
 * so one that the outer graph makes is not made inside. */
static grail_status capture_graph(onnx_file *file, onnx_file_node *n, byte_range message, int depth)
{
    if (depth > ONNX_DEEPEST_GRAPH) {
        return error_set(GRAIL_ERROR_FORMAT, "has subgraphs more than %d deep", ONNX_DEEPEST_GRAPH);
    }
    while (message.size > 0) {
        protobuf_field field;
        byte_range part = {0};
        CHECK(protobuf_next(&message, &field));
        if (field.number == GRAPH_NODE) {
            CHECK(capture_node(file, n, field.bytes, depth));
        } else if (field.number == GRAPH_OUTPUT) {
            CHECK(protobuf_take(field.bytes, 1, &(protobuf_part){VALUE_NAME, .bytes = &part}));
            CHECK(capture(file, n, part));
        }
    }
    return GRAIL_OK;
}

static grail_status capture_attribute(onnx_file *file, onnx_file_node *n, byte_range message,
                                      int depth)
{
    while (message.size > 0) {
        protobuf_field field;
        CHECK(protobuf_next(&message, &field));
        if (field.number == ATTRIBUTE_GRAPH || field.number == ATTRIBUTE_GRAPHS) {
            CHECK(capture_graph(file, n, field.bytes, depth + 1));
            n->has_subgraph = true;
        }
    }
    return GRAIL_OK;
}

static grail_status resolve_node(onnx_file *file, int64_t i)
{
    onnx_file_node *n = &file->nodes[i];
    int64_t *inputs = NULL;
    CHECK(take(file, (size_t)n->node.input_count, sizeof *inputs, &inputs));
    n->inputs = inputs;
    for (int j = 0; j < n->node.input_count; j++) {
        const char *name = n->node.inputs[j];
        inputs[j] = *name == '\0' ? -1 : name_index_find(&file->index, name);
        if (inputs[j] < 0 && *name != '\0') {
            return error_set(GRAIL_ERROR_FORMAT, "reads '%s', which nothing makes", name);
        }
    }
    for (int j = 0; j < n->node.attribute_count; j++) {
        CHECK(capture_attribute(file, n, n->node.attributes[j].message, 0));
    }
    return GRAIL_OK;
}

/* What an Identity makes of a constant is that constant. */
static void pass_constants(onnx_file *file)
{
    for (int64_t i = 0; i < file->node_count; i++) {
        const onnx_file_node *n = &file->nodes[i];
        if (onnx_node_is(n, "Identity") && n->node.input_count == 1 && n->node.output_count == 1 &&
            n->inputs[0] >= 0 && n->outputs[0] >= 0) {
            file->values[n->outputs[0]].tensor = file->values[n->inputs[0]].tensor;
        }
    }
}

/* -- the file ---------------------------------------------------------------------------------- */

static grail_status read_import(onnx_file *file, const protobuf_field *field)
{
    byte_range domain = {0};
    onnx_import import = {0};
    const protobuf_part parts[] = {{OPSET_DOMAIN, .bytes = &domain},
                                   {OPSET_VERSION, .integer = &import.version}};
    CHECK(protobuf_take(field->bytes, 2, parts));
    CHECK(keep_domain(file, domain, &import.domain));
    file->opset = *import.domain == '\0' ? import.version : file->opset;
    CHECK(grow(&file->imports, file->import_count, sizeof import, "operator sets"));
    file->imports[file->import_count++] = import;
    return GRAIL_OK;
}

static grail_status read_metadata(onnx_file *file, const protobuf_field *field)
{
    byte_range key = {0};
    onnx_entry entry = {0};
    const protobuf_part parts[] = {{ENTRY_KEY, .bytes = &key},
                                   {ENTRY_VALUE, .bytes = &entry.value}};
    CHECK(protobuf_take(field->bytes, 2, parts));
    CHECK(keep_text(file, "a key of the metadata", key, &entry.key));
    CHECK(grow(&file->metadata, file->metadata_count, sizeof entry, "metadata"));
    file->metadata[file->metadata_count++] = entry;
    return GRAIL_OK;
}

typedef grail_status (*field_reader)(onnx_file *file, const protobuf_field *field);

/* Reads each field of that number, which are messages. */
static grail_status read_each(onnx_file *file, byte_range message, uint32_t number,
                              field_reader read)
{
    while (message.size > 0) {
        protobuf_field field;
        byte_range bytes;
        CHECK(protobuf_next(&message, &field));
        if (field.number == number) {
            CHECK(protobuf_bytes_of(&field, &bytes));
            CHECK(read(file, &field));
        }
    }
    return GRAIL_OK;
}

static grail_status read_model(onnx_file *file)
{
    byte_range texts[2] = {{0}};
    size_t graphs = 0;
    size_t trainings = 0;
    const protobuf_part parts[] = {{MODEL_IR_VERSION, .integer = &file->ir_version},
                                   {MODEL_PRODUCER, .bytes = &texts[0]},
                                   {MODEL_PRODUCER_VERSION, .bytes = &texts[1]},
                                   {MODEL_GRAPH, .bytes = &file->graph, .count = &graphs},
                                   {MODEL_TRAINING, .count = &trainings}};
    CHECK(protobuf_take(file->bytes, sizeof parts / sizeof parts[0], parts));
    if (graphs != 1 || file->ir_version < 1) {
        return graphs == 1 ? error_set(GRAIL_ERROR_FORMAT, "has no ir_version")
                           : error_set(GRAIL_ERROR_FORMAT, "has %zu graphs, expected 1", graphs);
    }
    CHECK(keep_text(file, "the producer", texts[0], &file->producer));
    CHECK(keep_text(file, "the producer's version", texts[1], &file->producer_version));
    CHECK(read_each(file, file->bytes, MODEL_OPSET, read_import));
    CHECK(read_each(file, file->bytes, MODEL_METADATA, read_metadata));
    if (file->opset < ONNX_OLDEST_OPSET || file->opset > ONNX_NEWEST_OPSET) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "uses operator set %lld; grail reads %d to %d: convert it with "
                         "onnx.version_converter of the Python package onnx",
                         (long long)file->opset, ONNX_OLDEST_OPSET, ONNX_NEWEST_OPSET);
    }
    return trainings == 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_UNSUPPORTED,
                           "holds a graph for training (training_info), which a cut would leave "
                           "wrong; export the network for inference");
}

static grail_status index_values(onnx_file *file, const char *what)
{
    name_index_fini(&file->index);
    CHECK(name_index_init(&file->index, file->value_count, file->values, sizeof file->values[0]));
    const char *twice = name_index_twice(&file->index);
    return twice == NULL ? GRAIL_OK
                         : error_set(GRAIL_ERROR_FORMAT, "%s '%s' is made twice", what, twice);
}

/* Initializers first, since inputs may be among them, and all that is made before what reads it. */
static grail_status read_file(onnx_file *file)
{
    CHECK(read_model(file));
    CHECK(read_each(file, file->graph, GRAPH_SPARSE, refuse_sparse));
    CHECK(read_each(file, file->graph, GRAPH_INITIALIZER, read_initializer));
    CHECK(index_values(file, "the initializer"));
    CHECK(read_each(file, file->graph, GRAPH_INPUT, read_input));
    CHECK(read_each(file, file->graph, GRAPH_NODE, read_node));
    CHECK(index_values(file, "the value"));
    CHECK(read_each(file, file->graph, GRAPH_OUTPUT, read_output));
    CHECK(read_each(file, file->graph, GRAPH_VALUE, read_value));
    for (int64_t i = 0; i < file->node_count; i++) {
        CHECK(in_node(resolve_node(file, i), file, i));
    }
    CHECK(onnx_order_nodes(file));
    pass_constants(file);
    for (int64_t i = 0; i < file->tensor_count; i++) {
        onnx_tensor *t = &file->tensors[i];
        CHECK(error_in(find_values(file, t), "tensor '%s'", t->view.name));
    }
    return GRAIL_OK;
}

static grail_status open_bytes(const char *name, char **directory, byte_range bytes,
                               onnx_file **out)
{
    grail_status status = GRAIL_OK;
    onnx_file *file = NULL;
    TRY(memory_new(&file, 1, sizeof *file));
    *file = (onnx_file){.bytes = bytes, .opset = 1, .producer = "", .producer_version = ""};
    file->directory = *directory;
    *directory = NULL;
    status = name == NULL ? read_file(file) : error_in(read_file(file), "%s", name);
    if (status == GRAIL_ERROR_FORMAT) {
        error_append("; the file is damaged, or no ONNX model: export the network again");
    }
    TRY(status);
    *out = file;
    file = NULL;
out:
    onnx_file_close(file);
    return status;
}

grail_status onnx_file_open_bytes(const char *name, const void *bytes, size_t size, onnx_file **out)
{
    char *none = NULL;
    return open_bytes(name, &none, (byte_range){bytes, size}, out);
}

grail_status onnx_file_open(const char *path, onnx_file **out)
{
    grail_status status = GRAIL_OK;
    file_map map = {0};
    char *directory = NULL;
    TRY(file_map_open(&map, path));
    TRY(path_parent(&directory, path));
    TRY(open_bytes(path, &directory, (byte_range){map.data, map.size}, out));
    (*out)->map = map;
    map = (file_map){0};
out:
    memory_free(directory);
    file_map_close(&map);
    return status;
}

void onnx_file_close(onnx_file *file)
{
    if (file == NULL) {
        return;
    }
    for (int64_t i = 0; i < file->data_file_count; i++) {
        file_map_close(&file->data_files[i].map);
    }
    for (int64_t i = 0; i < file->node_count; i++) {
        memory_free(file->nodes[i].captures);
    }
    while (file->chunks != NULL) {
        chunk *next = file->chunks->next;
        memory_free(file->chunks);
        file->chunks = next;
    }
    name_index_fini(&file->index);
    memory_free(file->data_files);
    memory_free(file->tensors);
    memory_free(file->nodes);
    memory_free(file->order);
    memory_free(file->inputs);
    memory_free(file->outputs);
    memory_free(file->values);
    memory_free(file->metadata);
    memory_free(file->imports);
    memory_free(file->directory);
    file_map_close(&file->map);
    memory_free(file);
}

int64_t onnx_file_find(const onnx_file *file, const char *name)
{
    return name_index_find(&file->index, name);
}

bool onnx_node_is(const onnx_file_node *node, const char *operator_name)
{
    return *node->node.domain == '\0' && strcmp(node->node.operator_name, operator_name) == 0;
}

const onnx_attribute *onnx_node_attribute(const onnx_file_node *node, const char *name)
{
    for (int i = 0; i < node->node.attribute_count; i++) {
        if (strcmp(node->node.attributes[i].name, name) == 0) {
            return &node->node.attributes[i];
        }
    }
    return NULL;
}
