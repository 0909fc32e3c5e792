/* Documents, or lines, are encoded one by one as they are read, and no more text is read than the
 * requested ids need. Protocols that join an entire text make one large document. Only the
 * beginning of a large document is encoded; each time this gives too few ids, twice as much is
 * encoded. */
#include "format/text/text_encode.h"

#include "base/buffer.h"
#include "format/text/text_source.h"

#include <string.h>

typedef struct encoding encoding;

/* Encodes a piece of the text as a protocol prescribes. */
typedef grail_status (*piece_function)(encoding *e, const corpus_piece *piece);

struct encoding {
    const window_options *options;
    const tokenizer *tokenizer;
    token_list *ids;
    token_windows *windows; /* gets the documents where these are the windows */
    int64_t wanted;         /* ids, or documents; INT64_MAX for all */
    size_t read;            /* bytes */
    buffer document;        /* the text of the current document, not encoded yet */
    size_t next_try;        /* size of `document` at which its beginning is encoded */
    int64_t documents;
    bool in_document;
    buffer line; /* the beginning of a line that continues in the next piece */
    int64_t lines;
    bool complete; /* everything that the protocol reads was read */
    bool enough;   /* the wanted ids were encoded, and text is left over */
};

static bool is_limited(const encoding *e)
{
    return e->wanted < INT64_MAX && e->read >= TEXT_ENCODED_WHOLE;
}

static int64_t most_ids(const encoding *e)
{
    return is_limited(e) ? e->wanted : TEXT_MOST_TOKENS + (int64_t)1;
}

static grail_status too_many(const encoding *e)
{
    return error_set(GRAIL_ERROR_ARGUMENT,
                     "%s: has more than %d tokens, the most that can be sampled or measured; use a "
                     "part of the text",
                     e->options->path, TEXT_MOST_TOKENS);
}

static grail_status check_count(encoding *e)
{
    if (is_limited(e) && e->ids->count >= e->wanted) {
        e->enough = true;
        return GRAIL_OK;
    }
    return e->ids->count <= TEXT_MOST_TOKENS ? GRAIL_OK : too_many(e);
}

static grail_status encode(encoding *e, const char *text, size_t size, bool special)
{
    e->ids->most = most_ids(e);
    CHECK(tokenizer_encode(e->tokenizer, text, size, special, e->ids));
    return check_count(e);
}

/* Where enough may have been read, its beginning is encoded. */
static grail_status extend_document(encoding *e, const char *text, size_t size)
{
    if (size > TEXT_LARGEST_DOCUMENT - e->document.size) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "%s: has a document of more than %zu bytes, the most that can be encoded; use a part "
            "of the text",
            e->options->path, TEXT_LARGEST_DOCUMENT);
    }
    CHECK(buffer_append(&e->document, text, size));
    if (is_limited(e) && e->document.size >= e->next_try) {
        const int64_t before = e->ids->count;
        e->ids->most = e->wanted;
        CHECK(tokenizer_encode_start(e->tokenizer, (const char *)e->document.bytes,
                                     e->document.size, true, e->ids));
        e->enough = e->ids->count >= e->wanted;
        e->ids->count = e->enough ? e->ids->count : before;
        e->next_try = 2 * e->document.size;
    }
    return GRAIL_OK;
}

static grail_status end_document(encoding *e)
{
    if (!e->enough) {
        CHECK(encode(e, (const char *)e->document.bytes, e->document.size, true));
    }
    e->document.size = 0;
    e->next_try = 0;
    return GRAIL_OK;
}

/* --- documents --- */

/* A document that is a window: what is around it stays where it is cut. */
static grail_status encode_document(encoding *e, const char *text, size_t size)
{
    token_windows *w = e->windows;
    const int64_t begin = e->ids->count;
    const int64_t most = begin + w->length - tokenizer_after(e->tokenizer)->count;
    e->ids->most = 0;
    CHECK(token_list_append(e->ids, tokenizer_before(e->tokenizer)));
    const int64_t content = e->ids->count;
    e->ids->most = most;
    CHECK(tokenizer_encode(e->tokenizer, text, size, false, e->ids));
    e->ids->most = 0;
    if (e->ids->count == content) {
        e->ids->count = begin;
        return GRAIL_OK;
    }
    CHECK(token_list_append(e->ids, tokenizer_after(e->tokenizer)));
    CHECK(memory_reserve(&w->starts, (size_t)w->count + 2, sizeof w->starts[0]));
    w->starts[w->count++] = begin;
    w->starts[w->count] = e->ids->count;
    e->enough = is_limited(e) && w->count >= e->wanted;
    return e->ids->count <= TEXT_MOST_TOKENS ? GRAIL_OK : too_many(e);
}

static grail_status take_plain(encoding *e, const corpus_piece *piece)
{
    if (piece->ends_document && e->document.size == 0) {
        return encode(e, piece->text, piece->size, !piece->is_written);
    }
    CHECK(extend_document(e, piece->text, piece->size));
    if (piece->ends_document) {
        CHECK(end_document(e));
    }
    return GRAIL_OK;
}

/* The first documents, joined by a space. */
static grail_status take_c4(encoding *e, const corpus_piece *piece)
{
    enum { C4_DOCUMENTS = 1100 };
    if (!e->in_document && e->documents > 0) {
        CHECK(extend_document(e, " ", 1));
    }
    CHECK(extend_document(e, piece->text, piece->size));
    e->in_document = !piece->ends_document;
    e->documents += piece->ends_document ? 1 : 0;
    e->complete = e->documents == C4_DOCUMENTS;
    return GRAIL_OK;
}

/* --- lines of all documents --- */

typedef struct line_span {
    const char *start;
    size_t size; /* includes the newline, if there is one */
} line_span;

