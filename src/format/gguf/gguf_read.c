/* Strict reading of GGUF files. Everything is checked before a tensor is handed out: counts,
 * lengths, types, keys that occur twice, and that the tensors lie one behind another, each at the
 * alignment, and end inside the file.
 *
 * Rules: ggml, src/gguf.cpp. This reader is stricter: keys and names are UTF-8 without NUL bytes, a
 * boolean is 0 or 1, and the limits of gguf_limits.h and tensor_limits.h hold. */
#include "base/bytes.h"
#include "base/utf8.h"
#include "format/gguf/gguf.h"

#include <string.h>

/* Numbers and names of tensor types. Source: ggml, include/ggml.h. */

typedef struct tensor_type {
    const char *name;  /* NULL: the number has no meaning any more */
    grail_dtype dtype; /* GRAIL_DTYPE_COUNT where grail has none */
} tensor_type;

#define OTHER(name)                                                                                \
    {                                                                                              \
        name, GRAIL_DTYPE_COUNT                                                                    \
    }

static const tensor_type types[] = {
    [0] = {"F32", GRAIL_DTYPE_F32},
    [1] = {"F16", GRAIL_DTYPE_F16},
    [2] = {"Q4_0", GRAIL_DTYPE_Q4_0},
    [3] = {"Q4_1", GRAIL_DTYPE_Q4_1},
    [6] = {"Q5_0", GRAIL_DTYPE_Q5_0},
    [7] = {"Q5_1", GRAIL_DTYPE_Q5_1},
    [8] = {"Q8_0", GRAIL_DTYPE_Q8_0},
    [9] = OTHER("Q8_1"),
    [10] = OTHER("Q2_K"),
    [11] = OTHER("Q3_K"),
    [12] = {"Q4_K", GRAIL_DTYPE_Q4_K},
    [13] = {"Q5_K", GRAIL_DTYPE_Q5_K},
    [14] = {"Q6_K", GRAIL_DTYPE_Q6_K},
    [15] = OTHER("Q8_K"),
    [16] = OTHER("IQ2_XXS"),
    [17] = OTHER("IQ2_XS"),
    [18] = OTHER("IQ3_XXS"),
    [19] = OTHER("IQ1_S"),
    [20] = OTHER("IQ4_NL"),
    [21] = OTHER("IQ3_S"),
    [22] = OTHER("IQ2_S"),
    [23] = OTHER("IQ4_XS"),
    [24] = {"I8", GRAIL_DTYPE_I8},
    [25] = {"I16", GRAIL_DTYPE_I16},
    [26] = {"I32", GRAIL_DTYPE_I32},
    [27] = {"I64", GRAIL_DTYPE_I64},
    [28] = {"F64", GRAIL_DTYPE_F64},
    [29] = OTHER("IQ1_M"),
    [30] = {"BF16", GRAIL_DTYPE_BF16},
    [34] = OTHER("TQ1_0"),
    [35] = OTHER("TQ2_0"),
    [39] = OTHER("MXFP4"),
};

enum { TYPE_COUNT = sizeof types / sizeof types[0] };

/* The name of a tensor type by its number, such as "IQ4_XS"; NULL for an unknown one. */
static const char *gguf_tensor_type_name(uint32_t number)
{
    return number < TYPE_COUNT ? types[number].name : NULL;
}

/* The dtype of a tensor type; false if grail has none. */
static bool gguf_tensor_dtype(uint32_t number, grail_dtype *out)
{
    if (gguf_tensor_type_name(number) == NULL || types[number].dtype == GRAIL_DTYPE_COUNT) {
        return false;
    }
    *out = types[number].dtype;
    return true;
}

bool gguf_tensor_number(grail_dtype dtype, uint32_t *out)
{
    for (uint32_t i = 0; i < TYPE_COUNT; i++) {
        if (types[i].name != NULL && types[i].dtype == dtype) {
            *out = i;
            return true;
        }
    }
    return false;
}

