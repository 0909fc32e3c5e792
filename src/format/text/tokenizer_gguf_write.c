/* Writes the tokenizer of a directory as keys of a GGUF file, as llama.cpp's converter does: tokens
 * by id, their types, merges or scores, and the ids that tokenizer_config.json and config.json
 * name.
 *
 * Source: gguf-py's SpecialVocab, and get_vocab_base of the conversion scripts. */
#include "base/file.h"
#include "base/json.h"
#include "format/gguf/gguf_write.h"
#include "format/text/chat_template.h"
#include "format/text/tokenizer_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name

/* -- reading ----------------------------------------------------------------------------------- */

typedef struct documents {
    json_t *tokenizer;  /* tokenizer.json, or what the merges say */
    json_t *settings;   /* tokenizer_config.json, or NULL */
    json_t *config;     /* config.json, or NULL */
    const char **texts; /* [count]: tokens by id, borrowed; NULL: a hole */
    int *types;         /* [count] */
    float *scores;      /* [count]; NULL for byte-level BPE */
    int64_t count;
} documents;

/* -- the pre-tokenizer ------------------------------------------------------------------------- */

/* Whether `found` states what `wanted` does; what it states beyond that must not change words. */
static bool states(json_t *found, json_t *wanted)
{
    static const char *const idle[] = {"trim_offsets", "invert"};
    const char *key = NULL;
    json_t *value = NULL;
    if (json_is_array(wanted)) {
        bool same = json_array_size(found) == json_array_size(wanted);
        for (size_t i = 0; same && i < json_array_size(wanted); i++) {
            same = states(json_array_get(found, i), json_array_get(wanted, i));
        }
        return same;
    }
    if (!json_is_object(wanted)) {
        return json_equal(found, wanted) != 0;
    }
    json_object_foreach (wanted, key, value) {
        if (!states(json_object_get(found, key), value)) {
            return false;
        }
    }
    json_object_foreach (found, key, value) {
        const bool is_idle =
            strcmp(key, idle[0]) == 0 || (strcmp(key, idle[1]) == 0 && json_is_false(value));
        if (!is_idle && json_object_get(wanted, key) == NULL) {
            return false;
        }
    }
    return json_is_object(found);
}

static bool composes(const documents *d)
{
    const json_t *normalizer = json_object_get(d->tokenizer, "normalizer");
    const char *type = json_string_value(json_object_get(normalizer, "type"));
    return type != NULL && strcmp(type, "NFC") == 0;
}

/* What was converted from SentencePiece's model. */
static bool is_of_pieces(const documents *d)
{
    const json_t *model = json_object_get(d->tokenizer, "model");
    return json_is_true(json_object_get(model, "byte_fallback"));
}

static grail_status find_name(const documents *d, const byte_tokenizer known[], int count,
                              const byte_tokenizer **out)
{
    json_t *found = json_object_get(d->tokenizer, "pre_tokenizer");
    const json_t *normalizer = json_object_get(d->tokenizer, "normalizer");
    const bool plain = normalizer == NULL || json_is_null(normalizer) || composes(d);
    *out = NULL;
    for (int i = 0; i < count && plain && *out == NULL; i++) {
        json_t *wanted = NULL;
        CHECK(json_parse(known[i].name, known[i].steps, strlen(known[i].steps), &wanted));
        if (known[i].composes == composes(d) && states(found, wanted)) {
            *out = &known[i];
        }
        json_decref(wanted);
    }
    if (*out == NULL) {
        const grail_status status =
            error_set(GRAIL_ERROR_UNSUPPORTED,
                      "tokenizer.json: GGUF files have names for pre-tokenizers, and grail knows "
                      "none for this one. Known are");
        for (int i = 0; i < count; i++) {
            error_append("%s %s", i == 0 ? "" : ",", known[i].name);
        }
        return status;
    }
    return GRAIL_OK;
}

/* -- tokens ------------------------------------------------------------------------------------ */

static grail_status place(documents *d, const char *text, int64_t at, int type)
{
    if (text == NULL || at < 0 || at >= d->count) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "its token '%s' has id %lld, but the network has %lld tokens; is it the "
                         "tokenizer of this network?",
                         text == NULL ? "" : text, (long long)at, (long long)d->count);
    }
    d->texts[at] = text;
    d->types[at] = type;
    return GRAIL_OK;
}

