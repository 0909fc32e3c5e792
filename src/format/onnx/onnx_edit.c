#include "format/onnx/onnx_edit.h"

#include "format/onnx/onnx_fields.h"
#include "format/onnx/onnx_layout.h"
#include "format/tensor_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LARGEST_TEXT = 1 << 30, /* of what is not copied from the file */
    SMALLEST_MOVED = 1024,  /* bytes of values that go to another file where one is not enough */
    CHUNK = 1 << 15         /* values converted at once */
};

/* A tensor as it is written: its new values, and where they go. */
typedef struct written_tensor {
    tensor_view view;
    onnx_values give;
    void *context;
    void *integers; /* owned; NULL where `give` gives the values, or the file has them */
    bool is_changed;
    bool is_dropped;
    onnx_place place;
} written_tensor;

/* An input of a node that reads another value. */
typedef struct other_input {
    int input;
    const char *name; /* borrowed */
    int64_t next;     /* of the same node; 0: none */
} other_input;

typedef struct written_node {
    buffer before;     /* nodes that are added */
    buffer attributes; /* in place of its own */
    bool has_others;   /* of them */
    int64_t inputs;    /* the first one that reads another value, counted from 1; 0: none */
    bool is_removed;
} written_node;

struct onnx_edit {
    const onnx_file *file;
    written_tensor *tensors; /* those of the file, and added ones */
    int64_t added;
    other_input *inputs;
    int64_t input_count;
    written_node *nodes; /* and one more, at the end */
    bool *is_kept;       /* of values: whether their shapes stay */
    bool *is_stale;      /* of values: whether what is said of their shapes may be wrong */
    bool is_changed;
    onnx_layout layout; /* its first files are those of the file */
};

/* -- what is replaced -------------------------------------------------------------------------- */

grail_status onnx_edit_create(const onnx_file *file, onnx_edit **out)
{
    grail_status status = GRAIL_OK;
    onnx_edit *e = NULL;
    TRY(memory_new(&e, 1, sizeof *e));
    e->file = file;
    onnx_layout_init(&e->layout);
    TRY(memory_new(&e->tensors, (size_t)file->tensor_count, sizeof *e->tensors));
    TRY(memory_new(&e->nodes, (size_t)file->node_count + 1, sizeof *e->nodes));
    TRY(memory_new(&e->is_kept, (size_t)file->value_count, sizeof *e->is_kept));
    TRY(memory_new(&e->is_stale, (size_t)file->value_count, sizeof *e->is_stale));
    for (int64_t i = 0; i < file->tensor_count; i++) {
        const onnx_tensor *t = &file->tensors[i];
        e->tensors[i] = (written_tensor){.view = t->view, .place = {.file = t->data_file}};
    }
    for (int64_t i = 0; i <= file->node_count; i++) {
        buffer_init(&e->nodes[i].before, LARGEST_TEXT);
        buffer_init(&e->nodes[i].attributes, LARGEST_TEXT);
    }
    *out = e;
    e = NULL;
out:
    onnx_edit_free(e);
    return status;
}

void onnx_edit_free(onnx_edit *e)
{
    if (e == NULL) {
        return;
    }
    for (int64_t i = 0; e->tensors != NULL && i < e->file->tensor_count + e->added; i++) {
        memory_free(e->tensors[i].integers);
    }
    for (int64_t i = 0; e->nodes != NULL && i <= e->file->node_count; i++) {
        buffer_fini(&e->nodes[i].before);
        buffer_fini(&e->nodes[i].attributes);
    }
    onnx_layout_fini(&e->layout);
    memory_free(e->is_kept);
    memory_free(e->is_stale);
    memory_free(e->inputs);
    memory_free(e->nodes);
    memory_free(e->tensors);
    memory_free(e);
}