static const gguf_type_facts facts[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = {"u8", 1, true, false},         [GGUF_I8] = {"i8", 1, true, true},
    [GGUF_U16] = {"u16", 2, true, false},       [GGUF_I16] = {"i16", 2, true, true},
    [GGUF_U32] = {"u32", 4, true, false},       [GGUF_I32] = {"i32", 4, true, true},
    [GGUF_U64] = {"u64", 8, true, false},       [GGUF_I64] = {"i64", 8, true, true},
    [GGUF_F32] = {"f32", 4, false, true},       [GGUF_F64] = {"f64", 8, false, true},
    [GGUF_BOOL] = {"boolean", 1, false, false}, [GGUF_TEXT] = {"text", 0, false, false},
    [GGUF_ARRAY] = {"array", 0, false, false},
};

/* What is known about a type of values. */
static const gguf_type_facts *gguf_facts(gguf_type type)
{
    return &facts[type];
}

/* Values of keys, as numbers and texts. */

const gguf_value *gguf_find(const gguf_metadata *m, const char *key)
{
    const int64_t i = name_index_find(&m->index, key);
    return i < 0 ? NULL : &m->values[i];
}

static grail_status wrong_type(const gguf_value *value, const char *expected)
{
    return error_set(GRAIL_ERROR_FORMAT, "key '%s' is %s%s, expected %s", value->key,
                     value->is_array ? "an array of " : "", gguf_facts(value->type)->name,
                     expected);
}

grail_status gguf_integer_at(const gguf_value *value, uint64_t i, int64_t *out)
{
    const gguf_type_facts *type = gguf_facts(value->type);
    const size_t width = type->width;
    if (!type->is_integer) {
        return wrong_type(value, "an integer");
    }
    uint64_t bits = load_little(value->bytes + (size_t)i * width, width);
    if (type->is_signed && (bits >> (8 * width - 1) & 1) != 0 && width < 8) {
        bits |= UINT64_MAX << (8 * width);
    }
    if (!type->is_signed && bits > INT64_MAX) {
        return error_set(GRAIL_ERROR_FORMAT, "key '%s' is %llu, beyond 2^63 - 1", value->key,
                         (unsigned long long)bits);
    }
    memcpy(out, &bits, sizeof bits);
    return GRAIL_OK;
}

grail_status gguf_real_at(const gguf_value *value, uint64_t i, double *out)
{
    float single = 0.0F;
    int64_t integer = 0;
    if (value->type == GGUF_F32) {
        memcpy(&single, value->bytes + (size_t)i * sizeof single, sizeof single);
        *out = (double)single;
    } else if (value->type == GGUF_F64) {
        memcpy(out, value->bytes + (size_t)i * sizeof *out, sizeof *out);
    } else {
        if (!gguf_facts(value->type)->is_integer) {
            return wrong_type(value, "a number");
        }
        CHECK(gguf_integer_at(value, i, &integer));
        *out = (double)integer;
    }
    return GRAIL_OK;
}

grail_status gguf_get_integer(const gguf_metadata *m, const char *key, int64_t fallback,
                              int64_t *out)
{
    const gguf_value *value = gguf_find(m, key);
    if (value == NULL) {
        *out = fallback;
        return GRAIL_OK;
    }
    return value->is_array ? wrong_type(value, "an integer") : gguf_integer_at(value, 0, out);
}

grail_status gguf_get_real(const gguf_metadata *m, const char *key, double fallback, double *out)
{
    const gguf_value *value = gguf_find(m, key);
    if (value == NULL) {
        *out = fallback;
        return GRAIL_OK;
    }
    return value->is_array ? wrong_type(value, "a number") : gguf_real_at(value, 0, out);
}

