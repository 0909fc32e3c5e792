#include "format/text/parquet.h"

#include "base/bytes.h"
#include "format/text/parquet_footer.h"
#include "format/text/parquet_runs.h"
#include "format/text/text_limits.h"

#include <string.h>

typedef enum page_kind { PAGE_OF_DATA, PAGE_INDEX, PAGE_DICTIONARY, PAGE_OF_DATA_2 } page_kind;

enum {
    ENCODING_PLAIN = 0,
    ENCODING_OLD_DICTIONARY = 2,
    ENCODING_RUNS = 3,
    ENCODING_DICTIONARY = 8
};

typedef struct page_header {
    int64_t kind, size, stored; /* bytes, decompressed and as they are stored */
    int64_t values, encoding, level_encoding;
    int64_t level_bytes, repeat_bytes; /* of PAGE_OF_DATA_2, before what is compressed */
    bool stored_plain;                 /* of PAGE_OF_DATA_2 */
} page_header;

/* Bytes of a page: of the file, or decompressed. */
typedef struct page_bytes {
    const unsigned char *at;
    size_t size;
    unsigned char *owned;
    size_t room;
} page_bytes;

typedef struct text_span {
    const unsigned char *at;
    size_t size;
} text_span;

struct parquet {
    const unsigned char *bytes;
    parquet_column column;
    int64_t chunk;    /* of column.chunks, the current one */
    size_t at, end;   /* its pages that are not read yet */
    int64_t in_chunk; /* its values that are not in a page read so far */
    size_t read;
    size_t missing; /* values that were left out */
    page_bytes dictionary_page, page;
    text_span *dictionary; /* [dictionary_count], owned; in dictionary_page */
    int64_t dictionary_count;
    /* The current page. */
    int64_t left; /* values, with missing ones */
    bool has_levels, of_dictionary;
    parquet_runs levels, indices;
    const unsigned char *values, *values_end; /* of a plain page */
};

static grail_status damaged(const char *what)
{
    return error_set(GRAIL_ERROR_FORMAT, "%s is damaged", what);
}

/* -- heads of pages ---------------------------------------------------------------------------- */

/* Fields of the three kinds of pages by their numbers; NULL: skipped. */
static void read_kind(thrift_reader *r, int32_t kind, page_header *h)
{
    thrift_field field = {0};
    int64_t plain = h->stored_plain ? 0 : 1;
    int64_t *const of_data[] = {NULL, &h->values, &h->encoding, &h->level_encoding};
    int64_t *const of_dictionary[] = {NULL, &h->values, &h->encoding, NULL};
    int64_t *const of_data_2[] = {
        NULL, &h->values, NULL, NULL, &h->encoding, &h->level_bytes, &h->repeat_bytes, &plain};
    int64_t *const *numbers = kind == 5 ? of_data : kind == 7 ? of_dictionary : of_data_2;
    const int32_t count = kind == 8 ? 8 : 4;
    while (thrift_next(r, &field)) {
        if (field.id < count && numbers[field.id] != NULL) {
            *numbers[field.id] = thrift_integer(r, field.type);
        } else {
            thrift_skip(r, field.type);
        }
    }
    h->stored_plain = plain == 0;
}

static void read_head_field(thrift_reader *r, const thrift_field *field, page_header *h)
{
    switch (field->id) {
    case 1:
        h->kind = thrift_integer(r, field->type);
        break;
    case 2:
        h->size = thrift_integer(r, field->type);
        break;
    case 3:
        h->stored = thrift_integer(r, field->type);
        break;
    case 5:
    case 7:
    case 8:
        if (field->type == THRIFT_STRUCT) {
            read_kind(r, field->id, h);
            break;
        }
        thrift_skip(r, field->type);
        break;
    default:
        thrift_skip(r, field->type);
    }
}

/* Moves behind the header; what is stored of the page lies inside the chunk then. */
static grail_status read_header(parquet *p, page_header *h)
{
    thrift_reader r = {.at = p->bytes + p->at, .end = p->bytes + p->end};
    thrift_field field = {0};
    *h = (page_header){.level_encoding = ENCODING_RUNS};
    while (thrift_next(&r, &field)) {
        read_head_field(&r, &field, h);
    }
    p->at = (size_t)(r.at - p->bytes);
    const int64_t most = h->stored < h->size ? h->stored : h->size; /* bytes of levels */
    const bool fits = !r.failed && h->stored >= 0 && (uint64_t)h->stored <= p->end - p->at &&
                      h->size >= 0 && h->size <= PARQUET_LARGEST_PAGE && h->values >= 0 &&
                      h->level_bytes >= 0 && h->level_bytes <= most && h->repeat_bytes >= 0 &&
                      h->repeat_bytes <= most - h->level_bytes;
    return fits ? GRAIL_OK : damaged("the head of a page");
}

