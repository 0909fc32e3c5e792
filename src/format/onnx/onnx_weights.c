#include "format/onnx/onnx_weights.h"

#include "format/onnx/onnx_edit.h"

#include <string.h>

/* -- reading ----------------------------------------------------------------------------------- */

typedef struct weights {
    onnx_file *model;
    int64_t *numbers; /* [tensors of the file]: which of the model's each is, and of a copy which of
                         the file's it is a copy of */
    void **loaded;    /* likewise: values that are not stored as they lie in memory; owned */
    int64_t count;
    onnx_copy_list copies; /* the last tensors of the file */
    unsigned char *joined; /* the bytes of a file with others beside it, or folded; owned */
    tensor_file *source;   /* which is folded here, NULL without; owned */
} weights;

static void free_weights(void *parts)
{
    weights *w = parts;
    for (int64_t i = 0; w->loaded != NULL && i < w->count; i++) {
        memory_free(w->loaded[i]);
    }
    memory_free(w->loaded);
    memory_free(w->numbers);
    onnx_copy_list_fini(&w->copies);
    onnx_file_close(w->model);
    memory_free(w->joined);
    tensor_file_close(w->source);
    memory_free(w);
}

static grail_status load_all(tensor_file *file)
{
    weights *w = file->parts;
    const int64_t own = file->count - w->copies.count;
    for (int64_t i = 0; i < own; i++) {
        tensor_view *view = &file->tensors[i];
        if (view->data == NULL && view->bytes > 0) {
            CHECK(memory_new_unset(&w->loaded[i], view->bytes, 1));
            CHECK(error_in(onnx_tensor_load(&w->model->tensors[w->numbers[i]], w->loaded[i]),
                           "tensor '%s'", view->name));
            view->data = w->loaded[i];
        }
    }
    for (int64_t i = 0; i < w->copies.count; i++) {
        file->tensors[own + i].data = file->tensors[w->numbers[own + i]].data;
    }
    return GRAIL_OK;
}

/* Attributes of other nodes than Constant have tensors without a value of the graph. */
static bool is_weight(const onnx_file *model, int64_t i)
{
    const onnx_tensor *t = &model->tensors[i];
    const int64_t value = onnx_file_find(model, t->view.name);
    return dtype_is_float(t->view.dtype) && !t->is_numbers && value >= 0 &&
           model->values[value].tensor == i;
}

/* Which tensor of the file is that of the model; there are `count`. */
static int64_t find_number(const weights *w, int64_t count, int64_t tensor)
{
    int64_t begin = 0;
    int64_t end = count;
    while (end - begin > 1) { /* numbers ascend */
        const int64_t middle = begin + (end - begin) / 2;
        begin = w->numbers[middle] <= tensor ? middle : begin;
        end = w->numbers[middle] <= tensor ? end : middle;
    }
    return begin;
}

static grail_status add_copies(tensor_file *file, weights *w)
{
    CHECK(onnx_copies_find(w->model, &w->copies));
    const int64_t own = file->count;
    CHECK(memory_reserve(&w->numbers, (size_t)(own + w->copies.count), sizeof w->numbers[0]));
    for (int64_t i = 0; i < w->copies.count; i++) {
        const onnx_copy *c = &w->copies.items[i];
        tensor_view *view = NULL;
        CHECK(tensor_file_add(file, c->view.name, &view));
        const char *name = view->name;
        *view = c->view;
        view->name = name;
        w->numbers[own + i] = find_number(w, own, c->tensor);
    }
    return GRAIL_OK;
}

static grail_status read_weights(tensor_file *file)
{
    weights *w = NULL;
    CHECK(memory_new(&w, 1, sizeof *w));
    file->parts = w;
    file->free_parts = free_weights;
    file->load = load_all;
    CHECK(onnx_file_open_bytes(NULL, file->bytes, file->size, &w->model));
    CHECK(memory_new(&w->numbers, (size_t)w->model->tensor_count, sizeof w->numbers[0]));
    CHECK(memory_new(&w->loaded, (size_t)w->model->tensor_count, sizeof w->loaded[0]));
    w->count = w->model->tensor_count;
    for (int64_t i = 0; i < w->model->tensor_count; i++) {
        tensor_view *view = NULL;
        if (is_weight(w->model, i)) {
            w->numbers[file->count] = i;
            CHECK(tensor_file_add(file, w->model->tensors[i].view.name, &view));
            const char *name = view->name;
            *view = w->model->tensors[i].view;
            view->name = name;
        }
    }
    return add_copies(file, w);
}

grail_status onnx_weights_open_bytes(const char *name, const void *bytes, size_t size,
                                     tensor_file **out)
{
    return tensor_file_open_bytes(name, bytes, size, read_weights, out);
}