static int64_t id_in(const json_t *id)
{
    return json_is_integer(id) ? (int64_t)json_integer_value(id) : -1;
}

static grail_status put_tokens(const documents *d, gguf_pairs *out)
{
    CHECK(gguf_put_array(out, KEY("tokens"), GGUF_TEXT, (uint64_t)d->count));
    for (int64_t i = 0; i < d->count; i++) {
        char hole[32];
        snprintf(hole, sizeof hole, "[PAD%lld]", (long long)i);
        const char *text = d->texts[i] == NULL ? hole : d->texts[i];
        CHECK(gguf_append_text(out, text, strlen(text)));
    }
    CHECK(gguf_put_array(out, KEY("token_type"), GGUF_I32, (uint64_t)d->count));
    for (int64_t i = 0; i < d->count; i++) {
        CHECK(gguf_append_integer(out, GGUF_I32, d->types[i]));
    }
    return GRAIL_OK;
}

/* "a b", also where the file has a pair. */
static grail_status put_merges(const documents *d, gguf_pairs *out)
{
    const json_t *merges = json_object_get(json_object_get(d->tokenizer, "model"), "merges");
    CHECK(gguf_put_array(out, KEY("merges"), GGUF_TEXT, json_array_size(merges)));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *merge = json_array_get(merges, i);
        const char *text = json_string_value(merge);
        const char *left = json_string_value(json_array_get(merge, 0));
        const char *right = json_string_value(json_array_get(merge, 1));
        if (text == NULL && (left == NULL || right == NULL || strchr(left, ' ') != NULL ||
                             strchr(right, ' ') != NULL)) {
            return error_set(GRAIL_ERROR_UNSUPPORTED, "tokenizer.json: a merge is no pair of "
                                                      "pieces, or a piece holds a space");
        }
        char *joined = NULL;
        CHECK(text != NULL ? GRAIL_OK : memory_format(&joined, "%s %s", left, right));
        text = text == NULL ? joined : text;
        const grail_status status = gguf_append_text(out, text, strlen(text));
        memory_free(joined);
        CHECK(status);
    }
    return GRAIL_OK;
}

/* -- pieces with scores. A tokenizer.json states merges in their order, a kind "llama" merges the
 * neighbours whose piece has the highest score (llama.cpp, llm_tokenizer_spm). Both are the same
 * where every way to cut a piece into two pieces is a merge, and all of one piece come before all
 * of the next. */

#define MARK "\xe2\x96\x81" /* what spaces become */

/* *prefix <- whether a space is put before a text. GRAIL_ERROR_UNSUPPORTED where the steps before
 * the merges, [Prepend,] Replace or Metaspace, or what becomes of unknown characters, are other
 * than that kind's. */
static grail_status check_steps(const tokenizer *t, bool *prefix)
{
    const step_list *n = &t->normalizer;
    const step_list *p = &t->pretokenizer;
    bool is_usual = p->count == 1 && p->steps[0].kind == PRETOKENIZE_METASPACE &&
                    strcmp(p->steps[0].content, MARK) == 0;
    *prefix = p->count == 1 && p->steps[0].scheme != PREPEND_NEVER;
    if (n->count > 0) {
        const text_step *s = &n->steps[n->count - 1];
        *prefix = n->count == 2;
        is_usual = p->count == 0 && n->count <= 2 && s->kind == NORMALIZE_REPLACE &&
                   s->pattern.string != NULL && s->pattern.size == 1 &&
                   s->pattern.string[0] == ' ' && strcmp(s->content, MARK) == 0 &&
                   (n->count == 1 || (n->steps[0].kind == NORMALIZE_PREPEND &&
                                      strcmp(n->steps[0].content, MARK) == 0));
    }
    if (!is_usual) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "its tokenizer changes a text in another way than GGUF files can say: "
                         "spaces must become '" MARK "', with or without one before the text, and "
                         "nothing else may be changed or split");
    }
    bool all = t->model.byte_fallback && t->model.unknown >= 0;
    for (int i = 0; i < 256; i++) {
        all = all && t->model.bytes[i] >= 0;
    }
    return all ? GRAIL_OK
               : error_set(
                     GRAIL_ERROR_UNSUPPORTED,
                     "its tokenizer lacks an unknown piece or pieces for all bytes, <0x00> to "
                     "<0xFF>, which readers of GGUF files put in place of unknown characters");
}

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