/* -- decompressing ----------------------------------------------------------------------------- */

/* out: `size` bytes of what is stored. */
static grail_status expand(parquet_codec codec, const unsigned char *stored, size_t stored_size,
                           size_t size, page_bytes *out)
{
    if (codec == PARQUET_UNCOMPRESSED) {
        out->at = stored;
        out->size = size;
        return stored_size == size ? GRAIL_OK : damaged("a page");
    }
    if (size / TEXT_MOST_EXPANSION > stored_size) {
        return damaged("a page, which states more bytes than it can hold,");
    }
    if (out->owned == NULL || out->room < size) {
        memory_free(out->owned);
        out->owned = NULL;
        CHECK(memory_new_unset(&out->owned, size + 1, 1));
        out->room = size;
    }
    out->at = out->owned;
    out->size = size;
    return parquet_codec_expand(codec, stored, stored_size, out->owned, size);
}

/* -- pages ------------------------------------------------------------------------------------- */

/* The next text of a plain page, 4 bytes of length and its bytes; false where there is none. */
static bool next_plain(const unsigned char **at, const unsigned char *end, text_span *out)
{
    const size_t room = (size_t)(end - *at);
    const size_t size = room < 4 ? 0 : (size_t)load_little(*at, 4);
    if (room < 4 || size > room - 4) {
        return false;
    }
    *out = (text_span){.at = *at + 4, .size = size};
    *at += 4 + size;
    return true;
}

static grail_status read_dictionary(parquet *p, const page_header *h)
{
    const unsigned char *at = p->dictionary_page.at;
    const unsigned char *end = at + p->dictionary_page.size;
    if (h->encoding != ENCODING_PLAIN && h->encoding != ENCODING_OLD_DICTIONARY) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "has a dictionary in encoding %lld",
                         (long long)h->encoding);
    }
    if ((uint64_t)h->values > p->dictionary_page.size / 4) {
        return damaged("its dictionary");
    }
    memory_free(p->dictionary);
    p->dictionary = NULL;
    CHECK(memory_new(&p->dictionary, (size_t)h->values + 1, sizeof p->dictionary[0]));
    for (p->dictionary_count = 0; p->dictionary_count < h->values; p->dictionary_count++) {
        if (!next_plain(&at, end, &p->dictionary[p->dictionary_count])) {
            return damaged("its dictionary");
        }
    }
    return GRAIL_OK;
}

/* The levels of a page, 4 bytes of their size first in the older kind: a 0 where a value is
 * missing. */
static grail_status begin_levels(parquet *p, const page_header *h)
{
    const unsigned char *at = p->values;
    size_t size = (size_t)h->level_bytes;
    const size_t room = (size_t)(p->values_end - at);
    if (h->kind == PAGE_OF_DATA) {
        if (h->level_encoding != ENCODING_RUNS) {
            return error_set(GRAIL_ERROR_UNSUPPORTED, "has levels in encoding %lld",
                             (long long)h->level_encoding);
        }
        size = room < 4 ? SIZE_MAX : (size_t)load_little(at, 4);
        if (room < 4 || size > room - 4) {
            return damaged("a page");
        }
        at += 4;
        p->values = at + size;
    }
    p->levels = parquet_runs_of(at, size, 1);
    p->has_levels = true;
    return GRAIL_OK;
}

static grail_status begin_values(parquet *p, const page_header *h)
{
    p->of_dictionary = h->encoding == ENCODING_DICTIONARY || h->encoding == ENCODING_OLD_DICTIONARY;
    if (!p->of_dictionary && h->encoding != ENCODING_PLAIN) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "has a page in encoding %lld; write it again with plain or dictionary "
                         "encoding",
                         (long long)h->encoding);
    }
    if (p->of_dictionary && p->values < p->values_end) {
        const int width = *p->values++;
        if (width > 32) {
            return damaged("a page");
        }
        p->indices = parquet_runs_of(p->values, (size_t)(p->values_end - p->values), width);
    } else if (p->of_dictionary) {
        p->indices = parquet_runs_of(p->values, 0, 0); /* all are missing */
    }
    return GRAIL_OK;
}

/* Levels of the newer kind lie before what is compressed. */
static grail_status expand_page(parquet *p, const page_header *h, page_bytes *out)
{
    const bool newer = h->kind == PAGE_OF_DATA_2;
    const size_t before = newer ? (size_t)(h->level_bytes + h->repeat_bytes) : 0;
    const parquet_codec codec =
        newer && h->stored_plain ? PARQUET_UNCOMPRESSED : p->column.chunks[p->chunk].codec;
    return expand(codec, p->bytes + p->at + before, (size_t)h->stored - before,
                  (size_t)h->size - before, out);
}