grail_status onnx_weights_open(const char *path, tensor_file **out)
{
    grail_status status = GRAIL_OK;
    onnx_file *model = NULL;
    unsigned char *joined = NULL;
    size_t size = 0;
    TRY(onnx_file_open(path, &model));
    if (model->data_file_count == 0) {
        TRY(tensor_file_open(path, read_weights, out));
        goto out;
    }
    TRY(error_in(onnx_edit_join(model, &joined, &size), "%s", path));
    TRY(onnx_weights_open_bytes(path, joined, size, out));
    weights *w = (*out)->parts;
    w->joined = joined;
    joined = NULL;
    (*out)->map = model->map; /* by which a run sees that the file changes */
    model->map = (file_map){0};
out:
    memory_free(joined);
    onnx_file_close(model);
    return status;
}

grail_status onnx_weights_fold(const char *name, unsigned char *bytes, size_t size,
                               tensor_file **file)
{
    tensor_file *folded = NULL;
    CHECK(onnx_weights_open_bytes(name, bytes, size, &folded));
    weights *w = folded->parts;
    w->joined = bytes;
    w->source = *file;
    *file = folded;
    return GRAIL_OK;
}

const tensor_file *onnx_weights_source(const tensor_file *file)
{
    const weights *w = file->parts;
    return w->source == NULL ? file : w->source;
}

const onnx_file *onnx_weights_model(const tensor_file *file)
{
    const weights *w = file->parts;
    return w->model;
}

const onnx_copy_list *onnx_weights_copies(const tensor_file *file)
{
    const weights *w = file->parts;
    return &w->copies;
}

/* -- writing ----------------------------------------------------------------------------------- */

void onnx_integer_list_fini(onnx_integer_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        memory_free(list->items[i].values);
        memory_free(list->items[i].name);
        memory_free(list->items[i].list);
    }
    memory_free(list->items);
    memory_free(list->kept);
    *list = (onnx_integer_list){0};
}

typedef struct edited_model {
    const onnx_file *model;
    const onnx_copy_list *copies;
    bool tied;
    const onnx_integer_list *integers;
} edited_model;

/* *out <- the number in the model of a tensor that is written there. */
static grail_status find_tensor(const onnx_file *model, const tensor_slot *slot, int64_t *out)
{
    const int64_t value = onnx_file_find(model, slot->name);
    *out = value < 0 ? -1 : model->values[value].tensor;
    return *out >= 0 && model->tensors[*out].view.dtype == slot->dtype
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_ARGUMENT,
                           "the ONNX model has no tensor '%s' of type %s to be replaced",
                           slot->name, grail_dtype_name(slot->dtype));
}

static bool keeps_shape(const tensor_view *view, const tensor_slot *slot)
{
    return view->rank == slot->rank &&
           memcmp(view->shape, slot->shape, (size_t)slot->rank * sizeof slot->shape[0]) == 0;
}

/* Sets all attributes of the node that one of the list is of. */
static grail_status edit_attributes(const onnx_file *model, const onnx_integer_list *list,
                                    int64_t node, onnx_edit *edit)
{
    grail_status status = GRAIL_OK;
    const onnx_node *n = &model->nodes[node].node;
    onnx_attribute *all = NULL;
    TRY(memory_new(&all, (size_t)n->attribute_count, sizeof all[0]));
    memcpy(all, n->attributes, (size_t)n->attribute_count * sizeof all[0]);
    for (int64_t i = 0; i < list->count; i++) {
        const onnx_integers *one = &list->items[i];
        if (one->tensor < 0 && one->node == node) {
            onnx_attribute *changed = &all[one->attribute - n->attributes];
            changed->message = (byte_range){0};
            changed->integer = one->values[0];
            changed->integers = one->values;
        }
    }
    TRY(onnx_edit_attributes(edit, node, n->attribute_count, all));
out:
    memory_free(all);
    return status;
}

