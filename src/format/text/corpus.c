/* Reading text and token ids. Text is checked to be UTF-8 before it is used in any other way, so in
 * files of every kind the message names the place of a wrong byte. The line ends CR LF and CR are
 * read as LF, and a byte order mark of plain text is a character, as in Python's
 * open(path, encoding="utf-8"), which the text loader of Hugging Face datasets calls. */
#include "format/text/corpus.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/name_list.h"
#include "base/utf8.h"
#include "format/text/npy.h"
#include "format/text/text_source.h"

#include <string.h>

_Static_assert(HASH_TEXT_SIZE == 65, "the hash is hexadecimal SHA-256");

enum { IDS_AT_ONCE = 1 << 16, LONGEST_CHARACTER = 4 };

struct corpus {
    char *path;
    char *field; /* of JSON lines; NULL for plain text */
    text_source source;
    hash_state hash;
    bool has_text; /* some text that is not spaces */
    bool ended;
    /* The rest of the current piece of the source: `left` bytes, which begin at `offset` of the
     * file. */
    const unsigned char *at;
    size_t left;
    size_t offset;
    bool after_return; /* the byte before `at` was CR: an LF belongs to the same line end */
    /* For JSON lines. */
    buffer line; /* the beginning of a line that continues in the next piece */
    json_t *document;
    int64_t line_number;
    size_t line_begin;       /* its place in the file */
    bool field_is_usual;     /* no field was named */
    const chat_writer *chat; /* writes conversations, or NULL */
    buffer written;          /* the last one */
    /* For ids. */
    npy_ids ids; /* data is NULL for text */
    int32_t *converted;
    int64_t next_id;
};

static bool is_blank(const unsigned char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!text_is_blank((char)text[i])) {
            return false;
        }
    }
    return true;
}

static grail_status not_utf8(size_t offset, unsigned char byte)
{
    return error_set(GRAIL_ERROR_FORMAT, "is not UTF-8 at byte %zu (0x%02x); convert it first",
                     offset, byte);
}

/* Refuses UTF-16 and UTF-32, which begin with a mark or show by their NUL bytes: those of letters
 * of English, of spaces and of line ends are UTF-8, too. */
static grail_status check_encoding(const unsigned char *text, size_t size)
{
    enum { LOOKED_AT = 4096, MOST_NULS = 50 }; /* one byte of so many */
    const size_t count = size < LOOKED_AT ? size : LOOKED_AT;
    size_t nuls = 0;
    for (size_t i = 0; i < count; i++) {
        nuls += text[i] == 0 ? 1 : 0;
    }
    const bool marked =
        size >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0);
    if (!marked && (nuls < 2 || nuls < count / MOST_NULS)) {
        return GRAIL_OK;
    }
    return error_set(GRAIL_ERROR_FORMAT,
                     "is not UTF-8 but seems to be UTF-16 or UTF-32: %s%zu of its first %zu bytes "
                     "are NUL; convert it to UTF-8, as by iconv -f UTF-16 -t UTF-8",
                     marked ? "it begins with their byte order mark, and " : "", nuls, count);
}

/* --- pieces of the source --- */

static void advance(corpus *c, size_t size)
{
    c->at += size;
    c->left -= size;
    c->offset += size;
}

/* Gets the next piece if the current one is used up; c->left stays 0 at the end. */
static grail_status fill(corpus *c)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    if (c->left > 0) {
        return GRAIL_OK;
    }
    CHECK(text_source_next(&c->source, &c->at, &c->left));
    if (c->offset == 0 && c->left == 0) {
        return error_set(GRAIL_ERROR_FORMAT, "is empty");
    }
    if (c->offset > 0) {
        return GRAIL_OK;
    }
    CHECK(check_encoding(c->at, c->left));
    if (c->field != NULL && c->left >= 3 && memcmp(c->at, byte_order_mark, 3) == 0) {
        advance(c, 3); /* no part of the first line of JSON */
    }
    return GRAIL_OK;
}