static grail_status begin_data(parquet *p, const page_header *h)
{
    const unsigned char *stored = p->bytes + p->at;
    CHECK(expand_page(p, h, &p->page));
    if (h->values > p->in_chunk) {
        return damaged("a page, which has more values than its column,");
    }
    p->in_chunk -= h->values;
    p->left = h->values;
    p->values = p->page.at;
    p->values_end = p->page.at + p->page.size;
    p->has_levels = false;
    if (p->column.optional && h->kind == PAGE_OF_DATA_2) {
        p->levels = parquet_runs_of(stored + h->repeat_bytes, (size_t)h->level_bytes, 1);
        p->has_levels = true;
    } else if (p->column.optional) {
        CHECK(begin_levels(p, h));
    }
    return begin_values(p, h);
}

static grail_status begin_page(parquet *p)
{
    page_header h;
    CHECK(read_header(p, &h));
    if (h.kind == PAGE_DICTIONARY) {
        CHECK(expand_page(p, &h, &p->dictionary_page));
        CHECK(read_dictionary(p, &h));
    } else if (h.kind == PAGE_OF_DATA || h.kind == PAGE_OF_DATA_2) {
        CHECK(begin_data(p, &h));
    }
    p->at += (size_t)h.stored;
    p->read += (size_t)h.stored;
    return GRAIL_OK;
}

static void begin_chunk(parquet *p)
{
    const parquet_chunk *c = &p->column.chunks[p->chunk];
    p->at = c->begin;
    p->end = c->begin + c->size;
    p->in_chunk = c->values;
    p->dictionary_count = 0;
}

/* Goes to a page with values; *found is false at the end of the file. */
static grail_status find_page(parquet *p, bool *found)
{
    while (p->left == 0) {
        if (p->in_chunk > 0 && p->at < p->end) {
            CHECK(begin_page(p));
        } else if (p->in_chunk > 0) {
            return damaged("a column, which has fewer values than it states,");
        } else if (++p->chunk < p->column.count) {
            begin_chunk(p);
        } else {
            p->chunk = p->column.count;
            *found = false;
            return GRAIL_OK;
        }
    }
    *found = true;
    return GRAIL_OK;
}

/* -- values ------------------------------------------------------------------------------------ */

static grail_status next_value(parquet *p, text_span *out)
{
    uint32_t index = 0;
    if (!p->of_dictionary) {
        return next_plain(&p->values, p->values_end, out) ? GRAIL_OK : damaged("a page");
    }
    if (!parquet_runs_next(&p->indices, &index) || index >= p->dictionary_count) {
        return damaged("a page, or its dictionary");
    }
    *out = p->dictionary[index];
    return GRAIL_OK;
}

/* A few bits can state any number of missing values, so they are compared with what was read. */
static grail_status leave_out(parquet *p)
{
    const size_t free_values = TEXT_FREE_INFLATED;
    p->missing++;
    return p->missing > free_values && (p->missing - free_values) / TEXT_MOST_RATIO > p->read
               ? damaged("a column, which has more missing values than is allowed,")
               : GRAIL_OK;
}

grail_status parquet_next(parquet *p, const char **text, size_t *size, bool *found)
{
    text_span value = {0};
    uint32_t level = 0;
    while (level == 0) {
        CHECK(find_page(p, found));
        if (!*found) {
            return GRAIL_OK;
        }
        p->left--;
        level = 1;
        if (p->has_levels && !parquet_runs_next(&p->levels, &level)) {
            return damaged("a page");
        }
        CHECK(level == 0 ? leave_out(p) : GRAIL_OK);
    }
    CHECK(next_value(p, &value));
    *text = (const char *)value.at;
    *size = value.size;
    return GRAIL_OK;
}

size_t parquet_read(const parquet *p)
{
    return p->read;
}

grail_status parquet_open(const unsigned char *bytes, size_t size, const char *column,
                          parquet **out)
{
    grail_status status = GRAIL_OK;
    parquet *p = NULL;
    TRY(memory_new(&p, 1, sizeof *p));
    p->bytes = bytes;
    TRY(parquet_footer_read(bytes, size, column, &p->column));
    p->chunk = -1;
    *out = p;
    p = NULL;
out:
    parquet_close(p);
    return status;
}

void parquet_close(parquet *p)
{
    if (p != NULL) {
        memory_free(p->column.chunks);
        memory_free(p->dictionary);
        memory_free(p->dictionary_page.owned);
        memory_free(p->page.owned);
        memory_free(p);
    }
}