/* Whether integers are of the same second list as those before them. */
static bool is_further(const onnx_integer_list *list, int64_t i)
{
    for (int64_t k = 0; k < i; k++) {
        if (list->items[k].list != NULL && strcmp(list->items[k].list, list->items[i].list) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds a node like that of the list, which makes a second one for its counter. */
static grail_status add_list(const onnx_file *model, const onnx_integer_list *list, int64_t i,
                             onnx_edit *edit)
{
    grail_status status = GRAIL_OK;
    const onnx_integers *own = &list->items[i];
    const onnx_file_node *counter = &model->nodes[own->counter];
    const int64_t made = model->nodes[own->node].outputs[0];
    const char *made_here[] = {own->list};
    const char **inputs = NULL;
    onnx_node n = model->nodes[own->node].node;
    TRY(memory_new(&inputs, (size_t)n.input_count, sizeof inputs[0]));
    memcpy(inputs, n.inputs, (size_t)n.input_count * sizeof inputs[0]);
    for (int64_t k = 0; k < list->count; k++) {
        const onnx_integers *one = &list->items[k];
        if (one->list != NULL && one->name != NULL && strcmp(one->list, own->list) == 0) {
            inputs[one->input] = one->name;
        }
    }
    n.inputs = inputs;
    n.outputs = made_here;
    n.name = *n.name == '\0' ? "" : own->list;
    TRY(onnx_edit_insert(edit, own->counter, &n));
    for (int k = 0; k < counter->node.input_count; k++) {
        TRY(counter->inputs[k] == made ? onnx_edit_input(edit, own->counter, k, own->list)
                                       : GRAIL_OK);
    }
out:
    memory_free(inputs);
    return status;
}

static grail_status edit_integers(const onnx_file *model, const onnx_integer_list *list, int64_t i,
                                  onnx_edit *edit)
{
    const onnx_integers *one = &list->items[i];
    if (one->tensor < 0) {
        return edit_attributes(model, list, one->node, edit);
    }
    if (one->name != NULL) {
        CHECK(onnx_edit_add_integers(edit, one->name, one->tensor, one->values));
    }
    if (one->list != NULL) {
        return is_further(list, i) ? GRAIL_OK : add_list(model, list, i, edit);
    }
    if (one->name != NULL) {
        return onnx_edit_input(edit, one->node, one->input, one->name);
    }
    const tensor_view *view = &model->tensors[one->tensor].view;
    return onnx_edit_integers(edit, one->tensor, view->rank, view->shape, one->values);
}

static const onnx_copy *find_copy(const onnx_copy_list *copies, const char *name)
{
    const int64_t i = copies == NULL ? -1 : name_index_find(&copies->index, name);
    return i < 0 ? NULL : &copies->items[i];
}

static grail_status add_copy(onnx_edit *e, const onnx_copy *c, const tensor_slot *slot,
                             int64_t *out)
{
    CHECK(onnx_edit_add(e, c->view.name, c->tensor, slot->rank, slot->shape, out));
    return onnx_edit_input(e, c->node, c->input, c->view.name);
}

static grail_status lay_out(tensor_writer *writer, const void *own)
{
    grail_status status = GRAIL_OK;
    const edited_model *edited = own;
    const onnx_file *model = edited->model;
    const onnx_integer_list *integers = edited->integers;
    const int64_t most = (edited->copies == NULL || edited->tied ? 0 : edited->copies->count) +
                         (integers == NULL ? 0 : integers->count);
    onnx_edit *edit = NULL;
    size_t *places = NULL;
    int64_t *numbers = NULL;
    bool *is_later = NULL;
    TRY(onnx_edit_create(model, &edit));
    TRY(memory_new(&places, (size_t)(model->tensor_count + most), sizeof places[0]));
    TRY(memory_new(&is_later, (size_t)model->tensor_count, sizeof is_later[0]));
    TRY(memory_new(&numbers, (size_t)writer->count, sizeof numbers[0]));
    for (int64_t i = 0; i < writer->count; i++) {
        const tensor_slot *slot = &writer->items[i];
        const onnx_copy *copy = find_copy(edited->copies, slot->name);
        if (copy != NULL) {
            numbers[i] = copy->tensor;
            TRY(edited->tied ? GRAIL_OK : add_copy(edit, copy, slot, &numbers[i]));
            continue;
        }
        TRY(find_tensor(model, slot, &numbers[i]));
        is_later[numbers[i]] = true;
        const tensor_view *view = &model->tensors[numbers[i]].view;
        if (!keeps_shape(view, slot) || (view->data == NULL && view->bytes > 0)) {
            TRY(onnx_edit_tensor(edit, numbers[i], slot->rank, slot->shape, NULL, NULL));
        }
    }
    for (int64_t i = 0; integers != NULL && i < integers->count; i++) {
        TRY(integers->items[i].is_same ? GRAIL_OK : edit_integers(model, integers, i, edit));
    }
    for (int64_t i = 0; integers != NULL && i < integers->kept_count; i++) {
        onnx_edit_keep(edit, integers->kept[i]);
    }
    TRY(onnx_edit_lay_out(edit, is_later, &writer->layout, places));
    for (int64_t i = 0; i < writer->count; i++) {
        writer->items[i].place = places[numbers[i]];
    }
out:
    memory_free(numbers);
    memory_free(is_later);
    memory_free(places);
    onnx_edit_free(edit);
    return status;
}

grail_status onnx_weights_writer_open(const char *path, const onnx_file *model,
                                      const onnx_copy_list *copies, bool tied,
                                      const onnx_integer_list *integers, int64_t count,
                                      const tensor_view tensors[], layout_start start,
                                      tensor_writer **out)
{
    const edited_model own = {model, copies, tied, integers};
    return tensor_writer_open(path, lay_out, &own, count, tensors, start, out);
}
