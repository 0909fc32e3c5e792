#include "format/onnx/onnx_edit.h"

#include "base/output_file.h"
#include "format/onnx/onnx_fields.h"
#include "format/tensor_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    LARGEST_TEXT = 1 << 30, /* of what is not copied from the file */
    PAGE = 4096,            /* alignment of values in another file, so that they can be mapped */
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
    int64_t file; /* -1: the model itself */
    uint64_t offset;
    bool is_moved; /* to another file, or another place there */
} written_tensor;

typedef struct written_node {
    buffer before;     /* nodes that are added */
    buffer attributes; /* in place of its own */
    bool has_others;   /* of them */
    bool is_removed;
} written_node;

/* Another file of values: a copy, or with `is_laid` what tensors have there. */
typedef struct written_data {
    char *location; /* owned; NULL where none is written */
    output_file file;
    bool is_laid;
    uint64_t end;
} written_data;

/* Bytes of the model: those of the file or of `text`, or the values of a tensor. */
typedef struct piece {
    const unsigned char *bytes; /* NULL: from `at` in the text on */
    size_t at, size;
    int64_t tensor; /* -1: bytes */
} piece;

struct onnx_edit {
    const onnx_file *file;
    written_tensor *tensors;
    written_node *nodes; /* and one more, at the end */
    bool *is_stale;      /* of values: whether what is said of their shapes may be wrong */
    piece *pieces;
    size_t piece_count;
    buffer text;
    size_t taken; /* of the text, by pieces */
    size_t size;  /* of all pieces */
    bool is_changed;
    written_data *data; /* as many as the file has, and one */
    output_file model;
};

/* -- what is replaced -------------------------------------------------------------------------- */

grail_status onnx_edit_create(const onnx_file *file, onnx_edit **out)
{
    grail_status status = GRAIL_OK;
    onnx_edit *e = NULL;
    const size_t files = (size_t)file->data_file_count + 1;
    TRY(memory_new(&e, 1, sizeof *e));
    e->file = file;
    e->model.descriptor = -1;
    TRY(memory_new(&e->tensors, (size_t)file->tensor_count, sizeof *e->tensors));
    TRY(memory_new(&e->nodes, (size_t)file->node_count + 1, sizeof *e->nodes));
    TRY(memory_new(&e->is_stale, (size_t)file->value_count, sizeof *e->is_stale));
    TRY(memory_new(&e->data, files, sizeof *e->data));
    for (int64_t i = 0; i < file->tensor_count; i++) {
        e->tensors[i] =
            (written_tensor){.view = file->tensors[i].view, .file = file->tensors[i].data_file};
    }
    for (int64_t i = 0; i <= file->node_count; i++) {
        buffer_init(&e->nodes[i].before, LARGEST_TEXT);
        buffer_init(&e->nodes[i].attributes, LARGEST_TEXT);
    }
    for (size_t i = 0; i < files; i++) {
        e->data[i].file.descriptor = -1;
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
    for (int64_t i = 0; e->tensors != NULL && i < e->file->tensor_count; i++) {
        memory_free(e->tensors[i].integers);
    }
    for (int64_t i = 0; e->nodes != NULL && i <= e->file->node_count; i++) {
        buffer_fini(&e->nodes[i].before);
        buffer_fini(&e->nodes[i].attributes);
    }
    for (int64_t i = 0; e->data != NULL && i <= e->file->data_file_count; i++) {
        output_file_fini(&e->data[i].file);
        memory_free(e->data[i].location);
    }
    output_file_fini(&e->model);
    buffer_fini(&e->text);
    memory_free(e->pieces);
    memory_free(e->data);
    memory_free(e->is_stale);
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

grail_status onnx_edit_integers(onnx_edit *e, int64_t tensor, int rank, const int64_t shape[],
                                const int64_t values[])
{
    written_tensor *t = NULL;
    CHECK(
        change_tensor(e, tensor, rank, shape, e->file->tensors[tensor].element == ONNX_INT64, &t));
    CHECK(memory_new(&t->integers, t->view.bytes, 1));
    memcpy(t->integers, values, t->view.bytes);
    return GRAIL_OK;
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
                              reads_stale(e, n->inputs, n->node.input_count) ||
                              reads_stale(e, n->captures, n->capture_count);
        for (int j = 0; is_stale && j < n->node.output_count; j++) {
            if (n->outputs[j] >= 0) {
                e->is_stale[n->outputs[j]] = true;
            }
        }
    }
}

/* -- layout ------------------------------------------------------------------------------------ */

static grail_status add_piece(onnx_edit *e, piece p)
{
    piece *last = e->piece_count == 0 ? NULL : &e->pieces[e->piece_count - 1];
    if (!size_add(e->size, p.size, &e->size)) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the model takes more bytes than a file can hold");
    }
    if (last != NULL && p.bytes != NULL && last->bytes != NULL &&
        last->bytes + last->size == p.bytes) {
        last->size += p.size;
        return GRAIL_OK;
    }
    CHECK(memory_reserve(&e->pieces, e->piece_count + 1, sizeof p));
    e->pieces[e->piece_count++] = p;
    return GRAIL_OK;
}

