/* Views of torch storages: bounds, and contiguous copies of strided ones. */
#include "format/torch/torch_internal.h"

#include <string.h>

enum { LONGEST_KEY = 256 };

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

/* NULL when there is none of that key. */
static torch_storage *find_storage(const torch_file *file, pickle_span key)
{
    char text[LONGEST_KEY + 1];
    if (key.size > LONGEST_KEY || memchr(key.data, 0, key.size) != NULL) {
        return NULL;
    }
    memcpy(text, key.data, key.size);
    text[key.size] = 0;
    const int64_t i = name_index_find(&file->storage_index, text);
    return i < 0 ? NULL : &file->storages[i];
}

static grail_status check_storage(const torch_file *file, const torch_reference *reference,
                                  torch_storage **out)
{
    size_t bytes = 0;
    torch_storage *storage = find_storage(file, reference->key);
    const int key_size = reference->key.size < LONGEST_KEY ? (int)reference->key.size : LONGEST_KEY;
    if (storage == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "its storage '%.*s' is missing", key_size,
                         reference->key.data);
    }
    if (!size_multiply((size_t)reference->elements, reference->type->element_size, &bytes) ||
        bytes != storage->bytes) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "its storage '%.*s' has %zu bytes, expected %lld elements of %zu bytes",
                         key_size, reference->key.data, storage->bytes,
                         (long long)reference->elements, reference->type->element_size);
    }
    *out = storage;
    return GRAIL_OK;
}

/* *last = index of the tensor's last element in the storage. The tensor must have elements. False
 * on overflow. */
static bool last_element(const torch_layout *layout, int64_t *last)
{
    int64_t at = layout->offset;
    for (int d = 0; d < layout->rank; d++) {
        int64_t distance = 0;
        if (__builtin_mul_overflow(layout->shape[d] - 1, layout->stride[d], &distance) ||
            __builtin_add_overflow(at, distance, &at)) {
            return false;
        }
    }
    *last = at;
    return true;
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

/* Counts the bytes of a copy that torch_load will make. */
static grail_status count_copy(torch_file *file, size_t bytes)
{
    size_t most = 0;
    if (!size_multiply(file->list->size, TORCH_MOST_COPIES, &most) ||
        !size_add(most, TORCH_FREE_COPIES, &most)) {
        most = SIZE_MAX;
    }
    if (bytes > most - file->copied) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "is strided, and the contiguous copies of this file's strided tensors "
                         "would take more than %zu bytes; save it with .contiguous()",
                         most);
    }
    file->copied += bytes;
    return GRAIL_OK;
}

static grail_status postpone(torch_file *file, const torch_layout *layout, torch_storage *storage)
{
    CHECK(memory_reserve(&file->pending, (size_t)file->pending_count + 1, sizeof file->pending[0]));
    file->pending[file->pending_count++] =
        (torch_pending){.tensor = file->list->count - 1, .storage = storage, .layout = *layout};
    return GRAIL_OK;
}

static grail_status check_bounds(const torch_layout *layout, size_t storage_bytes,
                                 size_t element_size, int64_t elements)
{
    const int64_t available = (int64_t)(storage_bytes / element_size);
    int64_t last = 0;
    if (elements == 0) {
        return GRAIL_OK;
    }
    if (!last_element(layout, &last)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "its offset and strides reach past the end of any storage");
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

static const unsigned char *first_byte(const torch_layout *layout, const torch_storage *storage)
{
    return storage->data + (size_t)layout->offset * (dtype_bits(layout->dtype) / 8);
}

grail_status torch_view(torch_file *file, const torch_layout *layout, tensor_view *view)
{
    torch_storage *storage = NULL;
    int64_t elements = 0;
    const torch_reference *reference = &layout->storage;
    const size_t element_size = dtype_bits(layout->dtype) / 8;
    if (!shape_elements(layout->rank, layout->shape, &elements) ||
        !dtype_bytes(layout->dtype, elements, &view->bytes)) {
        return error_set(GRAIL_ERROR_FORMAT, "has more elements than any storage can hold");
    }
    CHECK(check_storage(file, reference, &storage));
    CHECK(check_bounds(layout, storage->bytes, element_size, elements));
    view->dtype = layout->dtype;
    view->rank = layout->rank;
    memcpy(view->shape, layout->shape, sizeof view->shape);
    view->data = file->list->bytes; /* not NULL even without elements */
    if (elements > 0) {
        const bool in_place = is_contiguous(layout);
        CHECK(in_place ? GRAIL_OK : count_copy(file, view->bytes));
        if (in_place) {
            view->data = first_byte(layout, storage);
        } else {
            view->data = NULL;
            CHECK(postpone(file, layout, storage));
        }
    }
    return GRAIL_OK;
}

static grail_status copy_strided(torch_file *file, const torch_pending *pending, tensor_view *view)
{
    unsigned char *copy = NULL;
    const size_t element_size = dtype_bits(view->dtype) / 8;
    CHECK(memory_new_unset(&copy, view->bytes, 1));
    CHECK(torch_own(file, copy));
    gather(&pending->layout, first_byte(&pending->layout, pending->storage), element_size,
           (int64_t)(view->bytes / element_size), copy);
    view->data = copy;
    return GRAIL_OK;
}

grail_status torch_load(tensor_file *list)
{
    torch_file *file = list->parts;
    for (int64_t i = 0; i < file->pending_count; i++) {
        tensor_view *view = &list->tensors[file->pending[i].tensor];
        CHECK(error_in(copy_strided(file, &file->pending[i], view), "tensor '%s'", view->name));
    }
    file->pending_count = 0;
    return GRAIL_OK;
}
