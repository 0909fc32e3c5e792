#include "format/text/npy.h"

#include "base/bytes.h"

#include <string.h>

enum { PREFIX_SIZE = 8, IDS_DIMENSIONS = 2, LONGEST_DTYPE = 8 };

typedef struct npy_header {
    char dtype[LONGEST_DTYPE];
    bool fortran_order;
    int rank;
    int64_t shape[NPY_MOST_DIMENSIONS];
    bool has_dtype;
    bool has_order;
    bool has_shape;
} npy_header;

/* The rest of the dict literal. numpy writes only ASCII here. */
typedef struct cursor {
    const char *at;
    const char *end;
} cursor;

static void skip_spaces(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t')) {
        c->at++;
    }
}

/* Skips spaces, then takes the next character if it is `wanted`. */
static bool take(cursor *c, char wanted)
{
    skip_spaces(c);
    if (c->at < c->end && *c->at == wanted) {
        c->at++;
        return true;
    }
    return false;
}

static bool take_word(cursor *c, const char *word)
{
    const size_t length = strlen(word);
    skip_spaces(c);
    if ((size_t)(c->end - c->at) >= length && memcmp(c->at, word, length) == 0) {
        c->at += length;
        return true;
    }
    return false;
}

/* A string in single or double quotes. numpy writes no escapes in it. */
static bool take_string(cursor *c, char *out, size_t size)
{
    skip_spaces(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) {
        return false;
    }
    const char quote = *c->at++;
    const char *close = memchr(c->at, quote, (size_t)(c->end - c->at));
    if (close == NULL || (size_t)(close - c->at) >= size) {
        return false;
    }
    memcpy(out, c->at, (size_t)(close - c->at));
    out[close - c->at] = 0;
    c->at = close + 1;
    return true;
}

static bool take_count(cursor *c, int64_t *out)
{
    int64_t value = 0;
    skip_spaces(c);
    const char *start = c->at;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *c->at - '0', &value)) {
            return false;
        }
    }
    *out = value;
    return c->at > start;
}

/* "(3,)" or "(3, 4)"; more dimensions are counted, not kept. */
static bool take_shape(cursor *c, npy_header *header)
{
    if (!take(c, '(')) {
        return false;
    }
    header->rank = 0;
    while (!take(c, ')')) {
        int64_t length = 0;
        if (!take_count(c, &length)) {
            return false;
        }
        if (header->rank < NPY_MOST_DIMENSIONS) {
            header->shape[header->rank] = length;
        }
        header->rank += header->rank <= NPY_MOST_DIMENSIONS ? 1 : 0;
        if (!take(c, ',')) {
            return take(c, ')');
        }
    }
    return true;
}

static bool take_field(cursor *c, npy_header *header)
{
    char key[16];
    if (!take_string(c, key, sizeof key) || !take(c, ':')) {
        return false;
    }
    if (strcmp(key, "descr") == 0 && !header->has_dtype) {
        header->has_dtype = true;
        return take_string(c, header->dtype, sizeof header->dtype);
    }
    if (strcmp(key, "fortran_order") == 0 && !header->has_order) {
        header->has_order = true;
        header->fortran_order = take_word(c, "True");
        return header->fortran_order || take_word(c, "False");
    }
    if (strcmp(key, "shape") == 0 && !header->has_shape) {
        header->has_shape = true;
        return take_shape(c, header);
    }
    return false;
}

/* A little-endian integer as 64 bits. A signed integer is sign-extended, so a negative one becomes
 * huge. */
static uint64_t load_integer(const unsigned char *bytes, size_t width, bool is_signed)
{
    const uint64_t value = load_little(bytes, width);
    const uint64_t sign = 1ULL << (8 * width - 1);
    return is_signed ? (value ^ sign) - sign : value;
}

