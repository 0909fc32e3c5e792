/* Reads the descriptions of tensors in torch's pickles, and makes views of their storages: bounds,
 * and contiguous copies of strided ones. The descriptions are calls of torch._utils._rebuild_tensor
 * and its successors, with persistent references to storages. Source: torch/_utils.py and
 * torch/serialization.py, 1.13; v3 and _rebuild_from_type_v2: 2.1. */
#include "format/torch/torch_internal.h"

#include <string.h>

static grail_status read_count(const pickle_value *value, const char *what, int64_t *out)
{
    if (!pickle_integer(value, out) || *out < 0) {
        return error_set(GRAIL_ERROR_FORMAT, "its %s is not an integer of 0 or more", what);
    }
    return GRAIL_OK;
}

enum { LONGEST_KEY = 256 };

static const char utils[] = "torch._utils";

static bool is_parameter(const pickle_value *value)
{
    return pickle_is_call(value, utils, "_rebuild_parameter") ||
           pickle_is_call(value, utils, "_rebuild_parameter_with_state") ||
           pickle_is_call(value, "torch.nn.parameter", "Parameter");
}

bool torch_is_tensor(const pickle_value *value)
{
    static const char prefix[] = "_rebuild_";
    if (is_parameter(value) || pickle_is_call(value, "torch._tensor", "_rebuild_from_type_v2")) {
        return true;
    }
    if (!pickle_is_call(value, utils, NULL)) {
        return false;
    }
    const pickle_span name = value->call.function->global->name;
    return name.size >= sizeof prefix - 1 && memcmp(name.data, prefix, sizeof prefix - 1) == 0;
}

static grail_status read_lengths(const pickle_value *list, const char *what, int *rank,
                                 int64_t out[TENSOR_MAX_RANK])
{
    const int64_t count = pickle_count(list);
    if (list == NULL || (list->kind != PICKLE_TUPLE && list->kind != PICKLE_LIST)) {
        return error_set(GRAIL_ERROR_FORMAT, "its %s is %s", what, pickle_kind_text(list));
    }
    if (count > TENSOR_MAX_RANK) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "has %lld dimensions, more than the supported %d",
                         (long long)count, TENSOR_MAX_RANK);
    }
    for (int64_t d = 0; d < count; d++) {
        if (!pickle_integer(pickle_item(list, d), &out[d]) || out[d] < 0) {
            return error_set(GRAIL_ERROR_FORMAT, "%s %lld is negative or not a number", what,
                             (long long)d);
        }
    }
    *rank = (int)count;
    return GRAIL_OK;
}

/* (storage, offset, shape, stride, ...); item 6 of version 3 is the dtype */
static grail_status read_arguments(const pickle_value *arguments, const pickle_value *dtype,
                                   torch_layout *out)
{
    torch_layout layout = {0};
    int strides = 0;
    const pickle_value *storage = pickle_item(arguments, 0);
    if (storage == NULL || storage->kind != PICKLE_PERSISTENT ||
        !pickle_text_is(pickle_item(storage->persistent, 0), "storage")) {
        return error_set(GRAIL_ERROR_FORMAT, "its storage is %s", pickle_kind_text(storage));
    }
    /* ('storage', class, key, location, elements) */
    torch_reference reference = {0};
    const pickle_value *class = pickle_item(storage->persistent, 1);
    reference.type = torch_dtype_of_storage(class);
    if (reference.type == NULL && class != NULL && class->kind == PICKLE_GLOBAL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "its storage has the unknown class '%.*s.%.*s'",
                         (int)class->global->module.size, class->global->module.data,
                         (int)class->global->name.size, class->global->name.data);
    }
    if (reference.type == NULL ||
        !pickle_text(pickle_item(storage->persistent, 2), &reference.key)) {
        return error_set(GRAIL_ERROR_FORMAT, "its storage lacks a class or a key");
    }
    if (pickle_count(storage->persistent) != 5) {
        return error_set(GRAIL_ERROR_FORMAT, "its storage is described by %lld values, expected 5",
                         (long long)pickle_count(storage->persistent));
    }
    CHECK(read_count(pickle_item(storage->persistent, 4), "storage's size", &reference.elements));
    layout.storage = reference;
    const torch_dtype *type = dtype == NULL ? layout.storage.type : torch_dtype_of_name(dtype);
    if (type == NULL || type->dtype == GRAIL_DTYPE_COUNT) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "its dtype (%s) is not supported",
                         type == NULL || type->name == NULL ? "unknown" : type->name);
    }
    layout.dtype = type->dtype;
    CHECK(read_count(pickle_item(arguments, 1), "offset", &layout.offset));
    CHECK(read_lengths(pickle_item(arguments, 2), "dimension", &layout.rank, layout.shape));
    CHECK(read_lengths(pickle_item(arguments, 3), "stride", &strides, layout.stride));
    if (strides != layout.rank) {
        return error_set(GRAIL_ERROR_FORMAT, "has %d dimensions, but %d strides", layout.rank,
                         strides);
    }
    for (int d = 0; d < layout.rank; d++) {
        layout.stride[d] = layout.shape[d] > 1 ? layout.stride[d] : 0; /* never used */
    }
    *out = layout;
    return GRAIL_OK;
}

