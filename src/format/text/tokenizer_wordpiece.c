/* WordPiece: the longest piece that a word begins with, then the longest ones that go on with it,
 * which a prefix marks. Source: Schuster and Nakajima (2012), as in BERT's tokenizer. */
#include "format/text/tokenizer_internal.h"

#include <string.h>

grail_status wordpiece_prepare(const vocabulary *pieces, text_span unknown, text_span prefix,
                               int64_t most_characters, wordpiece_model *m)
{
    if (most_characters < 1) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "\"max_input_chars_per_word\" is %lld, expected 1 or more",
                         (long long)most_characters);
    }
    m->is_used = true;
    m->most_characters = most_characters;
    m->unknown = vocabulary_find(pieces, unknown);
    if (m->unknown < 0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the token '%.*s' for unknown words is not in the vocabulary",
                         (int)unknown.size, unknown.bytes);
    }
    for (int64_t id = 0; id < pieces->count; id++) {
        const text_span piece = vocabulary_piece(pieces, id);
        if (piece.size > TOKENIZER_LONGEST_MERGED) {
            return error_set(GRAIL_ERROR_FORMAT, "piece %d has %zu bytes; at most %d are supported",
                             (int)id, piece.size, TOKENIZER_LONGEST_MERGED);
        }
        /* whether it begins or continues a word; without a prefix all do both */
        CHECK(piece.size == 0 ? GRAIL_OK : piece_trie_add(&m->begins, piece, (int32_t)id));
        if (piece.size > prefix.size && span_starts_with(piece, prefix)) {
            CHECK(piece_trie_add(&m->continues, span_from(piece, prefix.size, piece.size),
                                 (int32_t)id));
        }
    }
    return GRAIL_OK;
}

void wordpiece_fini(wordpiece_model *m)
{
    piece_trie_fini(&m->begins);
    piece_trie_fini(&m->continues);
    *m = (wordpiece_model){0};
}

/* Bytes of the piece at `at`, 0 where no piece fits. */
static size_t piece_at(const wordpiece_model *m, text_span word, size_t at, int32_t *id)
{
    return piece_trie_match(at == 0 ? &m->begins : &m->continues, span_from(word, at, word.size),
                            id);
}

/* Whether the word is not too long, and pieces cover it. */
static bool is_known(const wordpiece_model *m, text_span word)
{
    int64_t characters = 0;
    for (size_t i = 0; i < word.size; i += character_length(word.bytes[i])) {
        characters++;
    }
    if (characters > m->most_characters) {
        return false;
    }
    for (size_t at = 0; at < word.size;) {
        int32_t id = -1;
        const size_t length = piece_at(m, word, at, &id);
        if (length == 0) {
            return false;
        }
        at += length;
    }
    return true;
}

/* Whatever follows may change the pieces of a word that is open. */
grail_status wordpiece_encode(const wordpiece_model *m, text_span word, bool open, token_list *out)
{
    if (open) {
        return GRAIL_OK;
    }
    if (!is_known(m, word)) {
        return token_list_push(out, m->unknown);
    }
    for (size_t at = 0; at < word.size;) {
        int32_t id = -1;
        at += piece_at(m, word, at, &id);
        CHECK(token_list_push(out, id));
    }
    return GRAIL_OK;
}