/* *data is the offset of the elements. */
static grail_status read_header(const unsigned char *bytes, size_t size, npy_header *header,
                                size_t *data)
{
    static const char magic[] = "\x93NUMPY";
    if (size < PREFIX_SIZE + 2 || memcmp(bytes, magic, sizeof magic - 1) != 0) {
        return error_set(GRAIL_ERROR_FORMAT, "is not an .npy file");
    }
    const int major = bytes[6];
    if (major < 1 || major > 3) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "has .npy version %d; the supported versions are 1 to 3", major);
    }
    const size_t width = major == 1 ? 2 : 4;
    const size_t begin = PREFIX_SIZE + width;
    const size_t length = begin <= size ? load_integer(bytes + PREFIX_SIZE, width, false) : 0;
    if (begin > size || length > size - begin) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the header ends at byte %zu, but the file has %zu bytes: truncated?",
                         begin + length, size);
    }
    cursor c = {.at = (const char *)bytes + begin, .end = (const char *)bytes + begin + length};
    bool parsed = take(&c, '{');
    bool closed = parsed && take(&c, '}');
    while (parsed && !closed) {
        parsed = take_field(&c, header);
        const bool goes_on = parsed && take(&c, ',');
        closed = parsed && take(&c, '}');
        parsed = goes_on || closed;
    }
    (void)take(&c, '\n');
    if (!parsed || c.at != c.end || !header->has_dtype || !header->has_order ||
        !header->has_shape) {
        return error_set(GRAIL_ERROR_FORMAT, "the header does not have the form that numpy writes");
    }
    *data = begin + length;
    return GRAIL_OK;
}

grail_status npy_read_array(const void *bytes, size_t size, bool of_integers, npy_array *out)
{
    static const struct {
        const char *name;
        grail_dtype dtype;
        bool is_pixel, is_integer;
    } known[] = {{"<f8", GRAIL_DTYPE_F64, true, false}, {"<f4", GRAIL_DTYPE_F32, true, false},
                 {"<f2", GRAIL_DTYPE_F16, true, false}, {"|u1", GRAIL_DTYPE_U8, true, true},
                 {"|i1", GRAIL_DTYPE_I8, false, true},  {"<i2", GRAIL_DTYPE_I16, false, true},
                 {"<u2", GRAIL_DTYPE_U16, false, true}, {"<i4", GRAIL_DTYPE_I32, false, true},
                 {"<u4", GRAIL_DTYPE_U32, false, true}, {"<i8", GRAIL_DTYPE_I64, false, true},
                 {"<u8", GRAIL_DTYPE_U64, false, true}, {"|b1", GRAIL_DTYPE_BOOL, false, true}};
    npy_header header = {0};
    size_t data = 0;
    size_t i = 0;
    int64_t elements = 1;
    CHECK(read_header(bytes, size, &header, &data));
    while (i < sizeof known / sizeof known[0] && strcmp(header.dtype, known[i].name) != 0) {
        i++;
    }
    if (i == sizeof known / sizeof known[0] ||
        !(of_integers ? known[i].is_integer : known[i].is_pixel)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "has dtype '%s', expected %s", header.dtype,
                         of_integers ? "little-endian integers"
                                     : "little-endian float32, float16 or float64, or uint8");
    }
    if (header.rank < 1 || header.rank > NPY_MOST_DIMENSIONS) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "has %s dimensions, expected 1 to %d",
                         header.rank < 1 ? "no" : "more", NPY_MOST_DIMENSIONS);
    }
    if (header.rank > 1 && header.fortran_order) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "is in Fortran order; save numpy.ascontiguousarray of it");
    }
    for (int d = 0; d < header.rank; d++) {
        if (__builtin_mul_overflow(elements, header.shape[d], &elements)) {
            return error_set(GRAIL_ERROR_FORMAT, "has a shape that is too large for any file");
        }
    }
    size_t stored = 0;
    if (elements == 0) {
        return error_set(GRAIL_ERROR_FORMAT, "holds no numbers");
    }
    if (!dtype_bytes(known[i].dtype, elements, &stored) || stored != size - data) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the header declares %lld numbers of type %s, but %zu bytes follow it",
                         (long long)elements, header.dtype, size - data);
    }
    *out = (npy_array){
        .data = (const unsigned char *)bytes + data, .dtype = known[i].dtype, .rank = header.rank};
    memcpy(out->shape, header.shape, sizeof out->shape);
    return GRAIL_OK;
}