static grail_status keep(onnx_edit *e, byte_range bytes)
{
    return bytes.size == 0 ? GRAIL_OK
                           : add_piece(e, (piece){bytes.bytes, .size = bytes.size, .tensor = -1});
}

/* A piece of what was appended to the text since the last one. */
static grail_status take_text(onnx_edit *e)
{
    const size_t at = e->taken;
    e->taken = e->text.size;
    return add_piece(e, (piece){.at = at, .size = e->text.size - at, .tensor = -1});
}

static grail_status add_text(onnx_edit *e, const buffer *text)
{
    CHECK(buffer_append(&e->text, text->bytes, text->size));
    return text->size == 0 ? GRAIL_OK : take_text(e);
}

/* A field whose size is known when its end is: an empty piece that becomes its header. */
typedef struct open_field {
    size_t piece, size;
} open_field;

static grail_status begin_field(onnx_edit *e, open_field *out)
{
    CHECK(add_piece(e, (piece){.tensor = -1}));
    *out = (open_field){e->piece_count - 1, e->size};
    return GRAIL_OK;
}

static grail_status end_field(onnx_edit *e, uint32_t field, open_field open)
{
    piece *header = &e->pieces[open.piece];
    header->at = e->text.size;
    CHECK(protobuf_put_header(&e->text, field, e->size - open.size));
    header->size = e->text.size - header->at;
    e->taken = e->text.size;
    e->size += header->size;
    return GRAIL_OK;
}

static bool is_as_before(const onnx_edit *e, int64_t tensor)
{
    return tensor < 0 || (!e->tensors[tensor].is_changed && !e->tensors[tensor].is_moved);
}

/* TensorProto, or for a Constant of numbers the tensor that takes their place. */
static grail_status lay_tensor(onnx_edit *e, int64_t tensor, uint32_t field)
{
    const written_tensor *t = &e->tensors[tensor];
    const onnx_tensor *old = &e->file->tensors[tensor];
    open_field open;
    CHECK(begin_field(e, &open));
    CHECK(onnx_put_sizes(&e->text, t->view.rank, t->view.shape));
    if (old->is_numbers) {
        CHECK(protobuf_put_integer(&e->text, TENSOR_TYPE, old->element));
    }
    CHECK(take_text(e));
    for (byte_range rest = old->message; rest.size > 0 && !old->is_numbers;) {
        protobuf_field part;
        CHECK(protobuf_next(&rest, &part));
        CHECK(onnx_holds_values(part.number) ? GRAIL_OK : keep(e, part.whole));
    }
    if (t->file >= 0) {
        const char *location = e->data[t->file].location;
        CHECK(onnx_put_location(&e->text, location, t->offset, t->view.bytes));
        CHECK(take_text(e));
    } else {
        CHECK(protobuf_put_header(&e->text, TENSOR_RAW, t->view.bytes));
        CHECK(take_text(e));
        CHECK(add_piece(e, (piece){.size = t->view.bytes, .tensor = tensor}));
    }
    return end_field(e, field, open);
}