/* Like fill(), behind a line end of which only CR was read. */
static grail_status fill_line(corpus *c)
{
    CHECK(fill(c));
    if (c->after_return && c->left > 0 && c->at[0] == '\n') {
        advance(c, 1);
        CHECK(fill(c));
    }
    c->after_return = false;
    return GRAIL_OK;
}

/* --- plain text --- */

/* Completes a character that continues in the next piece; its beginning is in `line`. */
static grail_status join_character(corpus *c, corpus_piece *out)
{
    const size_t begin = c->offset - c->line.size;
    while (c->line.size < LONGEST_CHARACTER &&
           utf8_valid_prefix(c->line.bytes, c->line.size) == 0) {
        CHECK(fill(c));
        if (c->left == 0) {
            return not_utf8(begin, c->line.bytes[0]);
        }
        CHECK(buffer_append(&c->line, c->at, 1));
        advance(c, 1);
    }
    if (utf8_valid_prefix(c->line.bytes, c->line.size) != c->line.size) {
        return not_utf8(begin, c->line.bytes[0]);
    }
    *out = (corpus_piece){.text = (const char *)c->line.bytes, .size = c->line.size};
    return GRAIL_OK;
}

/* The text before the next CR, or the line end that begins with it. */
static grail_status next_plain(corpus *c, corpus_piece *out)
{
    c->line.size = 0;
    CHECK(fill_line(c));
    if (c->left > 0 && c->at[0] == '\r') {
        *out = (corpus_piece){.text = "\n", .size = 1};
        c->after_return = true;
        advance(c, 1);
        return GRAIL_OK;
    }
    const unsigned char *end = c->left > 0 ? memchr(c->at, '\r', c->left) : NULL;
    const size_t size = end == NULL ? c->left : (size_t)(end - c->at);
    const size_t valid = utf8_valid_prefix(c->at, size);
    if (valid == 0 && size >= LONGEST_CHARACTER) {
        return not_utf8(c->offset, c->at[0]);
    }
    if (valid > 0) {
        *out = (corpus_piece){.text = (const char *)c->at, .size = valid};
        advance(c, valid);
    } else if (size > 0) {
        CHECK(buffer_append(&c->line, c->at, size));
        advance(c, size);
        CHECK(join_character(c, out));
    } else {
        *out = (corpus_piece){.text = "", .ends_document = true};
        c->ended = true;
    }
    return GRAIL_OK;
}

/* --- JSON lines --- */

static grail_status read_conversation(corpus *c, const char *key, const json_t *value,
                                      corpus_piece *out)
{
    grail_status status = GRAIL_OK;
    json_t *messages = NULL;
    if (c->chat == NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "\"%s\" is a conversation, which a chat template has to write, and the "
                         "model has none that is read here; give the token ids that "
                         "apply_chat_template of transformers makes as .npy, or JSON lines of its "
                         "texts",
                         key);
    }
    c->written.size = 0;
    TRY(chat_read(value, &messages));
    TRY(chat_write(c->chat, messages, false, &c->written));
    *out = (corpus_piece){.text = (const char *)c->written.bytes,
                          .size = c->written.size,
                          .ends_document = true,
                          .is_written = true};
out:
    json_decref(messages);
    return error_in(status, "\"%s\"", key);
}

