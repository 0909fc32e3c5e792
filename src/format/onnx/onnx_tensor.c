#include "format/onnx/onnx_tensor.h"

#include "base/bytes.h"
#include "format/onnx/onnx_fields.h"

#include <string.h>

typedef struct element_facts {
    const char *name; /* NULL: no type has this number */
    grail_dtype dtype;
    unsigned bits;  /* of an element */
    uint32_t field; /* that holds its values where they are not raw */
    int sign;       /* of integers: -1 where they may be below 0, else 1; 0 of others */
} element_facts;

/* Source: the comments of TensorProto. Types after FLOAT4E2M1 came with later opsets. */
static const element_facts elements[] = {
    [1] = {"FLOAT", GRAIL_DTYPE_F32, 32, TENSOR_REALS, 0},
    [2] = {"UINT8", GRAIL_DTYPE_U8, 8, TENSOR_INTEGERS, 1},
    [3] = {"INT8", GRAIL_DTYPE_I8, 8, TENSOR_INTEGERS, -1},
    [4] = {"UINT16", GRAIL_DTYPE_U16, 16, TENSOR_INTEGERS, 1},
    [5] = {"INT16", GRAIL_DTYPE_I16, 16, TENSOR_INTEGERS, -1},
    [6] = {"INT32", GRAIL_DTYPE_I32, 32, TENSOR_INTEGERS, -1},
    [7] = {"INT64", GRAIL_DTYPE_I64, 64, TENSOR_INTEGERS64, -1},
    [8] = {"STRING", GRAIL_DTYPE_COUNT, 0, TENSOR_TEXTS, 0},
    [9] = {"BOOL", GRAIL_DTYPE_BOOL, 8, TENSOR_INTEGERS, 1},
    [10] = {"FLOAT16", GRAIL_DTYPE_F16, 16, TENSOR_INTEGERS, 0},
    [11] = {"DOUBLE", GRAIL_DTYPE_F64, 64, TENSOR_REALS64, 0},
    [12] = {"UINT32", GRAIL_DTYPE_U32, 32, TENSOR_NATURALS64, 1},
    [13] = {"UINT64", GRAIL_DTYPE_U64, 64, TENSOR_NATURALS64, 1},
    [14] = {"COMPLEX64", GRAIL_DTYPE_C64, 64, TENSOR_REALS, 0},
    [15] = {"COMPLEX128", GRAIL_DTYPE_COUNT, 128, TENSOR_REALS64, 0},
    [16] = {"BFLOAT16", GRAIL_DTYPE_BF16, 16, TENSOR_INTEGERS, 0},
    [17] = {"FLOAT8E4M3FN", GRAIL_DTYPE_F8_E4M3, 8, TENSOR_INTEGERS, 0},
    [18] = {"FLOAT8E4M3FNUZ", GRAIL_DTYPE_F8_E4M3FNUZ, 8, TENSOR_INTEGERS, 0},
    [19] = {"FLOAT8E5M2", GRAIL_DTYPE_F8_E5M2, 8, TENSOR_INTEGERS, 0},
    [20] = {"FLOAT8E5M2FNUZ", GRAIL_DTYPE_F8_E5M2FNUZ, 8, TENSOR_INTEGERS, 0},
    [21] = {"UINT4", GRAIL_DTYPE_COUNT, 4, TENSOR_INTEGERS, 0},
    [22] = {"INT4", GRAIL_DTYPE_COUNT, 4, TENSOR_INTEGERS, 0},
    [23] = {"FLOAT4E2M1", GRAIL_DTYPE_F4, 4, TENSOR_INTEGERS, 0},
};

static bool is_text(byte_range bytes, const char *text)
{
    return bytes.size == strlen(text) && memcmp(bytes.bytes, text, bytes.size) == 0;
}

static const element_facts *facts_of(int element)
{
    const int count = (int)(sizeof elements / sizeof elements[0]);
    return element > 0 && element < count ? &elements[element] : NULL;
}

const char *onnx_element_name(int element)
{
    const element_facts *facts = facts_of(element);
    return facts == NULL ? NULL : facts->name;
}

