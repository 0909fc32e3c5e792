/* Reads the descriptions of tensors in torch's pickles: calls of torch._utils._rebuild_tensor and
 * its successors, with persistent references to storages. Source: torch/_utils.py and
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

/* ('storage', class, key, location, elements) */
static grail_status read_reference(const pickle_value *id, torch_reference *out)
{
    torch_reference reference = {0};
    const pickle_value *class = pickle_item(id, 1);
    reference.type = torch_dtype_of_storage(class);
    if (reference.type == NULL && class != NULL && class->kind == PICKLE_GLOBAL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "its storage has the unknown class '%.*s.%.*s'",
                         (int)class->global->module.size, class->global->module.data,
                         (int)class->global->name.size, class->global->name.data);
    }
    if (reference.type == NULL || !pickle_text(pickle_item(id, 2), &reference.key)) {
        return error_set(GRAIL_ERROR_FORMAT, "its storage lacks a class or a key");
    }
    if (pickle_count(id) != 5) {
        return error_set(GRAIL_ERROR_FORMAT, "its storage is described by %lld values, expected 5",
                         (long long)pickle_count(id));
    }
    CHECK(read_count(pickle_item(id, 4), "storage's size", &reference.elements));
    *out = reference;
    return GRAIL_OK;
}

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

static grail_status read_dtype(const pickle_value *name, torch_layout *layout)
{
    const torch_dtype *type = name == NULL ? layout->storage.type : torch_dtype_of_name(name);
    if (type == NULL || type->dtype == GRAIL_DTYPE_COUNT) {
        const char *text = type == NULL || type->name == NULL ? "unknown" : type->name;
        return error_set(GRAIL_ERROR_UNSUPPORTED, "its dtype (%s) is not supported", text);
    }
    layout->dtype = type->dtype;
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
    CHECK(read_reference(storage->persistent, &layout.storage));
    CHECK(read_dtype(dtype, &layout));
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