grail_status gguf_get_boolean(const gguf_metadata *m, const char *key, bool fallback, bool *out)
{
    const gguf_value *value = gguf_find(m, key);
    if (value != NULL && (value->is_array || value->type != GGUF_BOOL)) {
        return wrong_type(value, "a boolean");
    }
    *out = value == NULL ? fallback : value->bytes[0] != 0;
    return GRAIL_OK;
}

grail_status gguf_get_text(const gguf_metadata *m, const char *key, char **out)
{
    const gguf_value *value = gguf_find(m, key);
    const char *text = NULL;
    size_t size = 0;
    *out = NULL;
    if (value == NULL) {
        return GRAIL_OK;
    }
    gguf_walk walk = {.value = value};
    if (value->is_array || value->type != GGUF_TEXT || !gguf_walk_next(&walk, &text, &size)) {
        return wrong_type(value, "a text");
    }
    if (memchr(text, 0, size) != NULL || utf8_valid_prefix(text, size) != size) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the text of key '%s' holds a NUL byte, or is no UTF-8", key);
    }
    CHECK(memory_new(out, size + 1, 1));
    memcpy(*out, text, size);
    return GRAIL_OK;
}

bool gguf_walk_next(gguf_walk *walk, const char **bytes, size_t *size)
{
    if (walk->value->type != GGUF_TEXT || walk->at >= walk->value->size) {
        return false;
    }
    *size = (size_t)load_little(walk->value->bytes + walk->at, 8);
    *bytes = (const char *)walk->value->bytes + walk->at + 8;
    walk->at += 8 + *size;
    return true;
}

enum { MAGIC_SIZE = 4, OLDEST_VERSION = 2, NEWEST_VERSION = 3, MOST_CHARACTERS = 60 };

typedef struct cursor {
    const unsigned char *bytes;
    size_t size, at;
} cursor;

/* -- pieces ------------------------------------------------------------------------------------ */

static grail_status take(cursor *c, uint64_t size, const char *what, const unsigned char **out)
{
    if (size > c->size - c->at) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s at byte %zu takes %llu bytes, but the file has %zu bytes: truncated?",
                         what, c->at, (unsigned long long)size, c->size);
    }
    *out = c->bytes + c->at;
    c->at += (size_t)size;
    return GRAIL_OK;
}

static grail_status take_number(cursor *c, size_t width, const char *what, uint64_t *out)
{
    const unsigned char *bytes = NULL;
    CHECK(take(c, width, what, &bytes));
    *out = load_little(bytes, width);
    return GRAIL_OK;
}

static grail_status take_text(cursor *c, const char *what, const unsigned char **out, size_t *size)
{
    uint64_t length = 0;
    CHECK(take_number(c, 8, what, &length));
    CHECK(take(c, length, what, out));
    *size = (size_t)length;
    return GRAIL_OK;
}

/* A key, or the name of a tensor; *out is owned. */
static grail_status take_name(cursor *c, const char *what, size_t longest, char **out)
{
    const unsigned char *text = NULL;
    size_t size = 0;
    CHECK(take_text(c, what, &text, &size));
    if (size == 0 || size > longest) {
        return error_set(GRAIL_ERROR_FORMAT, "%s before byte %zu has %zu bytes, expected 1 to %zu",
                         what, c->at, size, longest);
    }
    if (memchr(text, 0, size) != NULL || utf8_valid_prefix((const char *)text, size) != size) {
        return error_set(GRAIL_ERROR_FORMAT, "%s before byte %zu holds a NUL byte, or is no UTF-8",
                         what, c->at);
    }
    CHECK(memory_new(out, size + 1, 1));
    memcpy(*out, text, size);
    return GRAIL_OK;
}

/* -- metadata ---------------------------------------------------------------------------------- */

static grail_status take_type(cursor *c, gguf_type *out)
{
    uint64_t number = 0;
    CHECK(take_number(c, 4, "the type of a value", &number));
    if (number >= GGUF_TYPE_COUNT) {
        return error_set(GRAIL_ERROR_FORMAT, "its type %llu is unknown; expected 0 to %d",
                         (unsigned long long)number, GGUF_TYPE_COUNT - 1);
    }
    *out = (gguf_type)number;
    return GRAIL_OK;
}