int onnx_element_of(grail_dtype dtype)
{
    for (int i = 1; i < (int)(sizeof elements / sizeof elements[0]); i++) {
        if (elements[i].dtype == dtype && dtype != GRAIL_DTYPE_COUNT) {
            return i;
        }
    }
    return 0;
}

/* Bytes of a number of that type, and how it is stored in a field of numbers. Several elements of
 * less than a byte share one. */
static size_t number_width(const element_facts *facts, protobuf_wire *wire)
{
    *wire = facts->field == TENSOR_REALS     ? WIRE_FIXED32
            : facts->field == TENSOR_REALS64 ? WIRE_FIXED64
                                             : WIRE_VARINT;
    return *wire == WIRE_FIXED32   ? 4
           : *wire == WIRE_FIXED64 ? 8
           : facts->bits < 8       ? 1
                                   : facts->bits / 8;
}

bool onnx_holds_values(uint32_t field)
{
    return (field >= TENSOR_REALS && field <= TENSOR_INTEGERS64) ||
           (field >= TENSOR_RAW && field <= TENSOR_NATURALS64) || field == TENSOR_SIZE ||
           field == TENSOR_EXTERNAL || field == TENSOR_LOCATION;
}

static grail_status take_shape(onnx_tensor *t, int64_t *count)
{
    protobuf_numbers walk = {.rest = t->message, .number = TENSOR_SIZE};
    const element_facts *facts = facts_of(t->element);
    char text[128];
    uint64_t size = 0;
    size_t bits = 0;
    bool more = true;
    for (;;) {
        CHECK(protobuf_next_number(&walk, &more, &size));
        if (!more) {
            break;
        }
        if (t->view.rank == ONNX_MAX_RANK) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "has more than %d dimensions, which grail does not read",
                             ONNX_MAX_RANK);
        }
        t->view.shape[t->view.rank++] = (int64_t)size;
    }
    if (!shape_elements(t->view.rank, t->view.shape, count) ||
        !size_multiply((size_t)*count, facts->bits, &bits)) {
        return error_set(GRAIL_ERROR_FORMAT, "has the shape %s, which no tensor can have",
                         shape_text(t->view.rank, t->view.shape, text, sizeof text));
    }
    t->view.bytes = bits / 8 + (bits % 8 != 0);
    return GRAIL_OK;
}

/* A decimal number of bytes, which stays as it is without one. */
static grail_status take_decimal(byte_range text, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.size; i++) {
        const unsigned digit = (unsigned)text.bytes[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value)) {
            return error_set(GRAIL_ERROR_FORMAT, "has values at '%.*s', which is no number",
                             (int)(text.size < 32 ? text.size : 32), (const char *)text.bytes);
        }
    }
    *out = text.size == 0 ? *out : value;
    return GRAIL_OK;
}

/* Values in another file, by the entries of external_data. */
static grail_status place_outside(onnx_tensor *t)
{
    uint64_t length = t->view.bytes;
    for (byte_range rest = t->message; rest.size > 0;) {
        protobuf_field field;
        byte_range key = {0};
        byte_range value = {0};
        const protobuf_part parts[] = {{ENTRY_KEY, .bytes = &key}, {ENTRY_VALUE, .bytes = &value}};
        CHECK(protobuf_next(&rest, &field));
        if (field.number == TENSOR_EXTERNAL) {
            CHECK(protobuf_take(field.bytes, 2, parts));
            CHECK(is_text(key, "offset") ? take_decimal(value, &t->offset) : GRAIL_OK);
            CHECK(is_text(key, "length") ? take_decimal(value, &length) : GRAIL_OK);
            t->location = is_text(key, "location") ? value : t->location;
        }
    }
    if (t->field != 0 || t->location.size == 0 || t->element == ONNX_STRING) {
        return error_set(GRAIL_ERROR_FORMAT, t->field != 0
                                                 ? "has values in this file and in another one"
                                                 : "has values in a file without a name, or texts");
    }
    return length == t->view.bytes
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_FORMAT, "claims %llu bytes of values, expected %zu",
                           (unsigned long long)length, t->view.bytes);
}