static grail_status change_tensor(onnx_edit *e, int64_t tensor, int rank, const int64_t shape[],
                                  bool takes_dtype, written_tensor **out)
{
    written_tensor *t = &e->tensors[tensor];
    if (!takes_dtype || rank < 0 || rank > ONNX_MAX_RANK || t->is_changed) {
        return error_set(GRAIL_ERROR_INTERNAL, "a change of '%s' that does not fit it",
                         t->view.name);
    }
    t->view.rank = rank;
    for (int i = 0; i < rank; i++) {
        t->view.shape[i] = shape[i];
    }
    CHECK(error_in(tensor_measure(&t->view, GRAIL_ERROR_ARGUMENT), "tensor '%s'", t->view.name));
    t->is_changed = true;
    e->is_changed = true;
    *out = t;
    return GRAIL_OK;
}

grail_status onnx_edit_tensor(onnx_edit *e, int64_t tensor, int rank, const int64_t shape[],
                              onnx_values give, void *context)
{
    written_tensor *t = NULL;
    CHECK(change_tensor(e, tensor, rank, shape, dtype_is_float(e->file->tensors[tensor].view.dtype),
                        &t));
    t->give = give;
    t->context = context;
    return GRAIL_OK;
}

static grail_status put_integers(written_tensor *t, bool is_short, const int64_t values[])
{
    CHECK(memory_new(&t->integers, t->view.bytes, 1));
    for (size_t i = 0; is_short && i < t->view.bytes / sizeof(int32_t); i++) {
        const int32_t value = (int32_t)values[i];
        memcpy((unsigned char *)t->integers + i * sizeof value, &value, sizeof value);
    }
    if (!is_short) {
        memcpy(t->integers, values, t->view.bytes);
    }
    return GRAIL_OK;
}

static bool is_of_integers(const onnx_tensor *t)
{
    return t->element == ONNX_INT32 || t->element == ONNX_INT64;
}

grail_status onnx_edit_integers(onnx_edit *e, int64_t tensor, int rank, const int64_t shape[],
                                const int64_t values[])
{
    const onnx_tensor *own = &e->file->tensors[tensor];
    written_tensor *t = NULL;
    CHECK(change_tensor(e, tensor, rank, shape, is_of_integers(own), &t));
    return put_integers(t, own->element == ONNX_INT32, values);
}

grail_status onnx_edit_attributes(onnx_edit *e, int64_t node, int count,
                                  const onnx_attribute attributes[])
{
    written_node *n = &e->nodes[node];
    n->attributes.size = 0;
    n->has_others = true;
    e->is_changed = true;
    for (int i = 0; i < count; i++) {
        CHECK(onnx_put_attribute(&n->attributes, &attributes[i]));
    }
    return GRAIL_OK;
}

void onnx_edit_remove(onnx_edit *e, int64_t node)
{
    e->nodes[node].is_removed = true;
    e->is_changed = true;
}

void onnx_edit_drop(onnx_edit *e, int64_t tensor)
{
    e->tensors[tensor].is_dropped = true;
    e->is_changed = true;
}

void onnx_edit_keep(onnx_edit *e, int64_t value)
{
    e->is_kept[value] = true;
}

static grail_status add_tensor(onnx_edit *e, const char *name, grail_dtype dtype, int rank,
                               const int64_t shape[], bool takes_dtype, written_tensor **out)
{
    const int64_t at = e->file->tensor_count + e->added;
    CHECK(memory_reserve(&e->tensors, (size_t)at + 1, sizeof e->tensors[0]));
    e->tensors[at] =
        (written_tensor){.view = {.name = name, .dtype = dtype}, .place = {.file = -1}};
    CHECK(change_tensor(e, at, rank, shape, takes_dtype, out));
    e->added++;
    return GRAIL_OK;
}

grail_status onnx_edit_add(onnx_edit *e, const char *name, int64_t like, int rank,
                           const int64_t shape[], int64_t *out)
{
    const grail_dtype dtype = e->file->tensors[like].view.dtype;
    written_tensor *t = NULL;
    *out = e->file->tensor_count + e->added;
    return add_tensor(e, name, dtype, rank, shape, dtype_is_float(dtype), &t);
}

grail_status onnx_edit_add_values(onnx_edit *e, const tensor_view *values)
{
    written_tensor *t = NULL;
    CHECK(add_tensor(e, values->name, values->dtype, values->rank, values->shape,
                     dtype_is_float(values->dtype), &t));
    t->view.data = values->data;
    return GRAIL_OK;
}

