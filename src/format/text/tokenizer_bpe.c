/* Byte-pair encoding: a word becomes one symbol per character; then the merge of lowest rank is
 * applied, the leftmost of equal ones, until no merge applies. Symbols are a linked list and
 * candidate merges a heap, so a word of n characters costs O(n log n).
 *
 * Long words are cut where no merge can reach across. This changes no result, but keeps the list
 * and the heap small when a file has no pre-tokenizer and the entire text is one word. */
#include "format/text/tokenizer_internal.h"

#include <stdio.h>
#include <string.h>

void bpe_init(bpe_model *m)
{
    *m = (bpe_model){.unknown = -1, .cuts = true};
    vocabulary_init(&m->pieces);
    memset(m->bytes, 0xFF, sizeof m->bytes);
}

void bpe_fini(bpe_model *m)
{
    vocabulary_fini(&m->pieces);
    pair_table_fini(&m->merges);
    pair_table_fini(&m->joins);
    piece_trie_fini(&m->whole);
}

static bool is_byte_or_unknown(const bpe_model *m, int32_t id)
{
    if (id == m->unknown) {
        return true;
    }
    bool found = false;
    for (int byte = 0; byte < 256 && m->byte_fallback; byte++) {
        found = found || m->bytes[byte] == id;
    }
    return found;
}

/* `joins` describes a symbol by the characters of its piece. The text of byte pieces and of the
 * unknown piece is only a name, so a model that merges them never cuts words. */
grail_status bpe_prepare(bpe_model *m)
{
    for (int byte = 0; byte < 256; byte++) {
        char piece[8];
        snprintf(piece, sizeof piece, "<0x%02X>", (unsigned)byte);
        m->bytes[byte] = vocabulary_find(&m->pieces, span_of_string(piece));
    }
    for (size_t i = 0; i < m->merges.slots.used && m->cuts; i++) {
        const pair_entry *merge = &m->merges.entries[i];
        if (is_byte_or_unknown(m, merge->left) || is_byte_or_unknown(m, merge->right)) {
            m->cuts = false;
        }
        const text_span left = vocabulary_piece(&m->pieces, merge->left);
        const text_span right = vocabulary_piece(&m->pieces, merge->right);
        if (left.size == 0 || right.size == 0) {
            m->cuts = false;
            continue;
        }
        const int32_t before = vocabulary_find(
            &m->pieces, span_from(left, character_before(left, left.size), left.size));
        const int32_t after =
            vocabulary_find(&m->pieces, span_from(right, 0, character_length(right.bytes[0])));
        if (before >= 0 && after >= 0) { /* else one of its halves can never arise */
            CHECK(pair_table_put(&m->joins, (pair_entry){.left = before, .right = after}));
        }
    }
    return GRAIL_OK;
}

static bool ranks_before(bpe_candidate a, bpe_candidate b)
{
    return a.rank != b.rank ? a.rank < b.rank : a.position < b.position;
}

