/* Writes the tokenizer of a directory as keys of a GGUF file, as llama.cpp's converter does: tokens
 * by id, their types, merges or scores, and the ids that tokenizer_config.json and config.json
 * name.
 *
 * Source: gguf-py's SpecialVocab, and get_vocab_base of the conversion scripts. */
#include "base/file.h"
#include "base/json.h"
#include "format/gguf/gguf_write.h"
#include "format/text/chat_template.h"
#include "format/text/tokenizer_gguf_pieces.h"

#include <stdio.h>
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

static void documents_fini(documents *d)
{
    json_decref(d->tokenizer);
    json_decref(d->settings);
    json_decref(d->config);
    memory_free(d->texts);
    memory_free(d->types);
    memory_free(d->scores);
}

typedef grail_status (*document_reader)(const char *path, size_t maximum, json_t **out);

static grail_status read_document(const char *directory, const char *name, document_reader read,
                                  json_t **out)
{
    char *path = NULL;
    CHECK(path_find(&path, directory, name));
    const grail_status status = path == NULL ? GRAIL_OK : read(path, TOKENIZER_LARGEST_FILE, out);
    memory_free(path);
    return status;
}

static grail_status read_documents(const char *directory, documents *d)
{
    CHECK(read_document(directory, "tokenizer.json", json_read_file, &d->tokenizer));
    if (d->tokenizer == NULL) {
        CHECK(tokenizer_document_of_merges(directory, &d->tokenizer));
    }
    CHECK(read_document(directory, "tokenizer_config.json", json_read_file_of_reals, &d->settings));
    return read_document(directory, "config.json", json_read_file, &d->config);
}

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

/* As the converter: tokens that only look special count as such. */
static bool is_special(const char *text, const json_t *token)
{
    const size_t length = strlen(text);
    return json_is_true(json_object_get(token, "special")) ||
           (length > 4 && strncmp(text, "<|", 2) == 0 && strcmp(text + length - 2, "|>") == 0);
}

static int64_t id_in(const json_t *id)
{
    return json_is_integer(id) ? (int64_t)json_integer_value(id) : -1;
}

static grail_status collect_stated(documents *d)
{
    const char *text = NULL;
    json_t *id = NULL;
    size_t i = 0;
    json_t *token = NULL;
    json_object_foreach (json_object_get(json_object_get(d->tokenizer, "model"), "vocab"), text,
                         id) {
        CHECK(place(d, text, id_in(id), TOKEN_NORMAL));
    }
    json_array_foreach (json_object_get(d->tokenizer, "added_tokens"), i, token) {
        text = json_string_value(json_object_get(token, "content"));
        const int type =
            text != NULL && is_special(text, token) ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
        CHECK(place(d, text, id_in(json_object_get(token, "id")), type));
    }
    return GRAIL_OK;
}

static grail_status collect(documents *d, const tokenizer *t, int64_t count)
{
    d->count = count;
    CHECK(memory_new(&d->texts, (size_t)count, sizeof(d->texts[0])));
    CHECK(memory_new(&d->types, (size_t)count, sizeof d->types[0]));
    for (int64_t i = 0; i < count; i++) {
        d->types[i] = TOKEN_UNUSED;
    }
    CHECK(collect_stated(d));
    if (is_of_pieces(d)) {
        CHECK(memory_new(&d->scores, (size_t)count, sizeof d->scores[0]));
        pieces_mark(t, d->types, count);
        CHECK(pieces_score(t, d->texts, d->types, count, d->scores));
    }
    return GRAIL_OK;
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

static grail_status put_scores(const documents *d, gguf_pairs *out)
{
    CHECK(gguf_put_array(out, KEY("scores"), GGUF_F32, (uint64_t)d->count));
    for (int64_t i = 0; i < d->count; i++) {
        CHECK(gguf_append_real(out, (double)d->scores[i]));
    }
    return GRAIL_OK;
}

/* "a b", also where the file has a pair. */
static grail_status put_merge(const json_t *merge, gguf_pairs *out)
{
    grail_status status = GRAIL_OK;
    char *joined = NULL;
    const char *text = json_string_value(merge);
    const char *left = json_string_value(json_array_get(merge, 0));
    const char *right = json_string_value(json_array_get(merge, 1));
    if (text == NULL && (left == NULL || right == NULL || strchr(left, ' ') != NULL ||
                         strchr(right, ' ') != NULL)) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "tokenizer.json: a merge is no pair of pieces, or a piece holds a space");
    }
    if (text == NULL) {
        TRY(memory_format(&joined, "%s %s", left, right));
        text = joined;
    }
    TRY(gguf_append_text(out, text, strlen(text)));