grail_status onnx_edit_add_integers(onnx_edit *e, const char *name, int64_t like,
                                    const int64_t values[])
{
    const onnx_tensor *as = &e->file->tensors[like];
    written_tensor *t = NULL;
    CHECK(
        add_tensor(e, name, as->view.dtype, as->view.rank, as->view.shape, is_of_integers(as), &t));
    return put_integers(t, as->element == ONNX_INT32, values);
}

grail_status onnx_edit_input(onnx_edit *e, int64_t node, int input, const char *name)
{
    written_node *n = &e->nodes[node];
    CHECK(memory_reserve(&e->inputs, (size_t)e->input_count + 1, sizeof e->inputs[0]));
    e->inputs[e->input_count++] = (other_input){input, name, n->inputs};
    n->inputs = e->input_count;
    e->is_changed = true;
    return GRAIL_OK;
}

grail_status onnx_edit_insert(onnx_edit *e, int64_t before, const onnx_node *n)
{
    e->is_changed = true;
    return onnx_put_node(&e->nodes[before].before, n);
}

/* -- what a change reaches --------------------------------------------------------------------- */

static bool has_other_shape(const onnx_edit *e, int64_t tensor)
{
    const tensor_view *old = &e->file->tensors[tensor].view;
    const written_tensor *t = &e->tensors[tensor];
    return t->is_changed &&
           (t->integers != NULL || t->view.rank != old->rank ||
            memcmp(t->view.shape, old->shape, (size_t)old->rank * sizeof old->shape[0]) != 0);
}

static bool reads_stale(const onnx_edit *e, const int64_t *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (values[i] >= 0 && e->is_stale[values[i]]) {
            return true;
        }
    }
    return false;
}

/* Integers may be shapes, so all that is behind changed ones may have another. */
static void mark_stale(onnx_edit *e)
{
    const onnx_file *file = e->file;
    for (int64_t i = 0; i < file->value_count; i++) {
        e->is_stale[i] = file->values[i].tensor >= 0 && has_other_shape(e, file->values[i].tensor);
    }
    for (int64_t i = 0; i < file->node_count; i++) {
        const onnx_file_node *n = &file->nodes[i];
        const bool is_stale = e->nodes[i].is_removed || e->nodes[i].has_others ||
                              e->nodes[i].inputs > 0 ||
                              reads_stale(e, n->inputs, n->node.input_count) ||
                              reads_stale(e, n->captures, n->capture_count);
        for (int j = 0; is_stale && j < n->node.output_count; j++) {
            if (n->outputs[j] >= 0) {
                e->is_stale[n->outputs[j]] = !e->is_kept[n->outputs[j]];
            }
        }
    }
}

/* -- layout ------------------------------------------------------------------------------------ */

static grail_status add_text(onnx_layout *l, const buffer *text)
{
    CHECK(buffer_append(&l->text, text->bytes, text->size));
    return onnx_layout_text(l);
}

static bool is_as_before(const onnx_edit *e, int64_t tensor)
{
    return tensor < 0 || (!e->tensors[tensor].is_changed && !e->tensors[tensor].place.is_laid);
}

/* TensorProto, or for a Constant of numbers the tensor that takes their place. */
static grail_status lay_tensor(onnx_edit *e, int64_t tensor, uint32_t field)
{
    onnx_layout *l = &e->layout;
    written_tensor *t = &e->tensors[tensor];
    const onnx_tensor *old = &e->file->tensors[tensor];
    onnx_open_field open;
    CHECK(onnx_layout_begin(&e->layout, &open));
    CHECK(onnx_put_sizes(&e->layout.text, t->view.rank, t->view.shape));
    if (old->is_numbers) {
        CHECK(protobuf_put_integer(&e->layout.text, TENSOR_TYPE, old->element));
    }
    CHECK(onnx_layout_text(&e->layout));
    for (byte_range rest = old->message; rest.size > 0 && !old->is_numbers;) {
        protobuf_field part;
        CHECK(protobuf_next(&rest, &part));
        CHECK(onnx_holds_values(part.number) ? GRAIL_OK : onnx_layout_keep(&e->layout, part.whole));
    }
    CHECK(onnx_layout_values(l, t->view.bytes, &t->place));
    return onnx_layout_end(&e->layout, field, open);
}