/* An attribute whose tensor changes. */
static grail_status lay_attribute(onnx_edit *e, const onnx_attribute *a)
{
    open_field open;
    CHECK(begin_field(e, &open));
    if (e->file->tensors[a->tensor].is_numbers) {
        CHECK(protobuf_put_string(&e->text, ATTRIBUTE_NAME, "value"));
        CHECK(protobuf_put_integer(&e->text, ATTRIBUTE_TYPE, ONNX_TENSOR));
        CHECK(take_text(e));
    }
    for (byte_range rest = a->message; rest.size > 0 && !e->file->tensors[a->tensor].is_numbers;) {
        protobuf_field part;
        CHECK(protobuf_next(&rest, &part));
        CHECK(part.number == ATTRIBUTE_TENSOR ? GRAIL_OK : keep(e, part.whole));
    }
    CHECK(lay_tensor(e, a->tensor, ATTRIBUTE_TENSOR));
    return end_field(e, NODE_ATTRIBUTE, open);
}

static grail_status lay_node_parts(onnx_edit *e, const onnx_file_node *n, const written_node *w)
{
    byte_range rest = n->field;
    protobuf_field field;
    const onnx_attribute *a = n->node.attributes;
    CHECK(protobuf_next(&rest, &field));
    for (rest = field.bytes; rest.size > 0;) {
        CHECK(protobuf_next(&rest, &field));
        if (field.number != NODE_ATTRIBUTE) {
            CHECK(keep(e, field.whole));
        } else if (!w->has_others) {
            CHECK(is_as_before(e, a->tensor) ? keep(e, field.whole) : lay_attribute(e, a));
            a++;
        }
    }
    return add_text(e, &w->attributes);
}

static grail_status lay_node(onnx_edit *e, int64_t i)
{
    const onnx_file_node *n = &e->file->nodes[i];
    const written_node *w = &e->nodes[i];
    bool is_same = !w->has_others;
    open_field open;
    CHECK(add_text(e, &w->before));
    for (int j = 0; j < n->node.attribute_count; j++) {
        is_same = is_same && is_as_before(e, n->node.attributes[j].tensor);
    }
    if (w->is_removed || is_same) {
        return w->is_removed ? GRAIL_OK : keep(e, n->field);
    }
    CHECK(begin_field(e, &open));
    CHECK(lay_node_parts(e, n, w));
    return end_field(e, GRAPH_NODE, open);
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
    if (value < 0 || !e->is_stale[value]) {
        return keep(e, field->whole);
    }
    if (field->number == GRAPH_VALUE) {
        return GRAIL_OK;
    }
    const int64_t tensor = e->file->values[value].tensor;
    const tensor_view *view = &e->tensors[tensor].view;
    CHECK(onnx_put_value(&e->text, GRAPH_INPUT, text, e->file->tensors[tensor].element, view->rank,
                         view->shape));
    return take_text(e);
}

static grail_status lay_graph(onnx_edit *e)
{
    int64_t node = 0;
    int64_t tensor = 0;
    for (byte_range rest = e->file->graph; rest.size > 0;) {
        protobuf_field field;
        CHECK(protobuf_next(&rest, &field));
        if (field.number == GRAPH_NODE) {
            CHECK(lay_node(e, node++));
        } else if (field.number == GRAPH_INITIALIZER && !is_as_before(e, tensor)) {
            CHECK(lay_tensor(e, tensor++, GRAPH_INITIALIZER));
        } else if (field.number == GRAPH_INPUT || field.number == GRAPH_VALUE) {
            CHECK(lay_value(e, &field));
        } else {
            tensor += field.number == GRAPH_INITIALIZER;
            CHECK(keep(e, field.whole));
        }
    }
    return add_text(e, &e->nodes[node].before);
}