static grail_status take_value(cursor *c, gguf_value *value)
{
    const unsigned char *bytes = NULL;
    size_t length = 0;
    uint64_t size = 0;
    CHECK(take_type(c, &value->type));
    value->count = 1;
    if (value->type == GGUF_ARRAY) {
        value->is_array = true;
        CHECK(take_type(c, &value->type));
        if (value->type == GGUF_ARRAY) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "it is an array of arrays, which no reader of GGUF takes; convert the "
                             "network again without the key");
        }
        CHECK(take_number(c, 8, "the length of an array", &value->count));
    }
    value->bytes = c->bytes + c->at;
    for (uint64_t i = 0; value->type == GGUF_TEXT && i < value->count; i++) {
        CHECK(take_text(c, "a text", &bytes, &length));
    }
    if (__builtin_mul_overflow(value->count, gguf_facts(value->type)->width, &size)) {
        size = UINT64_MAX;
    }
    CHECK(take(c, size, "the value", &bytes));
    for (uint64_t i = 0; value->type == GGUF_BOOL && i < value->count; i++) {
        if (bytes[i] > 1) {
            return error_set(GRAIL_ERROR_FORMAT, "its boolean is stored as %d, expected 0 or 1",
                             bytes[i]);
        }
    }
    value->size = (size_t)(c->bytes + c->at - value->bytes);
    return GRAIL_OK;
}

static void metadata_free(void *parts)
{
    gguf_metadata *m = parts;
    for (int64_t i = 0; i < m->count; i++) {
        memory_free(m->values[i].key);
    }
    memory_free(m->values);
    name_index_fini(&m->index);
    memory_free(m);
}

static grail_status read_metadata(cursor *c, uint64_t count, gguf_metadata *m)
{
    for (uint64_t i = 0; i < count; i++) {
        CHECK(memory_reserve(&m->values, (size_t)m->count + 1, sizeof m->values[0]));
        gguf_value *value = &m->values[m->count++];
        *value = (gguf_value){0};
        CHECK(take_name(c, "a key", GGUF_LONGEST_KEY, &value->key));
        CHECK(error_in(take_value(c, value), "key '%.*s'", MOST_CHARACTERS, value->key));
    }
    CHECK(name_index_init(&m->index, m->count, m->values, sizeof m->values[0]));
    const char *twice = name_index_twice(&m->index);
    if (twice != NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "key '%s' occurs twice", twice);
    }
    const gguf_value *stated = gguf_find(m, "general.alignment");
    int64_t alignment = GGUF_USUAL_ALIGNMENT;
    if (stated != NULL && (stated->is_array || stated->type != GGUF_U32)) {
        return error_set(GRAIL_ERROR_FORMAT, "key 'general.alignment' is not of type u32");
    }
    CHECK(gguf_get_integer(m, "general.alignment", alignment, &alignment));
    if (alignment < 1 || (alignment & (alignment - 1)) != 0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "key 'general.alignment' is %lld, expected a power of two",
                         (long long)alignment);
    }
    m->alignment = (size_t)alignment;
    return GRAIL_OK;
}

/* -- tensors ----------------------------------------------------------------------------------- */

static grail_status take_dtype(cursor *c, tensor_view *view)
{
    uint64_t number = 0;
    CHECK(take_number(c, 4, "the type of a tensor", &number));
    if (gguf_tensor_dtype((uint32_t)number, &view->dtype)) {
        return GRAIL_OK;
    }
    const char *name = gguf_tensor_type_name((uint32_t)number);
    if (name == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "its type %llu is unknown",
                         (unsigned long long)number);
    }
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "has type %s, which grail does not read; it reads F32, F16, BF16, Q8_0, Q4_0, "
                     "Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K: quantise the original to one of them, "
                     "or give the original",
                     name);
}