/* An attribute whose tensor changes. */
static grail_status lay_attribute(onnx_edit *e, const onnx_attribute *a)
{
    onnx_open_field open;
    CHECK(onnx_layout_begin(&e->layout, &open));
    if (e->file->tensors[a->tensor].is_numbers) {
        CHECK(protobuf_put_string(&e->layout.text, ATTRIBUTE_NAME, "value"));
        CHECK(protobuf_put_integer(&e->layout.text, ATTRIBUTE_TYPE, ONNX_TENSOR));
        CHECK(onnx_layout_text(&e->layout));
    }
    for (byte_range rest = a->message; rest.size > 0 && !e->file->tensors[a->tensor].is_numbers;) {
        protobuf_field part;
        CHECK(protobuf_next(&rest, &part));
        CHECK(part.number == ATTRIBUTE_TENSOR ? GRAIL_OK
                                              : onnx_layout_keep(&e->layout, part.whole));
    }
    CHECK(lay_tensor(e, a->tensor, ATTRIBUTE_TENSOR));
    return onnx_layout_end(&e->layout, NODE_ATTRIBUTE, open);
}

/* Input i, as the file has it or reading another value. */
static grail_status lay_input(onnx_edit *e, const written_node *w, int i, byte_range whole)
{
    for (int64_t k = w->inputs; k > 0; k = e->inputs[k - 1].next) {
        if (e->inputs[k - 1].input == i) {
            CHECK(protobuf_put_string(&e->layout.text, NODE_INPUT, e->inputs[k - 1].name));
            return onnx_layout_text(&e->layout);
        }
    }
    return onnx_layout_keep(&e->layout, whole);
}

static grail_status lay_node_parts(onnx_edit *e, const onnx_file_node *n, const written_node *w)
{
    byte_range rest = n->field;
    protobuf_field field;
    const onnx_attribute *a = n->node.attributes;
    int input = 0;
    CHECK(protobuf_next(&rest, &field));
    for (rest = field.bytes; rest.size > 0;) {
        CHECK(protobuf_next(&rest, &field));
        if (field.number == NODE_INPUT) {
            CHECK(lay_input(e, w, input++, field.whole));
        } else if (field.number != NODE_ATTRIBUTE) {
            CHECK(onnx_layout_keep(&e->layout, field.whole));
        } else if (!w->has_others) {
            CHECK(is_as_before(e, a->tensor) ? onnx_layout_keep(&e->layout, field.whole)
                                             : lay_attribute(e, a));
            a++;
        }
    }
    return add_text(&e->layout, &w->attributes);
}

static grail_status lay_node(onnx_edit *e, int64_t i)
{
    const onnx_file_node *n = &e->file->nodes[i];
    const written_node *w = &e->nodes[i];
    bool has_changed = false; /* tensors of attributes */
    onnx_open_field open;
    CHECK(add_text(&e->layout, &w->before));
    for (int j = 0; j < n->node.attribute_count; j++) {
        has_changed = has_changed || !is_as_before(e, n->node.attributes[j].tensor);
    }
    if (w->is_removed || (!has_changed && !w->has_others && w->inputs == 0)) {
        return w->is_removed ? GRAIL_OK : onnx_layout_keep(&e->layout, n->field);
    }
    if (has_changed && w->has_others) {
        return error_set(GRAIL_ERROR_INTERNAL, "node %lld: a changed tensor is lost", (long long)i);
    }
    CHECK(onnx_layout_begin(&e->layout, &open));
    CHECK(lay_node_parts(e, n, w));
    return onnx_layout_end(&e->layout, GRAPH_NODE, open);
}

/* What is said of a value: nothing of a stale one but that an initializer is an input, too, which
 * has another shape now. */
