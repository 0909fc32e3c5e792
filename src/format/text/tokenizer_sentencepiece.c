/* Tokenizers of pieces with scores, as a GGUF file has those of SentencePiece.
 *
 * SentencePiece merges the neighbours whose concatenation is the piece of highest score. Here every
 * way to cut a piece into two pieces becomes a merge that is ranked by the score, so both kinds
 * use the same BPE model. User-defined pieces are matched first and never merge. */
#include "base/utf8.h"
#include "format/text/tokenizer_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

grail_status sentence_model_add(sentence_model *m, sentence_piece piece)
{
    const long long id = (long long)m->count;
    if (piece.text.size == 0 ||
        utf8_valid_prefix(piece.text.bytes, piece.text.size) != piece.text.size) {
        return error_set(GRAIL_ERROR_FORMAT, "piece %lld is empty or not valid UTF-8", id);
    }
    if (!isfinite(piece.score)) {
        return error_set(GRAIL_ERROR_FORMAT, "piece %lld has a score that is not finite", id);
    }
    if (piece.type < TOKEN_NORMAL || piece.type > TOKEN_BYTE) {
        return error_set(GRAIL_ERROR_FORMAT, "piece %lld has the unknown type %llu", id,
                         (unsigned long long)piece.type);
    }
    if (m->count > TOKEN_ID_MAX) {
        return error_set(GRAIL_ERROR_FORMAT, "has more than %d pieces", TOKEN_ID_MAX + 1);
    }
    CHECK(memory_reserve(&m->pieces, (size_t)m->count + 1, sizeof *m->pieces));
    m->pieces[m->count++] = piece;
    return GRAIL_OK;
}

typedef struct scored_piece {
    float score;
    int64_t index;
} scored_piece;

static int compare_scores(const void *a, const void *b)
{
    const float x = ((const scored_piece *)a)->score;
    const float y = ((const scored_piece *)b)->score;
    return (x < y) - (x > y);
}

/* Rank 0 for the highest score; equal scores share a rank. */
static grail_status rank_pieces(sentence_model *m)
{
    grail_status status = GRAIL_OK;
    scored_piece *order = NULL;
    TRY(memory_new(&order, (size_t)m->count, sizeof *order));
    for (int64_t i = 0; i < m->count; i++) {
        order[i] = (scored_piece){m->pieces[i].score, i};
    }
    qsort(order, (size_t)m->count, sizeof *order, compare_scores);
    int32_t rank = 0;
    for (int64_t i = 0; i < m->count; i++) {
        rank += i > 0 && order[i].score < order[i - 1].score ? 1 : 0;
        m->pieces[order[i].index].rank = rank;
    }
out:
    memory_free(order);
    return status;
}

static int32_t find_normal(const sentence_model *m, const bpe_model *model, text_span text)
{
    const int32_t id = vocabulary_find(&model->pieces, text);
    return id >= 0 && m->pieces[id].type == TOKEN_NORMAL ? id : -1;
}

/* Every character of a piece must be a piece itself, as it is in every trained model: a symbol that
 * is not a piece has no id that a merge could name. */
static grail_status check_characters(const bpe_model *model, text_span piece)
{
    for (size_t i = 0; i < piece.size; i += character_length(piece.bytes[i])) {
        const size_t length = character_length(piece.bytes[i]);
        const text_span character = span_from(piece, i, i + length);
        if (vocabulary_find(&model->pieces, character) < 0) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "piece '%.*s' holds the character '%.*s', which is not itself a "
                             "piece; convert the tokenizer to tokenizer.json",
                             (int)piece.size, piece.bytes, (int)length, character.bytes);
        }
    }
    return GRAIL_OK;
}

/* Adds a merge for every way to cut the piece into two normal pieces. */
static grail_status add_merges_of(const sentence_model *m, bpe_model *model, int64_t id)
{
    const text_span text = m->pieces[id].text;
    /* Cutting a piece of n bytes costs n look-ups of up to n bytes; real pieces have a few dozen.
     */
    if (text.size > TOKENIZER_LONGEST_MERGED) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "piece %lld has %zu bytes, more than the allowed %d", (long long)id,
                         text.size, TOKENIZER_LONGEST_MERGED);
    }
    if (character_length(text.bytes[0]) < text.size) {
        CHECK(check_characters(model, text));
    }
    for (size_t cut = character_length(text.bytes[0]); cut < text.size;
         cut += character_length(text.bytes[cut])) {
        const int32_t left = find_normal(m, model, span_from(text, 0, cut));
        const int32_t right = find_normal(m, model, span_from(text, cut, text.size));
        if (left >= 0 && right >= 0) {
            CHECK(pair_table_put(&model->merges,
                                 (pair_entry){left, right, m->pieces[id].rank, (int32_t)id}));
        }
    }
    return GRAIL_OK;
}

grail_status tokenizer_read_pieces(sentence_model *m, tokenizer *t)
{
    if (m->count == 0) {
        return error_set(GRAIL_ERROR_FORMAT, "its tokenizer holds no pieces");
    }
    CHECK(rank_pieces(m));
    t->model.byte_fallback = true;
    t->model.fuse_unknown = true;
    for (int64_t j = 0; j < m->count; j++) {
        const sentence_piece *piece = &m->pieces[j];
        if (piece->type == TOKEN_UNUSED) {
            continue;
        }
        CHECK(vocabulary_add(&t->model.pieces, piece->text, (int32_t)j));
        if (piece->type == TOKEN_USER_DEFINED) {
            CHECK(piece_trie_add(&t->model.whole, piece->text, (int32_t)j));
        }
        if (piece->type == TOKEN_UNKNOWN && t->model.unknown >= 0) {
            return error_set(GRAIL_ERROR_FORMAT, "pieces %d and %lld are both of type UNKNOWN",
                             t->model.unknown, (long long)j);
        }
        t->model.unknown = piece->type == TOKEN_UNKNOWN ? (int32_t)j : t->model.unknown;
    }
    if (t->model.unknown < 0) {
        return error_set(GRAIL_ERROR_FORMAT, "has no piece of type UNKNOWN");
    }
    for (int64_t i = 0; i < m->count; i++) {
        if (m->pieces[i].type == TOKEN_CONTROL) {
            CHECK(tokenizer_add_token(t, (text_span){0}, false, (added_token){.id = (int32_t)i}));
        } else if (m->pieces[i].type == TOKEN_NORMAL) {
            CHECK(add_merges_of(m, &t->model, i));
        }
    }
    CHECK(bpe_prepare(&t->model));
    t->normalizer.steps[0] = (text_step){.kind = NORMALIZE_SENTENCEPIECE, .rules = m->rules};
    t->normalizer.count = 1;
    return GRAIL_OK;
}