grail_status torch_read_layout(const pickle_value *value, torch_layout *out)
{
    while (is_parameter(value)) {
        value = pickle_item(value->call.arguments, 0);
    }
    if (value == NULL || value->kind != PICKLE_CALL) {
        return error_set(GRAIL_ERROR_FORMAT, "is a parameter that wraps %s, expected a tensor",
                         pickle_kind_text(value));
    }
    const pickle_value *function = value->call.function;
    const pickle_value *arguments = value->call.arguments;
    if (pickle_is_global(function, "torch._tensor", "_rebuild_from_type_v2")) {
        function = pickle_item(arguments, 0);
        arguments = pickle_item(arguments, 2);
    }
    if (pickle_is_global(function, utils, "_rebuild_tensor") ||
        pickle_is_global(function, utils, "_rebuild_tensor_v2")) {
        return read_arguments(arguments, NULL, out);
    }
    if (pickle_is_global(function, utils, "_rebuild_tensor_v3")) {
        static const pickle_value none = {.kind = PICKLE_NONE};
        const pickle_value *dtype = pickle_item(arguments, 6);
        return read_arguments(arguments, dtype == NULL ? &none : dtype, out);
    }
    if (function == NULL || function->kind != PICKLE_GLOBAL) {
        return error_set(GRAIL_ERROR_FORMAT, "is made by %s", pickle_kind_text(function));
    }
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "is made by '%.*s', which is not supported; save it as a dense tensor",
                     (int)function->global->name.size, function->global->name.data);
}

/* -- views of storages ---------------------------------------------------------------------------
 */

grail_status torch_own(torch_file *file, void *block)
{
    const grail_status status =
        memory_reserve(&file->owned, (size_t)file->owned_count + 1, sizeof file->owned[0]);
    if (status != GRAIL_OK) {
        memory_free(block);
        return status;
    }
    file->owned[file->owned_count++] = block;
    return GRAIL_OK;
}

const zip_member *torch_find_member(const torch_file *file, const char *folder, pickle_span name)
{
    char path[ZIP_LONGEST_NAME + 1];
    const size_t length = file->root_length + 1 + strlen(folder);
    if (name.size >= sizeof path - length || memchr(name.data, 0, name.size) != NULL) {
        return NULL;
    }
    memcpy(path, file->root, file->root_length + 1);
    memcpy(stpcpy(path + file->root_length + 1, folder), name.data, name.size);
    path[length + name.size] = 0;
    return zip_reader_find(file->zip, path);
}

static grail_status find_storage(const torch_file *file, const torch_reference *reference,
                                 const zip_member **out)
{
    size_t bytes = 0;
    const int key_size = reference->key.size < LONGEST_KEY ? (int)reference->key.size : LONGEST_KEY;
    const zip_member *storage = torch_find_member(file, "data/", reference->key);
    if (storage == NULL || reference->key.size > LONGEST_KEY) {
        return error_set(GRAIL_ERROR_FORMAT, "its storage '%.*s' is missing", key_size,
                         reference->key.data);
    }
    if (!size_multiply((size_t)reference->elements, reference->type->element_size, &bytes) ||
        bytes != storage->size) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "its storage '%.*s' has %zu bytes, expected %lld elements of %zu bytes",
                         key_size, reference->key.data, storage->size,
                         (long long)reference->elements, reference->type->element_size);
    }
    *out = storage;
    return GRAIL_OK;
}

