/* The pre-tokenizer: steps that split a section of text into words. A section goes depth first:
 * each word that a step finds is handed to the next step at once, and the last step's words are
 * encoded, so no list of words is ever held. */
#include "format/text/tokenizer_internal.h"

#include <string.h>

/* The byte-level alphabet (GPT-2's bytes_to_unicode): printable Latin-1 stands for itself, the
 * other 68 bytes, in ascending order, are U+0100, U+0101, ... */
static int32_t byte_character(unsigned char byte)
{
    if (byte <= 0x20) {
        return 0x100 + byte;
    }
    if (byte >= 0x7F && byte <= 0xA0) {
        return 0x121 + (byte - 0x7F);
    }
    return byte == 0xAD ? 0x143 : byte;
}

/* Spaces become the replacement, and the scheme decides whether one is put before the text. */
static grail_status metaspace(const text_step *step, text_span text, bool at_start, buffer *out)
{
    const text_span mark = span_of_string(step->content);
    const bool wanted =
        step->scheme == PREPEND_ALWAYS || (step->scheme == PREPEND_FIRST && at_start);
    if (wanted && text.bytes[0] != ' ' && !span_starts_with(text, mark)) {
        CHECK(buffer_append(out, mark.bytes, mark.size));
    }
    for (size_t i = 0; i < text.size;) {
        const char *space = memchr(text.bytes + i, ' ', text.size - i);
        const size_t end = space == NULL ? text.size : (size_t)(space - text.bytes);
        CHECK(buffer_append(out, text.bytes + i, end - i));
        if (space != NULL) {
            CHECK(buffer_append(out, mark.bytes, mark.size));
        }
        i = end + 1;
    }
    return GRAIL_OK;
}

/* Rewrites the section into the step's buffer and hands all of it to the next step. */
static grail_status rewrite(encoder *e, int index, text_span section, section_edges edges)
{
    const text_step *step = &e->tokenizer->pretokenizer.steps[index];
    buffer *out = &e->steps[index];
    out->size = 0;
    out->maximum = SIZE_MAX;
    if (step->kind == PRETOKENIZE_BYTES) {
        for (size_t i = 0; i < section.size; i++) {
            CHECK(character_append(out, byte_character((unsigned char)section.bytes[i])));
        }
    } else if (step->kind == PRETOKENIZE_SPACE_PREFIX) {
        CHECK(section.bytes[0] == ' ' ? GRAIL_OK : buffer_append(out, " ", 1));
        CHECK(buffer_append(out, section.bytes, section.size));
    } else {
        CHECK(metaspace(step, section, edges.start, out));
    }
    return pretokenize(e, index + 1, span_of_buffer(out), edges);
}

/* A stretch of a section: a match of the step's pattern, or the text between two matches. */
typedef struct stretch {
    size_t begin;
    size_t end;
    bool match;
} stretch;

/* Holds back the last stretch, since the next one may join it. */
typedef struct splitter {
    encoder *encoder;
    int index;
    text_span section;
    section_edges edges;
    bool waiting;
    stretch last;
} splitter;

static grail_status emit_last(splitter *s)
{
    const text_step *step = &s->encoder->tokenizer->pretokenizer.steps[s->index];
    const bool removed = step->behavior == SPLIT_REMOVED && s->last.match;
    if (!s->waiting || removed || s->last.begin == s->last.end) {
        return GRAIL_OK;
    }
    return pretokenize(s->encoder, s->index + 1, span_from(s->section, s->last.begin, s->last.end),
                       (section_edges){.start = s->edges.start && s->last.begin == 0});
}