/* Tensors lie one behind another, in the order of the file, each at the alignment: *expected is
 * where this one does, and then the next one. The data begins only where the last one's description
 * ends, so the view gets its offset in place of its address. */
static grail_status place(cursor *c, size_t alignment, uint64_t *expected, tensor_view *view)
{
    uint64_t offset = 0;
    uint64_t end = 0;
    CHECK(take_number(c, 8, "the offset of a tensor", &offset));
    if (offset != *expected) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "lies at byte %llu of the data, expected %llu: behind the one before it, "
                         "at a multiple of %zu",
                         (unsigned long long)offset, (unsigned long long)*expected, alignment);
    }
    if (__builtin_add_overflow(offset, view->bytes, &end) ||
        __builtin_add_overflow(end, alignment - 1, expected)) {
        return error_set(GRAIL_ERROR_FORMAT, "ends beyond 2^64 bytes");
    }
    *expected -= *expected % alignment;
    view->data = (const unsigned char *)(uintptr_t)offset;
    return GRAIL_OK;
}

static grail_status describe(cursor *c, size_t alignment, uint64_t *expected, tensor_view *view)
{
    char text[128];
    /* Dimensions are stored innermost first. */
    uint64_t rank = 0;
    CHECK(take_number(c, 4, "the number of dimensions", &rank));
    if (rank > GGUF_MOST_DIMENSIONS) {
        return error_set(GRAIL_ERROR_FORMAT, "has %llu dimensions, more than the allowed %d",
                         (unsigned long long)rank, GGUF_MOST_DIMENSIONS);
    }
    view->rank = (int)rank;
    for (int d = view->rank - 1; d >= 0; d--) {
        uint64_t size = 0;
        CHECK(take_number(c, 8, "a dimension", &size));
        if (size > INT64_MAX) {
            return error_set(GRAIL_ERROR_FORMAT, "dimension %d is %llu, beyond 2^63 - 1", d,
                             (unsigned long long)size);
        }
        view->shape[d] = (int64_t)size;
    }
    CHECK(take_dtype(c, view));
    const int64_t block = dtype_block(view->dtype);
    const int64_t columns = view->rank == 0 ? 1 : view->shape[view->rank - 1];
    shape_text(view->rank, view->shape, text, sizeof text);
    if (columns % block != 0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s elements of %s do not fill its blocks of %lld",
                         text, grail_dtype_name(view->dtype), (long long)block);
    }
    if (!shape_bytes(view->dtype, view->rank, view->shape, &view->bytes)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s elements of %s take 2^61 bytes or more", text,
                         grail_dtype_name(view->dtype));
    }
    return place(c, alignment, expected, view);
}

static grail_status read_tensor(tensor_file *file, cursor *c, size_t alignment, uint64_t *expected)
{
    tensor_view *view = NULL;
    char *name = NULL;
    grail_status status = take_name(c, "the name of a tensor", TENSOR_LONGEST_NAME, &name);
    status = status == GRAIL_OK ? tensor_file_add(file, name, &view) : status;
    memory_free(name);
    CHECK(status);
    return error_in(describe(c, alignment, expected, view), "tensor '%s'", view->name);
}

/* -- the file ---------------------------------------------------------------------------------- */

/* No loop may run far for a count that the file cannot hold: a key takes at least 13 bytes, a
 * tensor 24. */