static grail_status read_field(corpus *c, corpus_piece *out)
{
    enum { MOST_NAMED = 4 };
    const char *const conversations[] = {c->field, "messages", "conversations"};
    const char *text = NULL;
    const char *key = NULL;
    json_t *value = NULL;
    int named = 0;
    for (int i = 0; i < (c->field_is_usual ? 3 : 1); i++) {
        value = json_object_get(c->document, conversations[i]);
        if (json_is_array(value)) {
            return read_conversation(c, conversations[i], value, out);
        }
        if (value != NULL && !json_is_null(value)) {
            break;
        }
    }
    CHECK(json_get_string("document", c->document, c->field, NULL, &text));
    if (text != NULL) {
        *out = (corpus_piece){.text = text, .size = strlen(text), .ends_document = true};
        return GRAIL_OK;
    }
    if (json_is_null(json_object_get(c->document, c->field))) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "its field \"%s\" is null, not a text; leave the line out", c->field);
    }
    const grail_status status =
        error_set(GRAIL_ERROR_FORMAT, "has no string field \"%s\"", c->field);
    json_object_foreach (c->document, key, value) {
        if (json_is_string(value) && named < MOST_NAMED) {
            error_append("%s \"%s\"", named == 0 ? "; choose one of its string fields:" : ",", key);
            named++;
        }
    }
    return error_about(status, "field");
}

/* The next line: in place if one piece holds it, otherwise put together in c->line. *found is false
 * at the end. */
static grail_status next_line(corpus *c, const unsigned char **line, size_t *size, bool *found)
{
    bool complete = false;
    c->line.size = 0;
    c->line_number++;
    CHECK(fill_line(c));
    c->line_begin = c->offset;
    *found = c->left > 0;
    while (c->left > 0 && !complete) {
        size_t length = 0;
        while (length < c->left && c->at[length] != '\n' && c->at[length] != '\r') {
            length++;
        }
        complete = length < c->left;
        *line = c->at;
        *size = length;
        if (c->line.size + length > TEXT_LONGEST_LINE) {
            return error_set(GRAIL_ERROR_FORMAT, "line %lld: has more than the allowed %d bytes",
                             (long long)c->line_number, TEXT_LONGEST_LINE);
        }
        if (!complete || c->line.size > 0) {
            CHECK(buffer_append(&c->line, c->at, length));
            *line = c->line.bytes;
            *size = c->line.size;
        }
        c->after_return = complete && c->at[length] == '\r';
        advance(c, length + (complete ? 1 : 0));
        CHECK(complete ? GRAIL_OK : fill(c));
    }
    return GRAIL_OK;
}

/* The next line that is not blank; *found is false at the end. */
static grail_status next_document(corpus *c, corpus_piece *out, bool *found)
{
    const unsigned char *line = NULL;
    size_t size = 0;
    json_decref(c->document);
    c->document = NULL;
    do {
        CHECK(next_line(c, &line, &size, found));
        const size_t valid = *found ? utf8_valid_prefix(line, size) : 0;
        if (*found && valid != size) {
            return not_utf8(c->line_begin + valid, line[valid]);
        }
    } while (*found && is_blank(line, size));
    c->ended = !*found;
    if (!*found) {
        return GRAIL_OK;
    }
    CHECK(error_in(json_parse("document", line, size, &c->document), "line %lld",
                   (long long)c->line_number));
    return error_in(read_field(c, out), "line %lld", (long long)c->line_number);
}

/* --- ids --- */

static grail_status next_ids(corpus *c, corpus_piece *out)
{
    const int64_t left = c->ids.count - c->next_id;
    const int64_t count = left < IDS_AT_ONCE ? left : IDS_AT_ONCE;
    CHECK(npy_read_ids(&c->ids, c->next_id, count, c->converted));
    const size_t place =
        (size_t)(c->ids.data - c->source.bytes) + (size_t)c->next_id * c->ids.width;
    file_map_release(&c->source.map, place, (size_t)count * c->ids.width);
    hash_add(&c->hash, c->converted, (size_t)count * sizeof c->converted[0]);
    c->next_id += count;
    c->ended = c->next_id == c->ids.count;
    *out = (corpus_piece){.ids = c->converted, .count = count, .ends_document = c->ended};
    return GRAIL_OK;
}