static grail_status lay_value(onnx_edit *e, const protobuf_field *field)
{
    byte_range name = {0};
    char text[TENSOR_LONGEST_NAME + 1];
    CHECK(protobuf_take(field->bytes, 1, &(protobuf_part){VALUE_NAME, .bytes = &name}));
    snprintf(text, sizeof text, "%.*s", (int)name.size, (const char *)name.bytes);
    const int64_t value = onnx_file_find(e->file, text);
    if (value >= 0 && e->file->values[value].node < 0 && e->file->values[value].tensor >= 0 &&
        e->tensors[e->file->values[value].tensor].is_dropped) {
        return GRAIL_OK;
    }
    if (value < 0 || !e->is_stale[value]) {
        return onnx_layout_keep(&e->layout, field->whole);
    }
    if (field->number == GRAPH_VALUE) {
        return GRAIL_OK;
    }
    const int64_t tensor = e->file->values[value].tensor;
    const tensor_view *view = &e->tensors[tensor].view;
    CHECK(onnx_put_value(&e->layout.text, GRAPH_INPUT, text, e->file->tensors[tensor].element,
                         view->rank, view->shape));
    return onnx_layout_text(&e->layout);
}

/* Before IR version 4 an initializer is an input, too. */
static grail_status lay_added(onnx_edit *e, int64_t tensor)
{
    onnx_layout *l = &e->layout;
    written_tensor *t = &e->tensors[tensor];
    onnx_open_field open;
    if (e->file->ir_version < 4) {
        CHECK(onnx_put_value(&l->text, GRAPH_INPUT, t->view.name, onnx_element_of(t->view.dtype),
                             t->view.rank, t->view.shape));
        CHECK(onnx_layout_text(l));
    }
    CHECK(onnx_layout_begin(l, &open));
    CHECK(onnx_put_sizes(&l->text, t->view.rank, t->view.shape));
    CHECK(protobuf_put_integer(&l->text, TENSOR_TYPE, onnx_element_of(t->view.dtype)));
    CHECK(protobuf_put_string(&l->text, TENSOR_NAME, t->view.name));
    CHECK(onnx_layout_text(l));
    CHECK(onnx_layout_values(l, t->view.bytes, &t->place));
    return onnx_layout_end(l, GRAPH_INITIALIZER, open);
}

static grail_status lay_graph(onnx_edit *e)
{
    int64_t node = 0;
    int64_t tensor = 0;
    for (byte_range rest = e->file->graph; rest.size > 0;) {
        protobuf_field field;
        CHECK(protobuf_next(&rest, &field));
        if (field.number == GRAPH_NODE) {
            CHECK(lay_node(e, e->file->order == NULL ? node : e->file->order[node]));
            node++;
        } else if (field.number == GRAPH_INITIALIZER && e->tensors[tensor].is_dropped) {
            tensor++;
        } else if (field.number == GRAPH_INITIALIZER && !is_as_before(e, tensor)) {
            CHECK(lay_tensor(e, tensor++, GRAPH_INITIALIZER));
        } else if (field.number == GRAPH_INPUT || field.number == GRAPH_VALUE) {
            CHECK(lay_value(e, &field));
        } else {
            tensor += field.number == GRAPH_INITIALIZER;
            CHECK(onnx_layout_keep(&e->layout, field.whole));
        }
    }
    CHECK(add_text(&e->layout, &e->nodes[node].before));
    for (int64_t i = 0; i < e->added; i++) {
        CHECK(lay_added(e, e->file->tensor_count + i));
    }
    return GRAIL_OK;
}

static grail_status lay_model(onnx_edit *e)
{
    onnx_layout_restart(&e->layout);
    if (!e->is_changed) {
        return onnx_layout_keep(&e->layout, e->file->bytes);
    }
    for (byte_range rest = e->file->bytes; rest.size > 0;) {
        protobuf_field field;
        onnx_open_field open;
        CHECK(protobuf_next(&rest, &field));
        if (field.number != MODEL_GRAPH) {
            CHECK(onnx_layout_keep(&e->layout, field.whole));
            continue;
        }
        CHECK(onnx_layout_begin(&e->layout, &open));
        CHECK(lay_graph(e));
        CHECK(onnx_layout_end(&e->layout, MODEL_GRAPH, open));
    }
    return GRAIL_OK;
}

