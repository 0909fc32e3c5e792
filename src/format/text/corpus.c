/* Reading text and token ids. Text is checked to be UTF-8 before anything else is made of it, so a
 * wrong byte is named by its place in the file whatever the kind. */
#include "format/text/corpus.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/utf8.h"
#include "format/text/npy.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

_Static_assert(sizeof((corpus){0}.hash) == HASH_TEXT_SIZE, "the hash is hexadecimal SHA-256");

static bool ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name);
    const size_t tail = strlen(ending);
    return length >= tail && strcmp(name + length - tail, ending) == 0;
}

static bool is_space(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_blank(const unsigned char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!is_space(text[i])) {
            return false;
        }
    }
    return true;
}

/* starts[documents] = the size of the text so far: the end of the last document. */
static grail_status mark_boundary(corpus *c, size_t *capacity)
{
    const size_t needed = (size_t)c->documents + 1;
    if (needed > *capacity) {
        const size_t larger = needed + needed / 2 + 1;
        const grail_status status = memory_resize(&c->starts, larger, sizeof *c->starts);
        if (status != GRAIL_OK) {
            return status;
        }
        *capacity = larger;
    }
    c->starts[c->documents] = c->text.size;
    return GRAIL_OK;
}

static grail_status read_plain(corpus *c, const unsigned char *bytes, size_t size)
{
    grail_status status = GRAIL_OK;
    size_t capacity = 0;
    TRY(mark_boundary(c, &capacity));
    TRY(buffer_append(&c->text, bytes, size));
    c->documents = 1;
    TRY(mark_boundary(c, &capacity));
out:
    return status;
}

static grail_status append_line(corpus *c, const char *field, const unsigned char *line,
                                size_t size)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    const char *text = NULL;
    TRY(json_parse("document", line, size, &document));
    TRY(json_get_string("document", document, field, NULL, &text));
    if (text == NULL) {
        FAIL(GRAIL_ERROR_FORMAT, "has no string field \"%s\"", field);
    }
    TRY(buffer_append_string(&c->text, text));
    c->documents++;
out:
    json_decref(document);
    return status;
}

static grail_status read_lines(corpus *c, const char *field, const unsigned char *bytes,
                               size_t size)
{
    grail_status status = GRAIL_OK;
    size_t capacity = 0;
    int64_t number = 1;
    TRY(mark_boundary(c, &capacity));
    for (size_t begin = 0; begin < size; number++) {
        const unsigned char *end = memchr(bytes + begin, '\n', size - begin);
        const size_t length = end == NULL ? size - begin : (size_t)(end - (bytes + begin));
        if (!is_blank(bytes + begin, length)) {
            status = append_line(c, field, bytes + begin, length);
            if (status != GRAIL_OK) {
                error_prefix("line %lld", (long long)number);
                goto out;
            }
            TRY(mark_boundary(c, &capacity));
        }
        begin += length + 1;
    }
out:
    return status;
}

static grail_status read_text(corpus *c, const char *field, const unsigned char *bytes, size_t size)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    grail_status status = GRAIL_OK;
    if (size == 0) {
        FAIL(GRAIL_ERROR_FORMAT, "is empty");
    }
    const size_t valid = utf8_valid_prefix(bytes, size);
    if (valid != size) {
        FAIL(GRAIL_ERROR_FORMAT, "is not UTF-8 at byte %zu (0x%02x); convert it first", valid,
             bytes[valid]);
    }
    const size_t skip = size >= 3 && memcmp(bytes, byte_order_mark, 3) == 0 ? 3 : 0;
    buffer_init(&c->text, CORPUS_LARGEST_TEXT);
    if (field == NULL) {
        TRY(read_plain(c, bytes + skip, size - skip));
    } else {
        TRY(read_lines(c, field, bytes + skip, size - skip));
    }
    if (is_blank(c->text.bytes, c->text.size)) {
        FAIL(GRAIL_ERROR_FORMAT, "holds no text");
    }
    hash_bytes(c->text.bytes, c->text.size, c->hash);
out:
    return status;
}