static bpe_candidate heap_pop(bpe_workspace *w)
{
    const bpe_candidate top = w->heap[0];
    const bpe_candidate moved = w->heap[--w->heap_count];
    int64_t i = 0;
    for (int64_t child = 1; child < w->heap_count; child = 2 * i + 1) {
        if (child + 1 < w->heap_count && ranks_before(w->heap[child + 1], w->heap[child])) {
            child += 1;
        }
        if (!ranks_before(w->heap[child], moved)) {
            break;
        }
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = moved;
    return top;
}

/* Puts the merge of a symbol with its right neighbour into the heap, if there is one. */
static grail_status consider(const bpe_model *m, bpe_workspace *w, int32_t position)
{
    const int32_t next = position < 0 ? -1 : w->symbols[position].next;
    if (next < 0) {
        return GRAIL_OK;
    }
    const pair_entry *merge =
        pair_table_find(&m->merges, w->symbols[position].id, w->symbols[next].id);
    if (merge == NULL) {
        return GRAIL_OK;
    }
    const bpe_candidate candidate = (bpe_candidate){merge->rank, position, merge->result};
    CHECK(memory_reserve(&w->heap, (size_t)w->heap_count + 1, sizeof *w->heap));
    int64_t i = w->heap_count++;
    for (; i > 0 && ranks_before(candidate, w->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        w->heap[i] = w->heap[(i - 1) / 2];
    }
    w->heap[i] = candidate;
    return GRAIL_OK;
}

/* Applies a candidate, unless its symbols have changed and no longer merge into the same piece. If
 * they have changed but still do, it is applied at its old rank, as in Hugging Face tokenizers. */
static grail_status apply(const bpe_model *m, bpe_workspace *w, bpe_candidate candidate)
{
    bpe_symbol *symbol = &w->symbols[candidate.position];
    if (symbol->id < 0 || symbol->next < 0) {
        return GRAIL_OK;
    }
    bpe_symbol *right = &w->symbols[symbol->next];
    const pair_entry *merge = pair_table_find(&m->merges, symbol->id, right->id);
    if (merge == NULL || merge->result != candidate.result) {
        return GRAIL_OK;
    }
    symbol->id = merge->result;
    symbol->next = right->next;
    right->id = -1;
    if (symbol->next >= 0) {
        w->symbols[symbol->next].previous = candidate.position;
    }
    CHECK(consider(m, w, symbol->previous));
    return consider(m, w, candidate.position);
}

/* Merges the symbols collected so far, appends their ids and starts anew. */
static grail_status flush(const bpe_model *m, bpe_workspace *w, token_list *out)
{
    w->heap_count = 0;
    for (int32_t i = 0; i + 1 < w->symbol_count; i++) {
        CHECK(consider(m, w, i));
    }
    while (w->heap_count > 0) {
        CHECK(apply(m, w, heap_pop(w)));
    }
    for (int64_t i = 0; i < w->symbol_count; i++) {
        if (w->symbols[i].id >= 0) {
            CHECK(token_list_push(out, w->symbols[i].id));
        }
    }
    w->symbol_count = 0;
    return GRAIL_OK;
}

static grail_status push_symbol(const bpe_model *m, bpe_workspace *w, int32_t id, token_list *out)
{
    if (m->cuts && w->symbol_count > 0 &&
        pair_table_find(&m->joins, w->symbols[w->symbol_count - 1].id, id) == NULL) {
        CHECK(flush(m, w, out));
    }
    if (w->symbol_count == INT32_MAX / 2) {
        return error_set(GRAIL_ERROR_ARGUMENT, "a word has more than %d characters; split the text",
                         INT32_MAX / 2);
    }
    CHECK(memory_reserve(&w->symbols, (size_t)w->symbol_count + 1, sizeof *w->symbols));
    const int32_t position = (int32_t)w->symbol_count++;
    w->symbols[position] = (bpe_symbol){.id = id, .previous = position - 1, .next = -1};
    if (position > 0) {
        w->symbols[position - 1].next = position;
    }
    return GRAIL_OK;
}

/* *pending is set while a run of unknown characters waits to become one symbol. As in Hugging Face
 * tokenizers, bytes that are pushed meanwhile come before it. */
static grail_status push_unknown(const bpe_model *m, bpe_workspace *w, text_span character,
                                 bool *pending, token_list *out)
{
    bool by_bytes = m->byte_fallback; /* and all of them have pieces */
    for (size_t i = 0; i < character.size; i++) {
        by_bytes = by_bytes && m->bytes[(unsigned char)character.bytes[i]] >= 0;
    }
    for (size_t i = 0; i < character.size && by_bytes; i++) {
        CHECK(push_symbol(m, w, m->bytes[(unsigned char)character.bytes[i]], out));
    }
    if (by_bytes) {
        return GRAIL_OK;
    }
    if (m->unknown_missing) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the vocabulary has neither the character U+%04X nor an unknown token",
                         (unsigned)character_at(character));
    }
    if (*pending && !m->fuse_unknown) {
        CHECK(push_symbol(m, w, m->unknown, out));
    }
    *pending = m->unknown >= 0;
    return GRAIL_OK;
}

grail_status bpe_encode(const bpe_model *m, bpe_workspace *w, text_span word, bool open,
                        token_list *out)
{
    bool pending = false;
    w->symbol_count = 0;
    /* an open word is not looked up: it is longer than every piece, or none of its ids is certain
     */
    const int32_t found = m->ignore_merges && !open ? vocabulary_find(&m->pieces, word) : -1;
    if (found >= 0 || (open && m->ignore_merges && word.size <= m->pieces.longest)) {
        return found >= 0 ? token_list_push(out, found) : GRAIL_OK;
    }
    const size_t certain = piece_trie_certain(&m->whole, word, open);
    for (size_t position = 0; position < certain;) {
        text_span rest = span_from(word, position, word.size);
        int32_t id = -1;
        rest.size = piece_trie_match(&m->whole, rest, &id);
        if (rest.size == 0) {
            rest.size = character_length(rest.bytes[0]);
            id = vocabulary_find(&m->pieces, rest);
        }
        if (id >= 0) {
            CHECK(pending ? push_symbol(m, w, m->unknown, out) : GRAIL_OK);
            pending = false;
            CHECK(push_symbol(m, w, id, out));
        } else {
            CHECK(push_unknown(m, w, rest, &pending, out));
        }
        position += rest.size;
    }
    if (pending && !open) {
        CHECK(push_symbol(m, w, m->unknown, out));
    }
    return open ? GRAIL_OK : flush(m, w, out);
}

void bpe_workspace_fini(bpe_workspace *w)
{
    memory_free(w->symbols);
    memory_free(w->heap);
    *w = (bpe_workspace){0};
}