/* Makes the scores such that merging the neighbours whose piece has the highest one is what the
 * merges of `t` say. GRAIL_ERROR_UNSUPPORTED where there are none. */
static grail_status score_pieces(const tokenizer *t, const documents *d)
{
    grail_status status = GRAIL_OK;
    sentence_model m = {0};
    const pair_table *own = &t->model.merges;
    tokenizer *made = NULL;
    rank_range *ranges = NULL;
    const size_t count = (size_t)d->count;
    /* A tokenizer of these pieces with every merge that scores can lead to. */
    for (int64_t i = 0; i < d->count; i++) {
        const char *text = d->texts[i] == NULL ? "unused" : d->texts[i];
        TRY(sentence_model_add(
            &m, (sentence_piece){.text = span_of_string(text), .type = (uint64_t)d->types[i]}));
    }
    TRY(tokenizer_new("pieces", "", 0, &made));
    TRY(tokenizer_read_pieces(&m, made));
    const pair_table *all = &made->model.merges;
    TRY(memory_new(&ranges, count, sizeof ranges[0]));
    for (size_t i = 0; i < count; i++) {
        ranges[i] = (rank_range){-1, -1};
    }
    TRY(own->slots.used == all->slots.used ? GRAIL_OK : refuse_merges());
    for (size_t i = 0; i < all->slots.used; i++) {
        const pair_entry *one = &all->entries[i];
        const pair_entry *stated = pair_table_find(own, one->left, one->right);
        if (stated == NULL || stated->result != one->result) {
            TRY(refuse_merges());
        }
        rank_range *r = &ranges[one->result];
        r->first = r->first < 0 || stated->rank < r->first ? stated->rank : r->first;
        r->last = stated->rank > r->last ? stated->rank : r->last;
    }
    for (size_t i = 0; i < count; i++) { /* a piece that nothing makes is below all */
        const int64_t place = ranges[i].first < 0 ? (int64_t)own->slots.used : ranges[i].first;
        d->scores[i] = -(float)place;
    }
    qsort(ranges, count, sizeof ranges[0], compare_ranges);
    for (size_t i = 1; i < count; i++) { /* no piece has a merge between those of another */
        if (ranges[i].first < ranges[i - 1].last) {
            TRY(refuse_merges());
        }
    }
out:
    memory_free(m.pieces);
    memory_free(ranges);
    tokenizer_close(made);
    return status;
}

static void mark(documents *d, int32_t id, int type)
{
    if (id >= 0 && id < d->count) {
        d->types[id] = type;
    }
}

static grail_status collect(documents *d, const tokenizer *t, int64_t count)
{
    json_t *vocab = json_object_get(json_object_get(d->tokenizer, "model"), "vocab");
    const char *text = NULL;
    json_t *token = NULL;
    size_t index = 0;
    d->count = count;
    CHECK(memory_new(&d->texts, (size_t)count, sizeof(d->texts[0])));
    CHECK(memory_new(&d->types, (size_t)count, sizeof d->types[0]));
    for (int64_t i = 0; i < count; i++) {
        d->types[i] = TOKEN_UNUSED;
    }
    json_object_foreach (vocab, text, token) {
        CHECK(place(d, text, id_in(token), TOKEN_NORMAL));
    }
    json_array_foreach (json_object_get(d->tokenizer, "added_tokens"), index, token) {
        text = json_string_value(json_object_get(token, "content"));
        const size_t length = text == NULL ? 0 : strlen(text);
        /* as the converter: tokens that only look special count as such */
        const bool special =
            text != NULL &&
            (json_is_true(json_object_get(token, "special")) ||
             (length > 4 && strncmp(text, "<|", 2) == 0 && strcmp(text + length - 2, "|>") == 0));
        CHECK(place(d, text, id_in(json_object_get(token, "id")),
                    special ? TOKEN_CONTROL : TOKEN_USER_DEFINED));
    }
    if (is_of_pieces(d)) {
        CHECK(memory_new(&d->scores, (size_t)count, sizeof d->scores[0]));
        for (int i = 0; i < 256; i++) {
            mark(d, t->model.bytes[i], TOKEN_BYTE);
        }
        mark(d, t->model.unknown, TOKEN_UNKNOWN);
        CHECK(score_pieces(t, d));
    }
    return GRAIL_OK;
}

