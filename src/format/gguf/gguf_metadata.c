/* Values of keys, as numbers and texts. */
#include "format/gguf/gguf.h"

#include "base/bytes.h"
#include "base/utf8.h"

#include <string.h>

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