static line_span strip(line_span line)
{
    while (line.size > 0 && text_is_blank(line.start[0])) {
        line.start++;
        line.size--;
    }
    while (line.size > 0 && text_is_blank(line.start[line.size - 1])) {
        line.size--;
    }
    return line;
}

static grail_status add_line(encoding *e, line_span line)
{
    const line_span row = strip(line);
    const text_protocol protocol = e->options->protocol;
    if (protocol == TEXT_WIKITEXT2) {
        /* as "\n\n".join(rows): a row of the dataset keeps its newline, and a blank row is empty */
        CHECK(e->lines > 0 ? extend_document(e, "\n\n", 2) : GRAIL_OK);
        CHECK(row.size > 0 ? extend_document(e, line.start, line.size) : GRAIL_OK);
    } else if (protocol == TEXT_PTB) {
        CHECK(e->lines > 0 ? extend_document(e, " ", 1) : GRAIL_OK);
        CHECK(extend_document(e, row.start, row.size));
    } else if (row.size > 0) {
        CHECK(e->options->documents ? encode_document(e, row.start, row.size)
                                    : encode(e, row.start, row.size, false));
    }
    e->lines++;
    return GRAIL_OK;
}

/* A line that began in an earlier piece is put together first. */
static grail_status end_line(encoding *e, line_span last)
{
    if (e->line.size == 0) {
        return add_line(e, last);
    }
    CHECK(buffer_append(&e->line, last.start, last.size));
    CHECK(add_line(e, (line_span){(const char *)e->line.bytes, e->line.size}));
    e->line.size = 0;
    return GRAIL_OK;
}

static grail_status take_lines(encoding *e, const corpus_piece *piece)
{
    size_t begin = 0;
    while (begin < piece->size && !e->enough) {
        const char *start = piece->text + begin;
        const char *newline = memchr(start, '\n', piece->size - begin);
        const size_t size = newline == NULL ? piece->size - begin : (size_t)(newline - start) + 1;
        if (newline == NULL) {
            CHECK(buffer_append(&e->line, start, size));
        } else {
            CHECK(end_line(e, (line_span){start, size}));
        }
        begin += size;
    }
    return GRAIL_OK;
}

/* The last piece alone ends a document of a .txt file, and it is empty. */
static grail_status take_document(encoding *e, const corpus_piece *piece)
{
    if (e->options->protocol == TEXT_PLAIN && piece->ends_document && piece->size > 0) {
        const line_span all = strip((line_span){piece->text, piece->size});
        return all.size > 0 ? encode_document(e, all.start, all.size) : GRAIL_OK;
    }
    CHECK(take_lines(e, piece));
    return piece->ends_document && e->line.size > 0 && !e->enough ? end_line(e, (line_span){"", 0})
                                                                  : GRAIL_OK;
}

/* --- ids --- */

static grail_status take_ids(encoding *e, const corpus_piece *piece)
{
    e->ids->most = most_ids(e);
    for (int64_t i = 0; i < piece->count; i++) {
        const grail_status status = token_list_push(e->ids, piece->ids[i]);
        if (status != GRAIL_OK) {
            return status == GRAIL_ERROR_CANCELLED ? check_count(e) : status;
        }
    }
    return check_count(e);
}

/* --- all --- */

grail_status text_encode(corpus *c, const window_options *options, const tokenizer *t,
                         int64_t wanted, token_list *out, token_windows *windows, bool *complete)
{
    grail_status status = GRAIL_OK;
    encoding e = {.options = options,
                  .tokenizer = t,
                  .ids = out,
                  .windows = windows,
                  .wanted = wanted > 0 ? wanted : INT64_MAX};
    buffer_init(&e.document, TEXT_LARGEST_DOCUMENT);
    buffer_init(&e.line, TEXT_LARGEST_DOCUMENT);
    if (corpus_ids(c) < 0 && t == NULL) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "%s: reading text needs the model's tokenizer; give token ids in a .npy file instead",
             options->path);
    }
    if (e.wanted == INT64_MAX && corpus_ids(c) > TEXT_MOST_TOKENS) {
        TRY(too_many(&e));
    }
    static const piece_function takers[] = {
        [TEXT_PLAIN] = take_plain, [TEXT_LINES] = take_lines, [TEXT_WIKITEXT2] = take_lines,
        [TEXT_PTB] = take_lines,   [TEXT_C4] = take_c4,
    };
    const piece_function take = corpus_ids(c) >= 0     ? take_ids
                                : e.options->documents ? take_document
                                                       : takers[e.options->protocol];
    bool found = true;
    while (!e.enough && !e.complete) {
        corpus_piece piece = {0};
        TRY(corpus_next(c, &piece, &found));
        if (!found) {
            break;
        }
        if (piece.is_written && options->protocol != TEXT_PLAIN) {
            FAIL_ABOUT(
                "protocol", GRAIL_ERROR_ARGUMENT,
                "%s: holds conversations, which the protocol %s would take apart; give plain",
                options->path, text_protocol_names[options->protocol]);
        }
        windows->is_written = windows->is_written || piece.is_written;
        e.read += piece.size + (size_t)piece.count * sizeof piece.ids[0];
        TRY(take(&e, &piece));
    }
    if (corpus_ids(c) < 0 && e.line.size > 0 && !e.enough) { /* it may lack its newline */
        TRY(end_line(&e, (line_span){"", 0}));
    }
    if (corpus_ids(c) < 0 && (options->protocol == TEXT_WIKITEXT2 ||
                              options->protocol == TEXT_PTB || options->protocol == TEXT_C4)) {
        TRY(end_document(&e)); /* the joined text */
    }
    out->most = 0;
    *complete = !e.enough;
out:
    buffer_fini(&e.document);
    buffer_fini(&e.line);
    return status;
}