int64_t npy_integer_at(const npy_array *a, int64_t i)
{
    const size_t width = dtype_bits(a->dtype) / 8;
    const bool is_signed = a->dtype == GRAIL_DTYPE_I8 || a->dtype == GRAIL_DTYPE_I16 ||
                           a->dtype == GRAIL_DTYPE_I32 || a->dtype == GRAIL_DTYPE_I64;
    const uint64_t value = load_integer(a->data + (size_t)i * width, width, is_signed);
    return is_signed || value <= INT64_MAX ? (int64_t)value : INT64_MAX;
}

grail_status npy_read_header(const void *bytes, size_t size, npy_ids *out)
{
    /* byte order, kind, bytes */
    static const char *const known[] = {"|i1", "|u1", "<i1", "<u1", "<i2", "<u2",
                                        "<i4", "<u4", "<i8", "<u8", NULL};
    npy_header header = {0};
    size_t data = 0;
    int64_t stored = 0;
    int dtype = 0;
    CHECK(read_header(bytes, size, &header, &data));
    while (known[dtype] != NULL && strcmp(header.dtype, known[dtype]) != 0) {
        dtype++;
    }
    if (known[dtype] == NULL) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "has dtype '%s', but token ids are little-endian integers; save them as int32",
            header.dtype);
    }
    if (header.rank < 1 || header.rank > IDS_DIMENSIONS) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "has %s dimensions, expected 1 or 2",
                         header.rank < 1 ? "no" : "more than 2");
    }
    if (header.rank == 2 && header.fortran_order) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "is in Fortran order; save numpy.ascontiguousarray of it");
    }
    const size_t width = (size_t)(header.dtype[2] - '0');
    int64_t count = header.shape[0];
    if (header.rank == 2 && __builtin_mul_overflow(count, header.shape[1], &count)) {
        return error_set(GRAIL_ERROR_FORMAT, "has a shape that is too large for any file");
    }
    if (__builtin_mul_overflow(count, (int64_t)width, &stored) || (size_t)stored != size - data) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the header declares %lld ids of %zu bytes, but %zu bytes follow it",
                         (long long)count, width, size - data);
    }
    if (count == 0) {
        return error_set(GRAIL_ERROR_FORMAT, "holds no ids");
    }
    *out = (npy_ids){
        .data = (const unsigned char *)bytes + data,
        .width = width,
        .is_signed = header.dtype[1] == 'i',
        .count = count,
        .row = header.rank == 2 ? header.shape[1] : 0,
    };
    return GRAIL_OK;
}

grail_status npy_read_ids(const npy_ids *ids, int64_t first, int64_t count, int32_t *out)
{
    for (int64_t i = 0; i < count; i++) {
        const uint64_t value =
            load_integer(ids->data + (size_t)(first + i) * ids->width, ids->width, ids->is_signed);
        if (value > INT32_MAX) {
            return ids->is_signed
                       ? error_set(GRAIL_ERROR_FORMAT,
                                   "id %lld at index %lld is not a token; ids are 0 to 2147483647",
                                   (long long)(int64_t)value, (long long)(first + i))
                       : error_set(GRAIL_ERROR_FORMAT,
                                   "id %llu at index %lld is not a token; ids are 0 to 2147483647",
                                   (unsigned long long)value, (long long)(first + i));
        }
        out[i] = (int32_t)value;
    }
    return GRAIL_OK;
}