static grail_status read_ids(corpus *c, const void *bytes, size_t size)
{
    npy_ids read = {0};
    const grail_status status = npy_read_ids(bytes, size, &read);
    if (status == GRAIL_OK) {
        c->ids = read.ids;
        c->id_count = read.count;
        c->id_row = read.row;
        c->documents = read.row > 0 ? read.count / read.row : 1;
        hash_bytes(c->ids, (size_t)c->id_count * sizeof *c->ids, c->hash);
    }
    return status;
}

static grail_status read_kind(corpus *c, const char *name, const char *field, const void *bytes,
                              size_t size)
{
    if (ends_with(name, ".npy")) {
        return read_ids(c, bytes, size);
    }
    if (ends_with(name, ".txt")) {
        return read_text(c, NULL, bytes, size);
    }
    if (ends_with(name, ".jsonl") || ends_with(name, ".jsonl.gz")) {
        return read_text(c, field == NULL ? "text" : field, bytes, size);
    }
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "has no known ending; expected .txt, .jsonl, .jsonl.gz or .npy");
}

grail_status corpus_open_bytes(const char *name, const char *field, const void *bytes, size_t size,
                               corpus *out)
{
    grail_status status = GRAIL_OK;
    corpus c = {0};
    TRY(memory_copy_string(&c.path, name));
    TRY(read_kind(&c, name, field, bytes, size));
    *out = c;
    c = (corpus){0};
out:
    if (status != GRAIL_OK) {
        error_prefix("%s", name);
    }
    corpus_close(&c);
    return status;
}

static grail_status inflate_into(gzFile stream, const char *path, buffer *out)
{
    enum { PIECE = 1 << 18 };
    for (;;) {
        grail_status status = buffer_reserve(out, PIECE);
        if (status != GRAIL_OK) {
            error_prefix("%s: decompressed", path);
            return status;
        }
        const int got = gzread(stream, out->bytes + out->size, PIECE);
        if (got == 0) {
            break;
        }
        if (got < 0) {
            int code = Z_OK;
            const char *reason = gzerror(stream, &code);
            return error_set(code == Z_MEM_ERROR ? GRAIL_ERROR_MEMORY : GRAIL_ERROR_FORMAT,
                             "%s: cannot decompress: %s", path, reason);
        }
        out->size += (size_t)got;
    }
    return GRAIL_OK;
}

/* A stream that stops inside a member reads as ended; only closing it tells. */
static grail_status read_compressed(const char *path, buffer *out)
{
    const gzFile stream = gzopen(path, "rbe");
    if (stream == NULL) {
        return error_from_errno("cannot open", path);
    }
    const grail_status status = inflate_into(stream, path, out);
    const int closed = gzclose(stream);
    if (status == GRAIL_OK && closed != Z_OK) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: compressed data end early: truncated?", path);
    }
    return status;
}

static grail_status open_compressed(const char *path, const char *field, corpus *out)
{
    grail_status status = GRAIL_OK;
    buffer bytes = {.maximum = CORPUS_LARGEST_TEXT};
    TRY(read_compressed(path, &bytes));
    TRY(corpus_open_bytes(path, field, bytes.bytes, bytes.size, out));
out:
    buffer_fini(&bytes);
    return status;
}

grail_status corpus_open(const char *path, const char *field, corpus *out)
{
    if (ends_with(path, ".gz")) {
        return open_compressed(path, field, out);
    }
    grail_status status = GRAIL_OK;
    file_map map = {0};
    TRY(file_map_open(&map, path));
    if (map.size > CORPUS_LARGEST_TEXT) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: has %zu bytes, more than the allowed %zu", path, map.size,
             CORPUS_LARGEST_TEXT);
    }
    TRY(corpus_open_bytes(path, field, map.data, map.size, out));
out:
    file_map_close(&map);
    return status;
}

void corpus_close(corpus *c)
{
    memory_free(c->path);
    buffer_fini(&c->text);
    memory_free(c->starts);
    memory_free(c->ids);
    *c = (corpus){0};
}
