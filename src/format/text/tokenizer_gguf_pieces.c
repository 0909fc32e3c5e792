/* A tokenizer.json states merges in their order, a kind "llama" merges the neighbours whose piece
 * has the highest score (llama.cpp, llm_tokenizer_spm). Both are the same where every way to cut a
 * piece into two pieces is a merge, and all of one piece come before all of the next. */
#include "format/text/tokenizer_gguf_pieces.h"

#include <stdlib.h>
#include <string.h>

#define MARK "\xe2\x96\x81" /* what spaces become */

/* -- steps ------------------------------------------------------------------------------------- */

static bool replaces_spaces(const text_step *s)
{
    return s->kind == NORMALIZE_REPLACE && s->pattern.string != NULL && s->pattern.size == 1 &&
           s->pattern.string[0] == ' ' && strcmp(s->content, MARK) == 0;
}

/* [Prepend,] Replace; or Metaspace. */
static bool has_usual_steps(const tokenizer *t, bool *prefix)
{
    const step_list *n = &t->normalizer;
    const step_list *p = &t->pretokenizer;
    if (n->count == 0) {
        *prefix = p->count == 1 && p->steps[0].scheme != PREPEND_NEVER;
        return p->count == 1 && p->steps[0].kind == PRETOKENIZE_METASPACE &&
               strcmp(p->steps[0].content, MARK) == 0;
    }
    *prefix = n->count == 2;
    return p->count == 0 && n->count <= 2 && replaces_spaces(&n->steps[n->count - 1]) &&
           (n->count == 1 ||
            (n->steps[0].kind == NORMALIZE_PREPEND && strcmp(n->steps[0].content, MARK) == 0));
}

static bool has_all_bytes(const bpe_model *m)
{
    bool all = m->byte_fallback && m->unknown >= 0;
    for (int i = 0; i < 256; i++) {
        all = all && m->bytes[i] >= 0;
    }
    return all;
}

grail_status pieces_check_steps(const tokenizer *t, bool *prefix)
{
    if (!has_usual_steps(t, prefix)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "its tokenizer changes a text in another way than GGUF files can say: "
                         "spaces must become '" MARK "', with or without one before the text, and "
                         "nothing else may be changed or split");
    }
    return has_all_bytes(&t->model)
               ? GRAIL_OK
               : error_set(
                     GRAIL_ERROR_UNSUPPORTED,
                     "its tokenizer lacks an unknown piece or pieces for all bytes, <0x00> to "
                     "<0xFF>, which readers of GGUF files put in place of unknown characters");
}

/* -- types ------------------------------------------------------------------------------------- */

static void mark(int32_t id, int type, int types[], int64_t count)
{
    if (id >= 0 && id < count) {
        types[id] = type;
    }
}

void pieces_mark(const tokenizer *t, int types[], int64_t count)
{
    for (int i = 0; i < 256; i++) {
        mark(t->model.bytes[i], TOKEN_BYTE, types, count);
    }
    mark(t->model.unknown, TOKEN_UNKNOWN, types, count);
}

/* -- scores ------------------------------------------------------------------------------------ */

/* The ranks of the merges that make a piece. */
typedef struct rank_range {
    int32_t first, last;
} rank_range;

static int compare_ranges(const void *a, const void *b)
{
    const rank_range *x = a;
    const rank_range *y = b;
    return x->first < y->first ? -1 : x->first > y->first ? 1 : 0;
}

static grail_status refuse_merges(void)
{
    return error_set(
        GRAIL_ERROR_UNSUPPORTED,
        "the merges of its tokenizer are not those of pieces with scores, which GGUF "
        "files hold; every way to cut a piece into two pieces must be a merge, and all "
        "merges of one piece must stand together");
}

/* A tokenizer of these pieces with every merge that scores can lead to. */
static grail_status make_all_merges(const char *const texts[], const int types[], int64_t count,
                                    tokenizer **out)
{
    grail_status status = GRAIL_OK;
    sentence_model m = {0};
    for (int64_t i = 0; i < count; i++) {
        const char *text = texts[i] == NULL ? "unused" : texts[i];
        TRY(sentence_model_add(
            &m, (sentence_piece){.text = span_of_string(text), .type = (uint64_t)types[i]}));
    }
    TRY(tokenizer_new("pieces", "", 0, out));
    TRY(tokenizer_read_pieces(&m, *out));
out:
    memory_free(m.pieces);
    return status;
}

static grail_status find_ranges(const pair_table *own, const pair_table *all, rank_range *ranges)
{
    if (own->slots.used != all->slots.used) {
        return refuse_merges();
    }
    for (int32_t i = 0; i < (int32_t)all->slots.used; i++) {
        const pair_entry *one = &all->entries[i];
        const pair_entry *stated = pair_table_find(own, one->left, one->right);
        if (stated == NULL || stated->result != one->result) {
            return refuse_merges();
        }
        rank_range *r = &ranges[one->result];
        r->first = r->first < 0 || stated->rank < r->first ? stated->rank : r->first;
        r->last = stated->rank > r->last ? stated->rank : r->last;
    }
    return GRAIL_OK;
}

/* No piece has a merge between those of another. */
static grail_status check_order(const rank_range *ranges, int64_t count)
{
    grail_status status = GRAIL_OK;
    rank_range *order = NULL;
    TRY(memory_new(&order, (size_t)count, sizeof order[0]));
    memcpy(order, ranges, (size_t)count * sizeof order[0]);
    qsort(order, (size_t)count, sizeof order[0], compare_ranges);
    for (int64_t i = 1; i < count; i++) {
        if (order[i].first < order[i - 1].last) {
            TRY(refuse_merges());
        }
    }
out:
    memory_free(order);
    return status;
}

grail_status pieces_score(const tokenizer *t, const char *const texts[], const int types[],
                          int64_t count, float scores[])
{
    grail_status status = GRAIL_OK;
    tokenizer *all = NULL;
    rank_range *ranges = NULL;
    TRY(make_all_merges(texts, types, count, &all));
    TRY(memory_new(&ranges, (size_t)count, sizeof ranges[0]));
    for (int64_t i = 0; i < count; i++) {
        ranges[i] = (rank_range){-1, -1};
    }
    TRY(find_ranges(&t->model.merges, &all->model.merges, ranges));
    TRY(check_order(ranges, count));
    for (int64_t i = 0; i < count; i++) { /* a piece that nothing makes is below all */
        const int64_t place =
            ranges[i].first < 0 ? (int64_t)t->model.merges.slots.used : (int64_t)ranges[i].first;
        scores[i] = -(float)place;
    }
out:
    memory_free(ranges);
    tokenizer_close(all);
    return status;
}
