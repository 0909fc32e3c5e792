#include "format/tensor_slots.h"

#include "base/file.h"
#include "base/utf8.h"
#include "format/tensor_limits.h"

#include <string.h>
#include <unistd.h>

static grail_status check_tensor(const tensor_view *tensor)
{
    const size_t length = strlen(tensor->name);
    if (length > TENSOR_LONGEST_NAME) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the name has more than %d bytes",
                         TENSOR_LONGEST_NAME);
    }
    const size_t valid = utf8_valid_prefix(tensor->name, length);
    if (valid != length) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the name is not UTF-8 at byte %zu", valid);
    }
    if (tensor->rank < 0 || tensor->rank > TENSOR_MAX_RANK) {
        return error_set(GRAIL_ERROR_ARGUMENT, "rank %d is not in 0 .. %d", tensor->rank,
                         TENSOR_MAX_RANK);
    }
    return GRAIL_OK;
}

static grail_status fill_slot(const tensor_view *tensor, tensor_slot *slot)
{
    grail_status status = GRAIL_OK;
    int64_t elements = 0;
    TRY(check_tensor(tensor));
    TRY(memory_copy_string(&slot->name, tensor->name));
    slot->dtype = tensor->dtype;
    slot->rank = tensor->rank;
    memcpy(slot->shape, tensor->shape, (size_t)tensor->rank * sizeof tensor->shape[0]);
    if (!shape_elements(tensor->rank, tensor->shape, &elements) ||
        !dtype_bytes(tensor->dtype, elements, &slot->bytes)) {
        char text[128];
        FAIL(GRAIL_ERROR_ARGUMENT,
             "%s elements of %s do not fill their last byte, or take 2^61 bytes or more",
             shape_text(tensor->rank, tensor->shape, text, sizeof text),
             grail_dtype_name(tensor->dtype));
    }
out:
    return status;
}

grail_status tensor_slots_declare(tensor_slots *slots, const char *path, int64_t count,
                                  const tensor_view tensors[])
{
    grail_status status = GRAIL_OK;
    *slots = (tensor_slots){.descriptor = -1};
    if (count < 0 || count > TENSOR_MOST_IN_FILE) {
        FAIL(GRAIL_ERROR_ARGUMENT, "%lld tensors are not in 0 .. %d", (long long)count,
             TENSOR_MOST_IN_FILE);
    }
    TRY(memory_copy_string(&slots->path, path));
    TRY(memory_new(&slots->items, (size_t)count, sizeof *slots->items));
    for (int64_t i = 0; i < count; i++) {
        slots->count = i + 1; /* before filling, so that a partly filled slot is freed too */
        status = fill_slot(&tensors[i], &slots->items[i]);
        if (status != GRAIL_OK) {
            error_prefix("tensor '%s'", tensors[i].name);
            goto out;
        }
    }
out:
    return status;
}

grail_status tensor_slots_index(tensor_slots *slots)
{
    grail_status status = GRAIL_OK;
    const char **names = NULL;
    TRY(memory_new_unset(&names, (size_t)slots->count, sizeof *names));
    for (int64_t i = 0; i < slots->count; i++) {
        names[i] = slots->items[i].name;
    }
    TRY(name_index_init(&slots->index, slots->count, names));
    const int64_t twice = name_index_duplicate(&slots->index);
    if (twice >= 0) {
        FAIL(GRAIL_ERROR_ARGUMENT, "tensor '%s' is given twice", slots->index.entries[twice].name);
    }
out:
    memory_free(names);
    return status;
}

grail_status tensor_slots_open(tensor_slots *slots, const file_layout *layout, layout_start start)
{
    slots->layout = layout;
    return file_layout_open(layout, slots->path, start, &slots->descriptor);
}

grail_status tensor_slots_find(const tensor_slots *slots, const char *name, size_t bytes,
                               int64_t *out)
{
    const int64_t i = name_index_find(&slots->index, name);
    if (i < 0) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%s: has no place for a tensor '%s'", slots->path,
                         name);
    }
    if (bytes != slots->items[i].bytes) {
        return error_set(GRAIL_ERROR_SHAPE, "%s: tensor '%s' takes %zu bytes, but %zu are given",
                         slots->path, name, slots->items[i].bytes, bytes);
    }
    *out = i;
    return GRAIL_OK;
}

grail_status tensor_slots_find_unwritten(const tensor_slots *slots, const char *name, size_t bytes,
                                         int64_t *out)
{
    int64_t i = 0;
    const grail_status status = tensor_slots_find(slots, name, bytes, &i);
    if (status == GRAIL_OK && slots->items[i].written) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%s: tensor '%s' is written a second time",
                         slots->path, name);
    }
    *out = i;
    return status;
}

grail_status tensor_slots_flush(const tensor_slots *slots)
{
    return file_flush(slots->descriptor, slots->path);
}

grail_status tensor_slots_seal(const tensor_slots *slots)
{
    return file_layout_seal(slots->layout, slots->descriptor, slots->path);
}

void tensor_slots_fini(tensor_slots *slots)
{
    for (int64_t i = 0; i < slots->count; i++) {
        memory_free(slots->items[i].name);
    }
    memory_free(slots->items);
    name_index_fini(&slots->index);
    if (slots->descriptor >= 0) {
        close(slots->descriptor);
    }
    memory_free(slots->path);
    *slots = (tensor_slots){.descriptor = -1};
}