grail_status corpus_next(corpus *c, corpus_piece *out, bool *found)
{
    corpus_piece piece = {0};
    *found = !c->ended;
    if (c->ended) {
        return GRAIL_OK;
    }
    CHECK(error_in(c->ids.data != NULL ? next_ids(c, &piece)
                   : c->field == NULL  ? next_plain(c, &piece)
                                       : next_document(c, &piece, found),
                   "%s", c->path));
    if (piece.text != NULL) {
        hash_add(&c->hash, piece.text, piece.size);
        c->has_text = c->has_text || !is_blank((const unsigned char *)piece.text, piece.size);
    }
    *out = piece;
    return GRAIL_OK;
}

grail_status corpus_finish(corpus *c, char hash[65])
{
    corpus_piece piece = {0};
    bool found = true;
    while (found) {
        CHECK(corpus_next(c, &piece, &found));
    }
    if (c->ids.data == NULL && !c->has_text) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: holds no text", c->path);
    }
    hash_end(&c->hash, hash);
    return GRAIL_OK;
}

int64_t corpus_ids(const corpus *c)
{
    return c->ids.data == NULL ? -1 : c->ids.count;
}

int64_t corpus_row(const corpus *c)
{
    return c->ids.row;
}

/* --- opening --- */

/* Chooses the kind by the ending of the name; the source is open. */
static grail_status begin(corpus *c, const char *field)
{
    hash_begin(&c->hash);
    buffer_init(&c->line, TEXT_LONGEST_LINE);
    buffer_init(&c->written, 2 * (size_t)TEXT_LONGEST_LINE);
    c->field_is_usual = field == NULL;
    if (name_is_of_kind(c->path, ".npy")) {
        CHECK(error_in(npy_read_header(c->source.bytes, c->source.size, &c->ids), "%s", c->path));
        CHECK(memory_new_unset(&c->converted, IDS_AT_ONCE, sizeof c->converted[0]));
    } else if (name_is_of_kind(c->path, ".jsonl") || name_is_of_kind(c->path, ".jsonl.gz")) {
        CHECK(memory_copy_string(&c->field, field == NULL ? "text" : field));
    } else if (name_is_of_kind(c->path, ".parquet")) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: Parquet files are not read; write JSON lines in Python, datasets.Dataset."
            "from_parquet(PATH).to_json(\"texts.jsonl\"), or give Samples.dataset of the Python "
            "package the data set",
            c->path);
    } else if (!name_is_of_kind(c->path, ".txt")) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: has no known ending; expected .txt, .jsonl, .jsonl.gz or .npy",
                         c->path);
    }
    return GRAIL_OK;
}

/* The bytes of a file, or those of the caller. */
static grail_status open_as(const char *path, const char *field, bool in_memory, const void *bytes,
                            size_t size, corpus **out)
{
    grail_status status = GRAIL_OK;
    corpus *c = NULL;
    TRY(memory_new(&c, 1, sizeof *c));
    TRY(memory_copy_string(&c->path, path));
    if (in_memory) {
        text_source_of_bytes(&c->source, bytes, size);
    } else {
        TRY(name_is_of_kind(path, ".gz") ? text_source_open_compressed(&c->source, path)
                                         : text_source_open(&c->source, path));
    }
    TRY(begin(c, field));
    *out = c;
    c = NULL;
out:
    corpus_close(c);
    return status;
}

grail_status corpus_open_bytes(const char *name, const char *field, const void *bytes, size_t size,
                               corpus **out)
{
    return open_as(name, field, true, bytes, size, out);
}

grail_status corpus_open(const char *path, const char *field, corpus **out)
{
    return open_as(path, field, false, NULL, 0, out);
}

void corpus_set_chat(corpus *c, const chat_writer *writer)
{
    c->chat = writer;
}

void corpus_close(corpus *c)
{
    if (c == NULL) {
        return;
    }
    text_source_close(&c->source);
    json_decref(c->document);
    buffer_fini(&c->line);
    buffer_fini(&c->written);
    memory_free(c->converted);
    memory_free(c->field);
    memory_free(c->path);
    memory_free(c);
}