static grail_status lay_model(onnx_edit *e)
{
    e->piece_count = 0;
    e->size = 0;
    e->taken = 0;
    e->text.size = 0;
    if (!e->is_changed) {
        return keep(e, e->file->bytes);
    }
    for (byte_range rest = e->file->bytes; rest.size > 0;) {
        protobuf_field field;
        open_field open;
        CHECK(protobuf_next(&rest, &field));
        if (field.number != MODEL_GRAPH) {
            CHECK(keep(e, field.whole));
            continue;
        }
        CHECK(begin_field(e, &open));
        CHECK(lay_graph(e));
        CHECK(end_field(e, MODEL_GRAPH, open));
    }
    return GRAIL_OK;
}

/* -- other files ------------------------------------------------------------------------------- */

static void move(onnx_edit *e, int64_t tensor, int64_t file)
{
    written_tensor *t = &e->tensors[tensor];
    written_data *d = &e->data[file];
    t->file = file;
    t->offset = d->end;
    t->is_moved = true;
    d->end += ((uint64_t)t->view.bytes + PAGE - 1) / PAGE * PAGE;
    d->is_laid = true;
    e->is_changed = true;
}

/* Files in which a tensor changes are laid out anew, the others copied. */
static grail_status place_data(onnx_edit *e)
{
    const onnx_file *file = e->file;
    for (int64_t i = 0; i < file->data_file_count; i++) {
        CHECK(memory_copy_string(&e->data[i].location, file->data_files[i].location));
        if (strchr(e->data[i].location, '/') != NULL) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "the values in '%s' are in a directory of their own, which grail does "
                             "not write; save the model with values beside it",
                             e->data[i].location);
        }
    }
    for (int64_t i = 0; i < file->tensor_count; i++) {
        written_tensor *t = &e->tensors[i];
        if (t->file >= 0 && t->is_changed) {
            e->data[t->file].is_laid = true;
        }
    }
    for (int64_t i = 0; i < file->tensor_count; i++) {
        if (e->tensors[i].file >= 0 && e->data[e->tensors[i].file].is_laid) {
            move(e, i, e->tensors[i].file);
        }
    }
    return GRAIL_OK;
}

/* Gives the initializers a file, since the model cannot hold them. */
static grail_status move_out(onnx_edit *e, const char *path)
{
    const char *slash = strrchr(path, '/');
    const int64_t file = e->file->data_file_count;
    CHECK(memory_format(&e->data[file].location, "%s.data", slash == NULL ? path : slash + 1));
    for (int64_t i = 0; i < e->file->initializer_count; i++) {
        const written_tensor *t = &e->tensors[i];
        if (t->file < 0 && t->view.bytes >= SMALLEST_MOVED) {
            move(e, i, file);
        }
    }
    return GRAIL_OK;
}

/* -- writing ----------------------------------------------------------------------------------- */

static grail_status write_given(const written_tensor *t, const output_file *f, uint64_t offset)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    unsigned char *bytes = NULL;
    int64_t left = 0;
    const size_t width = dtype_bits(t->view.dtype) / 8;
    TRY(memory_new_unset(&values, CHUNK, sizeof *values));
    TRY(memory_new_unset(&bytes, CHUNK, width));
    left = (int64_t)(t->view.bytes / width);
    for (int64_t first = 0; left > 0;) {
        const int64_t count = left < CHUNK ? left : CHUNK;
        TRY(t->give(t->context, first, count, values));
        TRY(convert_from_f32(t->view.dtype, values, count, bytes));
        TRY(file_write_at(f->descriptor, f->path, bytes, (size_t)count * width,
                          offset + (uint64_t)first * width));
        first += count;
        left -= count;
    }
