#include "format/text/parquet_footer.h"

#include "base/bytes.h"
#include "format/text/thrift_compact.h"

#include <string.h>

enum { MAGIC = 4, TAIL = 8, BYTE_ARRAYS = 6, REPEATED = 2 };

/* A column, or a group of columns. */
typedef struct element {
    const unsigned char *name;
    size_t name_size;
    int64_t type, repetition, children;
} element;

typedef struct footer {
    size_t size; /* of the file */
    const char *column;
    element *elements; /* [element_count], in depth-first order, owned */
    int64_t element_count;
    parquet_column *out;
} footer;

static grail_status damaged(void)
{
    return error_set(GRAIL_ERROR_FORMAT, "the description at its end is damaged");
}

static bool is_named(const footer *f, const unsigned char *name, size_t size)
{
    return size > 0 && size == strlen(f->column) && memcmp(name, f->column, size) == 0;
}

/* -- columns ----------------------------------------------------------------------------------- */

static element read_element(thrift_reader *r)
{
    element e = {.type = -1};
    thrift_field field = {0};
    while (thrift_next(r, &field)) {
        switch (field.id) {
        case 1:
            e.type = thrift_integer(r, field.type);
            break;
        case 3:
            e.repetition = thrift_integer(r, field.type);
            break;
        case 4:
            e.name = thrift_binary(r, field.type, &e.name_size);
            break;
        case 5:
            e.children = thrift_integer(r, field.type);
            break;
        default:
            thrift_skip(r, field.type);
        }
    }
    return e;
}

static grail_status read_schema(thrift_reader *r, thrift_type type, footer *f)
{
    const int64_t count = thrift_list(r, type, THRIFT_STRUCT);
    memory_free(f->elements); /* of an earlier field of the same number */
    f->elements = NULL;
    f->element_count = 0;
    CHECK(memory_new(&f->elements, (size_t)count + 1, sizeof f->elements[0]));
    for (; f->element_count < count && !r->failed; f->element_count++) {
        f->elements[f->element_count] = read_element(r);
    }
    return GRAIL_OK;
}

/* Behind an element and everything below it. */
static int64_t behind(const footer *f, int64_t i)
{
    int64_t pending = 1;
    for (; pending > 0 && i < f->element_count; i++) {
        const int64_t children = f->elements[i].children;
        pending += (children > 0 && children < f->element_count ? children : 0) - 1;
    }
    return i;
}

static bool is_text(const element *e)
{
    return e->children == 0 && e->type == BYTE_ARRAYS && e->repetition != REPEATED;
}

static grail_status lacks_column(const footer *f)
{
    enum { MOST_NAMED = 4 };
    int named = 0;
    const grail_status status =
        error_set(GRAIL_ERROR_FORMAT, "has no text column \"%s\"", f->column);
    for (int64_t i = 1; i < f->element_count && named < MOST_NAMED; i = behind(f, i)) {
        const element *e = &f->elements[i];
        if (is_text(e)) {
            error_append("%s \"%.*s\"", named == 0 ? "; choose one of its text columns:" : ",",
                         (int)(e->name_size < 64 ? e->name_size : 64), (const char *)e->name);
            named++;
        }
    }
    return error_about(status, "field");
}

static grail_status find_column(const footer *f)
{
    for (int64_t i = 1; i < f->element_count; i = behind(f, i)) {
        const element *e = &f->elements[i];
        if (!is_named(f, e->name, e->name_size)) {
            continue;
        }
        if (e->children != 0 || e->repetition == REPEATED) {
            return error_about(error_set(GRAIL_ERROR_UNSUPPORTED,
                                         "column \"%s\" is nested or a list; only flat columns of "
                                         "texts are read",
                                         f->column),
                               "field");
        }
        f->out->optional = e->repetition == 1;
        return is_text(e) ? GRAIL_OK : lacks_column(f);
    }
    return lacks_column(f);
}

/* -- groups of rows ---------------------------------------------------------------------------- */

/* What a chunk of a column says. */
typedef struct chunk_facts {
    bool is_wanted, is_encrypted, is_elsewhere;
    int64_t codec, values, size, data, dictionary;
} chunk_facts;

static bool read_path(thrift_reader *r, thrift_type type, const footer *f)
{
    bool found = false;
    const int64_t count = thrift_list(r, type, THRIFT_BINARY);
    for (int64_t i = 0; i < count && !r->failed; i++) {
        size_t size = 0;
        const unsigned char *name = thrift_binary(r, THRIFT_BINARY, &size);
        found = count == 1 && is_named(f, name, size);
    }
    return found;
}

static void read_facts(thrift_reader *r, const footer *f, chunk_facts *c)
{
    thrift_field field = {0};
    while (thrift_next(r, &field)) {
        int64_t *const numbers[] = {[4] = &c->codec,
                                    [5] = &c->values,
                                    [7] = &c->size,
                                    [9] = &c->data,
                                    [11] = &c->dictionary};
        const bool is_number = field.id < 12 && numbers[field.id] != NULL;
        if (field.id == 3) {
            c->is_wanted = read_path(r, field.type, f);
        } else if (is_number) {
            *numbers[field.id] = thrift_integer(r, field.type);
        } else {
            thrift_skip(r, field.type);
        }
    }
}