/* -- special ids ------------------------------------------------------------------------------- */

/* The id of a token whose text tokenizer_config.json names, else the one that config.json names. */
static int64_t id_of(const documents *d, const char *kind)
{
    char key[32];
    snprintf(key, sizeof key, "%s_token", kind);
    const json_t *token = json_object_get(d->settings, key);
    const char *text =
        json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
    for (int64_t i = 0; text != NULL && i < d->count; i++) {
        if (d->texts[i] != NULL && strcmp(d->texts[i], text) == 0) {
            return i;
        }
    }
    snprintf(key, sizeof key, "%s_token_id", kind);
    const json_t *stated = json_object_get(d->config, key);
    return json_is_integer(stated) ? (int64_t)json_integer_value(stated) : -1;
}

/* -- all --------------------------------------------------------------------------------------- */

static grail_status put_model(const documents *d, const tokenizer *t, const byte_tokenizer known[],
                              int count, gguf_pairs *out)
{
    const byte_tokenizer *how = NULL;
    bool prefix = false;
    if (d->scores == NULL) {
        CHECK(find_name(d, known, count, &how));
        CHECK(gguf_put_text(out, KEY("pre"), how->name));
        CHECK(put_tokens(d, out));
        return put_merges(d, out);
    }
    CHECK(check_steps(t, &prefix));
    CHECK(gguf_put_text(out, KEY("pre"), "default"));
    CHECK(put_tokens(d, out));
    CHECK(gguf_put_array(out, KEY("scores"), GGUF_F32, (uint64_t)d->count));
    for (int64_t i = 0; i < d->count; i++) {
        CHECK(gguf_append_real(out, (double)d->scores[i]));
    }
    CHECK(gguf_put_boolean(out, KEY("add_eos_token"), t->after.count > 0));
    return gguf_put_boolean(out, KEY("add_space_prefix"), prefix);
}

grail_status tokenizer_write_gguf(const char *directory, const byte_tokenizer known[], int count,
                                  int64_t vocabulary_size, bool *of_pieces, gguf_pairs *out)
{
    grail_status status = GRAIL_OK;
    tokenizer *t = NULL;
    documents d = {0};
    char *chat = NULL;
    char *place = NULL;
    const size_t largest = TOKENIZER_LARGEST_FILE;
    TRY(tokenizer_open(directory, &t));
    TRY(json_find_file(directory, "tokenizer.json", largest, json_read_file, &d.tokenizer));
    if (d.tokenizer == NULL) {
        TRY(tokenizer_document_of_merges(directory, &d.tokenizer));
    }
    TRY(json_find_file(directory, "tokenizer_config.json", largest, json_read_file_of_reals,
                       &d.settings));
    TRY(json_find_file(directory, "config.json", largest, json_read_file, &d.config));
    *of_pieces = is_of_pieces(&d);
    TRY(error_in(collect(&d, t, vocabulary_size), "%s", directory));
    status = error_in(put_model(&d, t, known, count, out), "%s", directory);
    if (status == GRAIL_ERROR_UNSUPPORTED) {
        error_append("; use the converter that comes with the runtime");
    }
    TRY(status);
    static const struct {
        const char *kind, *key;
    } ids[] = {{"bos", KEY("bos_token_id")},
               {"eos", KEY("eos_token_id")},
               {"unk", KEY("unknown_token_id")},
               {"pad", KEY("padding_token_id")}};
    const int64_t own[] = {tokenizer_bos(t), -1, d.scores == NULL ? -1 : t->model.unknown, -1};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        const int64_t stated = id_of(&d, ids[i].kind);
        const int64_t id = stated < 0 ? own[i] : stated;
        if (id >= 0 && id < d.count) {
            TRY(gguf_put_integer(out, ids[i].key, GGUF_U32, id));
        }
    }
    TRY(gguf_put_boolean(out, KEY("add_bos_token"), tokenizer_bos(t) >= 0));
    TRY(chat_template_find(directory, &chat, &place));
    if (chat != NULL) {
        TRY(gguf_put_text(out, "tokenizer.chat_template", chat));
    }
out:
    memory_free(chat);
    memory_free(place);
    tokenizer_close(t);
    json_decref(d.tokenizer);
    json_decref(d.settings);
    json_decref(d.config);
    memory_free(d.texts);
    memory_free(d.types);
    memory_free(d.scores);
    return status;
}