/* -- other files ------------------------------------------------------------------------------- */

static void move(onnx_edit *e, int64_t tensor, int64_t file)
{
    written_tensor *t = &e->tensors[tensor];
    onnx_layout_move(&e->layout, file, t->view.bytes, &t->place);
    e->is_changed = true;
}

/* Files in which a tensor changes are laid out anew, the others copied. */
static grail_status place_files(onnx_edit *e)
{
    const onnx_file *file = e->file;
    grail_status status = GRAIL_OK;
    bool *changes = NULL;
    CHECK(memory_new(&changes, (size_t)file->data_file_count, sizeof *changes));
    for (int64_t i = 0; i < file->data_file_count; i++) {
        int64_t number = i;
        const char *location = file->data_files[i].location;
        if (strchr(location, '/') != NULL) {
            FAIL(GRAIL_ERROR_UNSUPPORTED,
                 "the values in '%s' are in a directory of their own, which grail does not write; "
                 "save the model with values beside it",
                 location);
        }
        TRY(onnx_layout_add_file(&e->layout, NULL, location, &number));
    }
    for (int64_t i = 0; i < file->tensor_count; i++) {
        if (e->tensors[i].is_changed && e->tensors[i].place.file >= 0) {
            changes[e->tensors[i].place.file] = true;
        }
    }
    for (int64_t i = 0; i < file->tensor_count; i++) {
        const int64_t number = e->tensors[i].place.file;
        if (number >= 0 && changes[number]) {
            move(e, i, number);
        }
    }
out:
    memory_free(changes);
    return status;
}

/* Gives the initializers a file, since the model cannot hold them. */
static grail_status move_out(onnx_edit *e, const char *path)
{
    int64_t file = -1;
    CHECK(onnx_layout_add_file(&e->layout, path, NULL, &file));
    for (int64_t i = 0; i < e->file->initializer_count; i++) {
        const written_tensor *t = &e->tensors[i];
        if (t->place.file < 0 && t->view.bytes >= SMALLEST_MOVED) {
            move(e, i, file);
        }
    }
    return GRAIL_OK;
}

/* -- writing ----------------------------------------------------------------------------------- */

static grail_status check_size(size_t size)
{
    return size <= ONNX_LARGEST_FILE
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_UNSUPPORTED,
                           "takes %zu bytes, more than the %lld that one ONNX file holds", size,
                           (long long)ONNX_LARGEST_FILE);
}

static grail_status write_given(const onnx_edit *e, const written_tensor *t)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    unsigned char *bytes = NULL;
    const size_t width = dtype_bits(t->view.dtype) / 8;
    const int64_t all = (int64_t)(t->view.bytes / width);
    TRY(memory_new_unset(&values, CHUNK, sizeof *values));
    TRY(memory_new_unset(&bytes, CHUNK, width));
    for (int64_t first = 0; first < all; first += CHUNK) {
        const int64_t count = all - first < CHUNK ? all - first : CHUNK;
        TRY(t->give(t->context, first, count, values));
        TRY(convert_from_f32(t->view.dtype, values, count, bytes));
        TRY(onnx_layout_put(&e->layout, &t->place, (uint64_t)first * width, bytes,
                            (size_t)count * width));
    }
out:
    memory_free(values);
    memory_free(bytes);
    return status;
}

static grail_status write_tensor(const onnx_edit *e, int64_t tensor)
{
    const written_tensor *t = &e->tensors[tensor];
    grail_status status = GRAIL_OK;
    void *loaded = NULL;
    const void *bytes = t->integers != NULL ? t->integers : t->view.data;
    if (t->give != NULL) {
        return error_in(write_given(e, t), "tensor '%s'", t->view.name);
    }
    if (bytes == NULL) {
        TRY(memory_new_unset(&loaded, t->view.bytes, 1));
        TRY(onnx_tensor_load(&e->file->tensors[tensor], loaded));
        bytes = loaded;
    }
    TRY(onnx_layout_put(&e->layout, &t->place, 0, bytes, t->view.bytes));
out:
    memory_free(loaded);
    return status;
}