out:
    memory_free(joined);
    return status;
}

static grail_status put_merges(const documents *d, gguf_pairs *out)
{
    const json_t *merges = json_object_get(json_object_get(d->tokenizer, "model"), "merges");
    CHECK(gguf_put_array(out, KEY("merges"), GGUF_TEXT, json_array_size(merges)));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        CHECK(put_merge(json_array_get(merges, i), out));
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

static grail_status put_ids(const documents *d, const tokenizer *t, gguf_pairs *out)
{
    static const struct {
        const char *kind, *key;
    } ids[] = {{"bos", KEY("bos_token_id")},
               {"eos", KEY("eos_token_id")},
               {"unk", KEY("unknown_token_id")},
               {"pad", KEY("padding_token_id")}};
    const int64_t own[] = {tokenizer_bos(t), -1, d->scores == NULL ? -1 : t->model.unknown, -1};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        const int64_t stated = id_of(d, ids[i].kind);
        const int64_t id = stated < 0 ? own[i] : stated;
        if (id >= 0 && id < d->count) {
            CHECK(gguf_put_integer(out, ids[i].key, GGUF_U32, id));
        }
    }
    return GRAIL_OK;
}

static grail_status put_chat(const char *directory, gguf_pairs *out)
{
    grail_status status = GRAIL_OK;
    char *text = NULL;
    char *place = NULL;
    TRY(chat_template_find(directory, &text, &place));
    if (text != NULL) {
        TRY(gguf_put_text(out, "tokenizer.chat_template", text));
    }
out:
    memory_free(text);
    memory_free(place);
    return status;
}

/* -- all --------------------------------------------------------------------------------------- */

static grail_status put_bytes(const documents *d, const byte_tokenizer known[], int count,
                              gguf_pairs *out)
{
    const byte_tokenizer *how = NULL;
    CHECK(find_name(d, known, count, &how));
    CHECK(gguf_put_text(out, KEY("pre"), how->name));
    CHECK(put_tokens(d, out));
    return put_merges(d, out);
}

static grail_status put_pieces(const documents *d, const tokenizer *t, gguf_pairs *out)
{
    bool prefix = false;
    CHECK(pieces_check_steps(t, &prefix));
    CHECK(gguf_put_text(out, KEY("pre"), "default"));
    CHECK(put_tokens(d, out));
    CHECK(put_scores(d, out));
    CHECK(gguf_put_boolean(out, KEY("add_eos_token"), t->after.count > 0));
    return gguf_put_boolean(out, KEY("add_space_prefix"), prefix);
}

grail_status tokenizer_write_gguf(const char *directory, const byte_tokenizer known[], int count,
                                  int64_t vocabulary_size, bool *of_pieces, gguf_pairs *out)
{
    grail_status status = GRAIL_OK;
    tokenizer *t = NULL;
    documents d = {0};
    TRY(tokenizer_open(directory, &t));
    TRY(read_documents(directory, &d));
    *of_pieces = is_of_pieces(&d);
    TRY(error_in(collect(&d, t, vocabulary_size), "%s", directory));
    status = error_in(*of_pieces ? put_pieces(&d, t, out) : put_bytes(&d, known, count, out), "%s",
                      directory);
    if (status == GRAIL_ERROR_UNSUPPORTED) {
        error_append("; use the converter that comes with the runtime");
    }
    TRY(status);
    TRY(put_ids(&d, t, out));
    TRY(gguf_put_boolean(out, KEY("add_bos_token"), tokenizer_bos(t) >= 0));
    TRY(put_chat(directory, out));
out:
    tokenizer_close(t);
    documents_fini(&d);
    return status;
}