static grail_status read_begin(cursor *c, uint64_t *tensors, uint64_t *keys)
{
    enum { SMALLEST_KEY = 13, SMALLEST_TENSOR = 24 };
    const unsigned char *magic = NULL;
    uint64_t version = 0;
    CHECK(take(c, MAGIC_SIZE, "the first word", &magic));
    if (memcmp(magic, "GGUF", MAGIC_SIZE) != 0) {
        const bool unfinished = load_little(magic, MAGIC_SIZE) == 0;
        return error_set(GRAIL_ERROR_FORMAT, unfinished ? "is unfinished: its first word is 0"
                                                        : "does not begin with \"GGUF\"");
    }
    CHECK(take_number(c, 4, "the version", &version));
    if ((version & 0xffff) == 0 && version != 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "is a GGUF file of a big-endian machine; convert it with "
                         "gguf-convert-endian of the Python package gguf");
    }
    if (version < OLDEST_VERSION || version > NEWEST_VERSION) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "is a GGUF file of version %llu; grail reads versions %d and %d: convert "
                         "the network again with a current converter",
                         (unsigned long long)version, OLDEST_VERSION, NEWEST_VERSION);
    }
    CHECK(take_number(c, 8, "the number of tensors", tensors));
    CHECK(take_number(c, 8, "the number of keys", keys));
    const size_t left = c->size - c->at;
    if (*keys > GGUF_MOST_KEYS || *keys > left / SMALLEST_KEY) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "claims %llu keys, more than the allowed %d, or than %zu bytes can hold",
                         (unsigned long long)*keys, GGUF_MOST_KEYS, left);
    }
    if (*tensors > TENSOR_MOST_IN_FILE || *tensors > left / SMALLEST_TENSOR) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "claims %llu tensors, more than the allowed %d, or than %zu bytes can hold",
            (unsigned long long)*tensors, TENSOR_MOST_IN_FILE, left);
    }
    return GRAIL_OK;
}

static grail_status read_file(tensor_file *file)
{
    cursor c = {.bytes = file->bytes, .size = file->size};
    gguf_metadata *m = NULL;
    uint64_t tensors = 0;
    uint64_t keys = 0;
    uint64_t expected = 0;
    int64_t parts = 1;
    CHECK(memory_new(&m, 1, sizeof *m));
    file->parts = m;
    file->free_parts = metadata_free;
    CHECK(read_begin(&c, &tensors, &keys));
    CHECK(read_metadata(&c, keys, m));
    CHECK(gguf_get_integer(m, "split.count", 1, &parts));
    if (parts > 1) { /* a network may be split into files, each of which says of how many */
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "is one of %lld files of a network; join them with gguf-split "
                         "--merge, and give the result",
                         (long long)parts);
    }
    for (uint64_t i = 0; i < tensors; i++) {
        CHECK(read_tensor(file, &c, m->alignment, &expected));
    }
    /* Offsets become addresses. */
    const size_t rest = c.at % m->alignment;
    const size_t padding = rest == 0 ? 0 : m->alignment - rest;
    const size_t left = c.size - c.at;
    const size_t available = padding < left ? left - padding : 0;
    for (int64_t j = 0; j < file->count; j++) {
        tensor_view *view = &file->tensors[j];
        const uintptr_t offset = (uintptr_t)view->data;
        if (view->bytes > 0 && (offset > available || view->bytes > available - offset)) {
            return error_set(
                GRAIL_ERROR_FORMAT,
                "tensor '%s' ends at byte %zu of the data, but the data has %zu bytes: truncated?",
                view->name, (size_t)offset + view->bytes, available);
        }
        view->data = view->bytes == 0 ? c.bytes : c.bytes + c.at + padding + offset;
    }
    return GRAIL_OK;
}

static grail_status with_remedy(grail_status status)
{
    if (status == GRAIL_ERROR_FORMAT) {
        error_append("; the file is damaged or incomplete: copy it again, or make it again");
    }
    return status;
}

grail_status gguf_open_bytes(const char *name, const void *bytes, size_t size, tensor_file **out)
{
    return with_remedy(tensor_file_open_bytes(name, bytes, size, read_file, out));
}

grail_status gguf_open(const char *path, tensor_file **out)
{
    return with_remedy(tensor_file_open(path, read_file, out));
}

const gguf_metadata *gguf_metadata_of(const tensor_file *file)
{
    return file->parts;
}