static chunk_facts read_chunk(thrift_reader *r, const footer *f)
{
    chunk_facts c = {0};
    thrift_field field = {0};
    while (thrift_next(r, &field)) {
        c.is_elsewhere = c.is_elsewhere || field.id == 1;
        c.is_encrypted = c.is_encrypted || field.id == 8 || field.id == 9;
        if (field.id == 3 && field.type == THRIFT_STRUCT) {
            read_facts(r, f, &c);
        } else {
            thrift_skip(r, field.type);
        }
    }
    return c;
}

static grail_status add_chunk(const footer *f, const chunk_facts *c)
{
    const int64_t begin = c->dictionary > 0 && c->dictionary < c->data ? c->dictionary : c->data;
    if (c->is_elsewhere) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "has its columns in other files");
    }
    CHECK(parquet_codec_check(c->codec));
    if (begin < MAGIC || c->size < 0 || c->values < 0 || (uint64_t)begin > f->size ||
        (uint64_t)c->size > f->size - (uint64_t)begin) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "its column lies at byte %lld with %lld bytes, but the file has %zu: "
                         "truncated?",
                         (long long)begin, (long long)c->size, f->size);
    }
    parquet_column *out = f->out;
    CHECK(memory_reserve(&out->chunks, (size_t)out->count + 1, sizeof out->chunks[0]));
    out->chunks[out->count++] = (parquet_chunk){.begin = (size_t)begin,
                                                .size = (size_t)c->size,
                                                .values = c->values,
                                                .codec = (parquet_codec)c->codec};
    return GRAIL_OK;
}

static grail_status read_columns(thrift_reader *r, thrift_type type, const footer *f)
{
    bool found = false;
    const int64_t count = thrift_list(r, type, THRIFT_STRUCT);
    for (int64_t i = 0; i < count && !r->failed; i++) {
        const chunk_facts c = read_chunk(r, f);
        if (c.is_encrypted) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "has encrypted columns; write it again without encryption");
        }
        if (c.is_wanted && !r->failed) {
            CHECK(add_chunk(f, &c));
            found = true;
        }
    }
    return found || r->failed ? GRAIL_OK
                              : error_set(GRAIL_ERROR_FORMAT,
                                          "a group of its rows lacks column \"%s\"", f->column);
}

static grail_status read_groups(thrift_reader *r, thrift_type type, const footer *f)
{
    const int64_t count = thrift_list(r, type, THRIFT_STRUCT);
    for (int64_t i = 0; i < count && !r->failed; i++) {
        thrift_field field = {0};
        while (thrift_next(r, &field)) {
            if (field.id == 1) {
                CHECK(read_columns(r, field.type, f));
            } else {
                thrift_skip(r, field.type);
            }
        }
    }
    return GRAIL_OK;
}

/* The schema comes before the groups, by the order of their numbers. */
static grail_status read_description(thrift_reader *r, footer *f)
{
    thrift_field field = {0};
    while (thrift_next(r, &field)) {
        if (field.id == 2) {
            CHECK(read_schema(r, field.type, f));
            CHECK(r->failed ? damaged() : find_column(f));
        } else if (field.id == 4 && f->element_count > 0) {
            CHECK(read_groups(r, field.type, f));
        } else {
            thrift_skip(r, field.type);
        }
    }
    return r->failed || f->element_count == 0 ? damaged() : GRAIL_OK;
}

grail_status parquet_footer_read(const unsigned char *bytes, size_t size, const char *column,
                                 parquet_column *out)
{
    grail_status status = GRAIL_OK;
    footer f = {.size = size, .column = column, .out = out};
    *out = (parquet_column){0};
    if (size < MAGIC + TAIL || memcmp(bytes + size - MAGIC, "PAR1", MAGIC) != 0) {
        const bool encrypted = size >= MAGIC && memcmp(bytes + size - MAGIC, "PARE", MAGIC) == 0;
        FAIL(encrypted ? GRAIL_ERROR_UNSUPPORTED : GRAIL_ERROR_FORMAT, "%s",
             encrypted ? "is encrypted; write it again without encryption"
                       : "is no Parquet file, or truncated: it does not end with PAR1");
    }
    const size_t length = (size_t)load_little(bytes + size - TAIL, 4);
    if (length > size - MAGIC - TAIL) {
        FAIL(GRAIL_ERROR_FORMAT, "states a description of %zu bytes, but has %zu: truncated?",
             length, size);
    }
    thrift_reader r = {.at = bytes + size - TAIL - length, .end = bytes + size - TAIL};
    TRY(read_description(&r, &f));
out:
    memory_free(f.elements);
    return status;
}