static grail_status count_numbers(const onnx_tensor *t, protobuf_wire wire, size_t *out)
{
    protobuf_numbers walk = {.rest = t->message, .number = t->field, .wire = wire};
    uint64_t value = 0;
    bool more = true;
    for (*out = 0;; ++*out) {
        CHECK(protobuf_next_number(&walk, &more, &value));
        if (!more) {
            return GRAIL_OK;
        }
    }
}

/* Numbers of a fixed width in one packed field lie there as in memory; NULL for others. */
static const void *packed_numbers(const onnx_tensor *t, protobuf_wire wire)
{
    byte_range rest = t->message;
    protobuf_field field = {0};
    while (rest.size > 0 && field.number != t->field) {
        if (protobuf_next(&rest, &field) != GRAIL_OK) {
            return NULL;
        }
    }
    return field.wire == WIRE_BYTES && wire != WIRE_VARINT ? field.bytes.bytes : NULL;
}

/* The values in this file are as many as the shape says. `count` is of elements, `times` how often
 * the field of values occurs. */
static grail_status place_inside(onnx_tensor *t, int64_t count, size_t times)
{
    const element_facts *facts = facts_of(t->element);
    char text[128];
    protobuf_wire wire = WIRE_VARINT;
    const size_t width = number_width(facts, &wire);
    size_t held = times;
    size_t expected = t->element == ONNX_STRING ? (size_t)count : t->view.bytes / width;
    if (t->field != 0 && t->field != TENSOR_RAW && t->field != facts->field) {
        return error_set(GRAIL_ERROR_FORMAT, "has values in field %u, but those of %s are in %u",
                         t->field, facts->name, facts->field);
    }
    if (t->field == TENSOR_RAW) {
        const protobuf_part raw = {TENSOR_RAW, .bytes = &(byte_range){0}};
        CHECK(protobuf_take(t->message, 1, &raw));
        held = raw.bytes->size;
        expected = t->view.bytes;
        t->view.data = raw.bytes->bytes;
    } else if (t->field != 0 && t->field != TENSOR_TEXTS) {
        CHECK(count_numbers(t, wire, &held));
        t->view.data = times == 1 && held == expected ? packed_numbers(t, wire) : NULL;
    }
    return held == expected
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_FORMAT, "holds %zu %s, but %s elements of %s are %zu", held,
                           t->field == TENSOR_RAW ? "bytes" : "values",
                           shape_text(t->view.rank, t->view.shape, text, sizeof text), facts->name,
                           expected);
}

grail_status onnx_tensor_parse(byte_range message, byte_range *name, onnx_tensor *out)
{
    enum { PARTS = 4, HELD = 7 };
    static const uint32_t fields[HELD] = {TENSOR_REALS,      TENSOR_INTEGERS, TENSOR_TEXTS,
                                          TENSOR_INTEGERS64, TENSOR_RAW,      TENSOR_REALS64,
                                          TENSOR_NATURALS64};
    int64_t type = 0;
    int64_t location = 0;
    int64_t count = 0;
    size_t segments = 0;
    size_t times[HELD] = {0};
    protobuf_part parts[PARTS + HELD] = {{TENSOR_TYPE, .integer = &type},
                                         {TENSOR_NAME, .bytes = name},
                                         {TENSOR_LOCATION, .integer = &location},
                                         {TENSOR_SEGMENT, .count = &segments}};
    for (int i = 0; i < HELD; i++) {
        parts[PARTS + i] = (protobuf_part){fields[i], .count = &times[i]};
    }
    CHECK(protobuf_take(message, PARTS + HELD, parts));
    *out = (onnx_tensor){.element = (int)type, .message = message, .data_file = -1};
    if (segments > 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "is a segment, which grail does not read");
    }
    if (type != out->element || onnx_element_name(out->element) == NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "has elements of type %lld, which grail does not know", (long long)type);
    }
    size_t held = 0;
    for (int i = 0; i < HELD; i++) {
        if (times[i] > 0 && held > 0) {
            return error_set(GRAIL_ERROR_FORMAT, "holds its values twice");
        }
        out->field = times[i] > 0 ? fields[i] : out->field;
        held += times[i];
    }
    out->view.dtype = elements[out->element].dtype;
    CHECK(take_shape(out, &count));
    return location == LOCATION_EXTERNAL ? place_outside(out) : place_inside(out, count, held);
}