out:
    memory_free(values);
    memory_free(bytes);
    return status;
}

static grail_status write_tensor(const onnx_edit *e, int64_t tensor, const output_file *f,
                                 uint64_t offset)
{
    const written_tensor *t = &e->tensors[tensor];
    grail_status status = GRAIL_OK;
    void *loaded = NULL;
    const void *bytes = t->integers != NULL ? t->integers : t->view.data;
    if (t->give != NULL) {
        return error_in(write_given(t, f, offset), "tensor '%s'", t->view.name);
    }
    if (bytes == NULL) {
        TRY(memory_new_unset(&loaded, t->view.bytes, 1));
        TRY(onnx_tensor_load(&e->file->tensors[tensor], loaded));
        bytes = loaded;
    }
    TRY(file_write_at(f->descriptor, f->path, bytes, t->view.bytes, offset));
out:
    memory_free(loaded);
    return status;
}

static grail_status write_data(onnx_edit *e, const char *path)
{
    grail_status status = GRAIL_OK;
    char *directory = NULL;
    char *name = NULL;
    TRY(path_parent(&directory, path));
    for (int64_t i = 0; i <= e->file->data_file_count; i++) {
        written_data *d = &e->data[i];
        if (d->location == NULL) {
            continue;
        }
        memory_free(name);
        name = NULL;
        TRY(path_join(&name, directory, d->location));
        TRY(output_file_open(name, false, &d->file));
        if (!d->is_laid) {
            const file_map *map = &e->file->data_files[i].map;
            TRY(file_write_at(d->file.descriptor, name, map->data, map->size, 0));
        }
    }
    for (int64_t i = 0; i < e->file->tensor_count; i++) {
        const written_tensor *t = &e->tensors[i];
        TRY(t->is_moved ? write_tensor(e, i, &e->data[t->file].file, t->offset) : GRAIL_OK);
    }
out:
    memory_free(name);
    memory_free(directory);
    return status;
}

static grail_status write_model(onnx_edit *e, const char *path)
{
    const output_file *f = &e->model;
    uint64_t offset = 0;
    CHECK(output_file_open(path, false, &e->model));
    for (size_t i = 0; i < e->piece_count; i++) {
        const piece *p = &e->pieces[i];
        const unsigned char *bytes = p->bytes != NULL ? p->bytes : e->text.bytes + p->at;
        CHECK(p->tensor >= 0 ? write_tensor(e, p->tensor, f, offset)
                             : file_write_at(f->descriptor, f->path, bytes, p->size, offset));
        offset += p->size;
    }
    return GRAIL_OK;
}

/* A file may have appeared although its commit failed. */
static void take_back(const output_file *f)
{
    if (f->path != NULL && f->temporary == NULL) {
        unlink(f->path);
    }
}

/* The values first, so that a model that is there has all of them. */
static grail_status commit(onnx_edit *e)
{
    grail_status status = GRAIL_OK;
    for (int64_t i = 0; i <= e->file->data_file_count && status == GRAIL_OK; i++) {
        written_data *d = &e->data[i];
        status = d->location == NULL ? GRAIL_OK : output_file_commit(&d->file);
    }
    status = status == GRAIL_OK ? output_file_commit(&e->model) : status;
    if (status != GRAIL_OK) {
        take_back(&e->model);
        for (int64_t i = 0; i <= e->file->data_file_count; i++) {
            take_back(&e->data[i].file);
        }
    }
    return status;
}

grail_status onnx_edit_write(onnx_edit *e, const char *path, int64_t largest)
{
    buffer_init(&e->text, LARGEST_TEXT);
    mark_stale(e);
    CHECK(place_data(e));
    CHECK(lay_model(e));
    if (e->size > (size_t)largest && e->is_changed) {
        CHECK(move_out(e, path));
        CHECK(lay_model(e));
    }
    CHECK(write_data(e, path));
    CHECK(write_model(e, path));
    return commit(e);
}
