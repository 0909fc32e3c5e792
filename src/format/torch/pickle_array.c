/* numpy arrays in pickles: numpy.core.multiarray._reconstruct(ndarray, (0,), b'b') with the state
 * (version, shape, dtype, is_fortran, data), or numpy.core.numeric._frombuffer(data, dtype, shape,
 * order) since protocol 5. numpy 2 names the modules numpy._core. */
#include "format/torch/pickle.h"

#include <string.h>

static bool is_numpy_call(const pickle_value *value, const char *module, const char *name)
{
    char full[64];
    bool found = false;
    const char *const packages[] = {"numpy.core", "numpy._core"};
    for (size_t i = 0; i < 2 && !found; i++) {
        stpcpy(stpcpy(stpcpy(full, packages[i]), "."), module);
        found = pickle_is_call(value, full, name);
    }
    return found;
}

static grail_status read_parts(const pickle_value *shape, const pickle_value *dtype, bool row_major,
                               const pickle_value *data, pickle_array *out)
{
    pickle_span span = {0};
    /* dtype('u1', ...) with the state (version, byte order, ...); '=' is this machine's order. */
    pickle_span text = {0};
    if (!pickle_is_call(dtype, "numpy", "dtype") ||
        !pickle_text(pickle_item(dtype->call.arguments, 0), &text)) {
        return error_set(GRAIL_ERROR_FORMAT, "the array's dtype is %s", pickle_kind_text(dtype));
    }
    const bool plain = text.size == 2 && memchr("uifb", text.data[0], 4) != NULL;
    if (!plain || memchr("1248", text.data[1], 4) == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "the array's dtype '%.*s' is not a plain number type",
                         text.size < 32 ? (int)text.size : 32, text.data);
    }
    if (pickle_text_is(pickle_item(dtype->call.state, 1), ">")) {
        return error_set(GRAIL_ERROR_FORMAT, "the array is big-endian, expected little-endian");
    }
    out->kind = text.data[0];
    out->element_size = text.data[1] - '0';
    const int64_t rank = pickle_count(shape);
    if (shape == NULL || shape->kind != PICKLE_TUPLE || rank > PICKLE_ARRAY_MOST_RANK) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the array's shape is %s of %lld items, expected a tuple of at most %d",
                         pickle_kind_text(shape), (long long)rank, PICKLE_ARRAY_MOST_RANK);
    }
    size_t bytes = (size_t)out->element_size;
    for (int64_t d = 0; d < rank; d++) {
        int64_t length = 0;
        if (!pickle_integer(pickle_item(shape, d), &length) || length < 0 ||
            !size_multiply(bytes, (size_t)length, &bytes)) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "array dimension %lld is not an integer of 0 or more, or is too large",
                             (long long)d);
        }
        out->shape[d] = length;
    }
    out->rank = (int)rank;
    out->bytes = bytes;
    if (!row_major && out->rank > 1) {
        return error_set(GRAIL_ERROR_FORMAT, "the array is in Fortran order, expected C order");
    }
    if (!pickle_text(data, &span)) {
        return error_set(GRAIL_ERROR_FORMAT, "the array's data is %s", pickle_kind_text(data));
    }
    if (span.size != out->bytes) {
        return error_set(GRAIL_ERROR_FORMAT, "the array's shape takes %zu bytes, but %zu are given",
                         out->bytes, span.size);
    }
    out->data = (const unsigned char *)span.data;
    return GRAIL_OK;
}

grail_status pickle_read_array(const pickle_value *value, pickle_array *out)
{
    pickle_array array = {0};
    if (is_numpy_call(value, "multiarray", "_reconstruct")) {
        const pickle_value *state = value->call.state;
        int64_t fortran = 1;
        (void)pickle_integer(pickle_item(state, 3), &fortran);
        CHECK(read_parts(pickle_item(state, 1), pickle_item(state, 2), fortran == 0,
                         pickle_item(state, 4), &array));
    } else if (is_numpy_call(value, "numeric", "_frombuffer")) {
        const pickle_value *arguments = value->call.arguments;
        CHECK(read_parts(pickle_item(arguments, 2), pickle_item(arguments, 1),
                         pickle_text_is(pickle_item(arguments, 3), "C"), pickle_item(arguments, 0),
                         &array));
    } else {
        return error_set(GRAIL_ERROR_FORMAT, "%s is not a numpy array", pickle_kind_text(value));
    }
    *out = array;
    return GRAIL_OK;
}