grail_status onnx_tensor_of_numbers(byte_range message, uint32_t field, int element, bool is_list,
                                    onnx_tensor *out)
{
    const element_facts *facts = &elements[element];
    protobuf_wire wire = WIRE_VARINT;
    size_t count = 0;
    const size_t width = number_width(facts, &wire);
    *out = (onnx_tensor){.view = {.dtype = facts->dtype, .rank = is_list ? 1 : 0},
                         .element = element,
                         .is_numbers = true,
                         .message = message,
                         .field = field,
                         .data_file = -1};
    CHECK(count_numbers(out, wire, &count));
    if (!is_list && count != 1) {
        return error_set(GRAIL_ERROR_FORMAT, "has %zu values where one is expected", count);
    }
    out->view.shape[0] = is_list ? (int64_t)count : 0;
    out->view.bytes = count * width;
    return GRAIL_OK;
}

/* -- values ------------------------------------------------------------------------------------ */

grail_status onnx_tensor_load(const onnx_tensor *t, void *out)
{
    const element_facts *facts = facts_of(t->element);
    protobuf_numbers walk = {.rest = t->message, .number = t->field};
    const size_t width = number_width(facts, &walk.wire);
    unsigned char *to = out;
    bool more = true;
    if (t->element == ONNX_STRING) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "'%s' holds texts, not numbers", t->view.name);
    }
    if (t->view.data != NULL || t->view.bytes == 0) {
        memcpy(to, t->view.bytes == 0 ? "" : t->view.data, t->view.bytes);
        return GRAIL_OK;
    }
    for (size_t at = 0; at < t->view.bytes && more; at += width) {
        uint64_t value = 0;
        CHECK(protobuf_next_number(&walk, &more, &value));
        store_little(to + at, width, value);
    }
    return GRAIL_OK;
}

/* The values as they lie in memory: in the file, or in *owned, which the caller frees. */
static grail_status dense(const onnx_tensor *t, void **owned, const void **out)
{
    *out = t->view.data;
    if (*out == NULL) {
        CHECK(memory_new_unset(owned, t->view.bytes, 1));
        *out = *owned;
        CHECK(onnx_tensor_load(t, *owned));
    }
    return GRAIL_OK;
}

static grail_status not_numbers(const onnx_tensor *t, const char *kind)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED, "'%s' has elements of %s, expected %s", t->view.name,
                     onnx_element_name(t->element), kind);
}

grail_status onnx_tensor_f32(const onnx_tensor *t, float *out)
{
    grail_status status = GRAIL_OK;
    void *owned = NULL;
    const void *values = NULL;
    int64_t count = 0;
    if (!dtype_is_float(t->view.dtype) || !shape_elements(t->view.rank, t->view.shape, &count)) {
        return not_numbers(t, "FLOAT, FLOAT16, BFLOAT16 or DOUBLE");
    }
    TRY(dense(t, &owned, &values));
    TRY(convert_to_f32(t->view.dtype, values, count, out));
out:
    memory_free(owned);
    return status;
}

grail_status onnx_tensor_integers(const onnx_tensor *t, int64_t *out)
{
    grail_status status = GRAIL_OK;
    void *owned = NULL;
    const void *values = NULL;
    const int sign = facts_of(t->element)->sign;
    if (sign == 0) {
        return not_numbers(t, "integers");
    }
    const size_t width = dtype_bits(t->view.dtype) / 8;
    TRY(dense(t, &owned, &values));
    for (size_t i = 0; i < t->view.bytes / width; i++) {
        const uint64_t value = load_little((const unsigned char *)values + i * width, width);
        const unsigned above = (unsigned)(64 - 8 * width);
        if (sign > 0 && value > INT64_MAX) {
            FAIL(GRAIL_ERROR_UNSUPPORTED, "'%s' has the element %llu, beyond 2^63 - 1",
                 t->view.name, (unsigned long long)value);
        }
        out[i] = sign < 0 ? (int64_t)(value << above) >> above : (int64_t)value;
    }
out:
    memory_free(owned);
    return status;
}