grail_status onnx_edit_write(onnx_edit *e, const char *path, int64_t largest)
{
    onnx_layout *l = &e->layout;
    mark_stale(e);
    CHECK(place_files(e));
    CHECK(lay_model(e));
    if (l->size > (size_t)largest && e->is_changed) {
        CHECK(move_out(e, path));
        CHECK(lay_model(e));
    }
    CHECK(onnx_layout_write(l, path));
    for (int64_t i = 0; i < e->file->data_file_count; i++) {
        const file_map *map = &e->file->data_files[i].map;
        if (l->files[i].end == 0) {
            CHECK(onnx_layout_put(l, &(onnx_place){.file = i}, 0, map->data, map->size));
        }
    }
    for (int64_t i = 0; i < e->file->tensor_count; i++) {
        CHECK(e->tensors[i].place.is_laid ? write_tensor(e, i) : GRAIL_OK);
    }
    return onnx_layout_commit(l);
}

grail_status onnx_edit_gather(onnx_edit *e, unsigned char **out, size_t *size)
{
    unsigned char *bytes = NULL;
    mark_stale(e);
    CHECK(lay_model(e));
    CHECK(check_size(e->layout.size));
    CHECK(memory_new_unset(&bytes, e->layout.size, 1));
    onnx_layout_gather(&e->layout, bytes);
    for (int64_t i = 0; i < e->file->tensor_count + e->added; i++) {
        const written_tensor *t = &e->tensors[i];
        if (t->is_changed && t->view.bytes > 0) {
            memcpy(bytes + t->place.offset, t->view.data, t->view.bytes);
        }
    }
    *out = bytes;
    *size = e->layout.size;
    return GRAIL_OK;
}

grail_status onnx_edit_join(const onnx_file *file, unsigned char **out, size_t *size)
{
    grail_status status = GRAIL_OK;
    onnx_edit *e = NULL;
    CHECK(onnx_edit_create(file, &e));
    for (int64_t i = 0; i < file->tensor_count; i++) {
        written_tensor *t = &e->tensors[i];
        t->is_changed = t->place.file >= 0;
        t->place.file = -1;
        e->is_changed = e->is_changed || t->is_changed;
    }
    TRY(onnx_edit_gather(e, out, size));
out:
    onnx_edit_free(e);
    return status;
}

static int compare_holes(const void *a, const void *b)
{
    const uintptr_t left = (uintptr_t)((const onnx_hole *)a)->values.bytes;
    const uintptr_t right = (uintptr_t)((const onnx_hole *)b)->values.bytes;
    return left < right ? -1 : left > right;
}

grail_status onnx_edit_lay_out(onnx_edit *e, const bool is_later[], file_layout *out,
                               size_t places[])
{
    grail_status status = GRAIL_OK;
    const onnx_file *file = e->file;
    onnx_hole *holes = NULL;
    size_t count = 0;
    CHECK(memory_new(&holes, (size_t)file->tensor_count, sizeof *holes));
    mark_stale(e);
    TRY(lay_model(e));
    for (int64_t i = 0; i < file->tensor_count; i++) {
        const tensor_view *v = &file->tensors[i].view;
        places[i] = 0;
        if (is_later[i] && !e->tensors[i].is_changed && v->data != NULL && v->bytes > 0) {
            holes[count++] = (onnx_hole){{v->data, v->bytes}, &places[i]};
        }
    }
    if (count > 0) {
        qsort(holes, count, sizeof holes[0], compare_holes);
    }
    TRY(onnx_layout_describe(&e->layout, count, holes, out));
    for (int64_t i = 0; i < file->tensor_count + e->added; i++) {
        const written_tensor *t = &e->tensors[i];
        places[i] = i >= file->tensor_count || t->place.is_laid ? t->place.offset : places[i];
        if (t->integers != NULL) { /* which are known already */
            TRY(file_layout_add(out, t->integers, t->view.bytes, places[i]));
        }
    }
    TRY(check_size(out->file_size));
out:
    memory_free(holes);
    return status;
}