static grail_status accept(splitter *s, stretch next)
{
    const text_step *step = &s->encoder->tokenizer->pretokenizer.steps[s->index];
    next.match = next.match != step->invert;
    const bool joins = step->behavior == SPLIT_MERGED_WITH_PREVIOUS ? next.match && !s->last.match
                       : step->behavior == SPLIT_MERGED_WITH_NEXT
                           ? !next.match && s->last.match
                           : step->behavior == SPLIT_CONTIGUOUS && next.match == s->last.match;
    if (s->waiting && joins) {
        s->last.end = next.end;
        s->last.match = next.match;
        return GRAIL_OK;
    }
    CHECK(emit_last(s));
    s->last = next;
    s->waiting = true;
    return GRAIL_OK;
}

/* In an open section the last stretch may continue, so it is left out. */
static grail_status split(encoder *e, int index, text_span section, section_edges edges)
{
    splitter s = {.encoder = e, .index = index, .section = section, .edges = edges};
    const text_pattern *pattern = &e->tokenizer->pretokenizer.steps[index].pattern;
    pattern_scan scan = pattern_scan_start(pattern, &e->patterns, section, edges.open);
    size_t seen = 0;
    for (bool found = true; found;) {
        size_t begin = section.size;
        size_t end = section.size;
        CHECK(pattern_scan_next(&scan, &found, &begin, &end));
        if (!found && edges.open) {
            return GRAIL_OK;
        }
        if (begin != seen) {
            CHECK(accept(&s, (stretch){seen, begin, false}));
        }
        if (found) {
            CHECK(accept(&s, (stretch){begin, end, true}));
        }
        seen = end;
    }
    return emit_last(&s);
}

grail_status pretokenize(encoder *e, int step, text_span section, section_edges edges)
{
    if (section.size == 0) {
        return GRAIL_OK;
    }
    if (step == e->tokenizer->pretokenizer.count && e->tokenizer->words.is_used) {
        return wordpiece_encode(&e->tokenizer->words, section, edges.open, e->out);
    }
    if (step == e->tokenizer->pretokenizer.count) {
        return bpe_encode(&e->tokenizer->model, &e->words, section, edges.open, e->out);
    }
    if (e->tokenizer->pretokenizer.steps[step].kind == PRETOKENIZE_SPLIT) {
        return split(e, step, section, edges);
    }
    return rewrite(e, step, section, edges);
}

/* -- from ids to text: byte-level pieces, or pieces whose spaces are U+2581, with tokens for bytes
 */

/* The byte that a character of the byte-level alphabet stands for; -1 for another one. */
static int byte_of(int32_t character)
{
    for (int byte = 0; byte < 256; byte++) {
        if (byte_character((unsigned char)byte) == character) {
            return byte;
        }
    }
    return character < 0x100 ? character : -1;
}

grail_status tokenizer_decode(const tokenizer *t, int32_t id, buffer *out)
{
    const text_span piece = vocabulary_piece(&t->model.pieces, id);
    if (piece.bytes == NULL) { /* padding of the head */
        return GRAIL_OK;
    }
    for (int b = 0; t->model.byte_fallback && b < 256; b++) {
        if (t->model.bytes[b] == id) {
            const unsigned char byte = (unsigned char)b;
            return buffer_append(out, &byte, 1);
        }
    }
    for (int64_t i = 0; i < t->added_count; i++) {
        if (t->added[i].id == id) {
            return buffer_append(out, piece.bytes, piece.size);
        }
    }
    bool bytes = false; /* byte-level */
    for (int i = 0; i < t->pretokenizer.count; i++) {
        bytes = bytes || t->pretokenizer.steps[i].kind == PRETOKENIZE_BYTES;
    }
    for (size_t at = 0; at < piece.size;) {
        const text_span rest = span_from(piece, at, piece.size);
        const size_t length = character_length(piece.bytes[at]);
        const int32_t character = character_at(rest);
        const int byte = bytes ? byte_of(character) : character == 0x2581 ? ' ' : -1;
        const unsigned char one = (unsigned char)byte;
        CHECK(byte < 0 ? buffer_append(out, rest.bytes, length) : buffer_append(out, &one, 1));
        at += length;
    }
    return GRAIL_OK;
}