/* Whether the last element of a tensor, which has elements, lies in its storage of so many. */
static grail_status check_bounds(const torch_layout *layout, int64_t available)
{
    int64_t last = layout->offset;
    for (int d = 0; d < layout->rank; d++) {
        int64_t distance = 0;
        if (__builtin_mul_overflow(layout->shape[d] - 1, layout->stride[d], &distance) ||
            __builtin_add_overflow(last, distance, &last)) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "its offset and strides reach past the end of any storage");
        }
    }
    if (last >= available) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "reaches element %lld of its storage '%.*s', which has %lld elements", (long long)last,
            layout->storage.key.size < LONGEST_KEY ? (int)layout->storage.key.size : LONGEST_KEY,
            layout->storage.key.data, (long long)available);
    }
    return GRAIL_OK;
}

static bool is_contiguous(const torch_layout *layout)
{
    int64_t expected = 1;
    for (int d = layout->rank - 1; d >= 0; d--) {
        if (layout->shape[d] != 1 && layout->stride[d] != expected) {
            return false;
        }
        expected *= layout->shape[d];
    }
    return true;
}

/* out[shape] <- in[sum i_d stride_d], elements of `size` bytes; every dimension is above 0. */
static void gather(const torch_layout *layout, const unsigned char *in, size_t size, int64_t count,
                   unsigned char *out)
{
    int64_t index[TENSOR_MAX_RANK] = {0};
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        memcpy(out + (size_t)i * size, in + (size_t)at * size, size);
        for (int d = layout->rank - 1; d >= 0; d--) {
            at += layout->stride[d];
            if (++index[d] < layout->shape[d]) {
                break;
            }
            at -= layout->shape[d] * layout->stride[d];
            index[d] = 0;
        }
    }
}

grail_status torch_view(torch_file *file, const torch_layout *layout, tensor_view *view)
{
    const zip_member *storage = NULL;
    size_t most = 0;
    const size_t element_size = dtype_bits(layout->dtype) / 8;
    if (!shape_bytes(layout->dtype, layout->rank, layout->shape, &view->bytes)) {
        return error_set(GRAIL_ERROR_FORMAT, "has more elements than any storage can hold");
    }
    CHECK(find_storage(file, &layout->storage, &storage));
    view->dtype = layout->dtype;
    view->rank = layout->rank;
    memcpy(view->shape, layout->shape, sizeof view->shape);
    view->data = file->list->bytes; /* not NULL even without elements */
    if (view->bytes == 0) {
        return GRAIL_OK;
    }
    CHECK(check_bounds(layout, (int64_t)(storage->size / element_size)));
    view->data = file->list->bytes + storage->offset + (size_t)layout->offset * element_size;
    if (is_contiguous(layout)) {
        return GRAIL_OK;
    }
    if (!size_multiply(file->list->size, TORCH_MOST_COPIES, &most) ||
        !size_add(most, TORCH_FREE_COPIES, &most)) {
        most = SIZE_MAX;
    }
    if (view->bytes > most - file->copied) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "is strided, and the contiguous copies of this file's strided tensors "
                         "would take more than %zu bytes; save it with .contiguous()",
                         most);
    }
    file->copied += view->bytes;
    CHECK(memory_reserve(&file->pending, (size_t)file->pending_count + 1, sizeof file->pending[0]));
    file->pending[file->pending_count++] =
        (torch_pending){.tensor = file->list->count - 1, .first = view->data, .layout = *layout};
    view->data = NULL;
    return GRAIL_OK;
}

grail_status torch_load(tensor_file *list)
{
    torch_file *file = list->parts;
    for (int64_t i = 0; i < file->pending_count; i++) {
        const torch_pending *pending = &file->pending[i];
        tensor_view *view = &list->tensors[pending->tensor];
        const size_t element_size = dtype_bits(view->dtype) / 8;
        unsigned char *copy = NULL;
        CHECK(error_in(memory_new_unset(&copy, view->bytes, 1), "tensor '%s'", view->name));
        CHECK(error_in(torch_own(file, copy), "tensor '%s'", view->name));
        gather(&pending->layout, pending->first, element_size,
               (int64_t)(view->bytes / element_size), copy);
        view->data = copy;
    }
    file->pending_count = 0;
    return GRAIL_OK;
}
