/* From ids to text: byte-level pieces, or pieces whose spaces are U+2581, with tokens for bytes. */
#include "format/text/tokenizer_internal.h"

#include <string.h>

static const char metaspace[] = "\xE2\x96\x81";

static bool is_byte_level(const tokenizer *t)
{
    bool found = false;
    for (int i = 0; i < t->pretokenizer.count; i++) {
        found = found || t->pretokenizer.steps[i].kind == PRETOKENIZE_BYTES;
    }
    return found;
}

static bool is_added(const tokenizer *t, int32_t id)
{
    bool found = false;
    for (int64_t i = 0; i < t->added_count; i++) {
        found = found || t->added[i].id == id;
    }
    return found;
}

/* The byte that a character of the byte-level alphabet stands for; -1 for another one. */
static int byte_of(int32_t character)
{
    if (character >= 0x100 && character <= 0x120) {
        return character - 0x100;
    }
    if (character >= 0x121 && character <= 0x142) {
        return character - 0x121 + 0x7F;
    }
    if (character == 0x143) {
        return 0xAD;
    }
    return character < 0x100 ? character : -1;
}

static grail_status append_bytes(text_span piece, buffer *out)
{
    for (size_t at = 0; at < piece.size;) {
        const size_t length = character_length(piece.bytes[at]);
        const text_span rest = span_from(piece, at, piece.size);
        const int byte = byte_of(character_at(rest));
        const unsigned char one = (unsigned char)byte;
        CHECK(byte < 0 ? buffer_append(out, rest.bytes, length) : buffer_append(out, &one, 1));
        at += length;
    }
    return GRAIL_OK;
}

static grail_status append_spaced(text_span piece, buffer *out)
{
    const size_t mark = sizeof metaspace - 1;
    for (size_t at = 0; at < piece.size;) {
        const bool is_space =
            piece.size - at >= mark && memcmp(piece.bytes + at, metaspace, mark) == 0;
        const size_t length = is_space ? mark : character_length(piece.bytes[at]);
        CHECK(is_space ? buffer_append(out, " ", 1) : buffer_append(out, piece.bytes + at, length));
        at += length;
    }
    return GRAIL_OK;
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
    if (is_added(t, id)) {
        return buffer_append(out, piece.bytes, piece.size);
    }
    return is_byte_level(t) ? append_bytes(piece, out) : append_spaced(piece, out);
}
