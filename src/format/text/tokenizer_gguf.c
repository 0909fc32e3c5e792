/* The tokenizer inside a GGUF file. Byte-level BPE is put into the form of a tokenizer.json, and
 * pieces with scores into that of a SentencePiece model.
 *
 * Sources: llama.cpp's pieces and its conversion scripts (keys, and what they are without a
 * value); the patterns are those of the tokenizers that the names of pre-tokenizers stand for. */
#include "base/json.h"
#include "base/utf8.h"
#include "format/gguf/gguf.h"
#include "format/text/tokenizer_internal.h"

#include <string.h>

#define KEY(name) "tokenizer.ggml." name

/* -- tokens ------------------------------------------------------------------------------------ */

static grail_status find_texts(const gguf_metadata *m, const char *key, const gguf_value **out)
{
    *out = gguf_find(m, key);
    return *out != NULL && (*out)->is_array && (*out)->type == GGUF_TEXT
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_FORMAT, "key '%s' is missing, or no array of texts", key);
}

static grail_status find_tokens(const gguf_metadata *m, const gguf_value **out)
{
    CHECK(find_texts(m, KEY("tokens"), out));
    return (*out)->count <= (uint64_t)TOKEN_ID_MAX + 1
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_FORMAT, "has %llu tokens, more than the allowed %d",
                           (unsigned long long)(*out)->count, TOKEN_ID_MAX + 1);
}

/* An array with a number for each token; NULL without it. */
static grail_status find_numbers(const gguf_metadata *m, const char *key, const gguf_value *tokens,
                                 const gguf_value **out)
{
    *out = gguf_find(m, key);
    if (*out != NULL && (!(*out)->is_array || (*out)->count != tokens->count)) {
        return error_set(GRAIL_ERROR_FORMAT, "key '%s' has %llu elements for %llu tokens", key,
                         (unsigned long long)(*out)->count, (unsigned long long)tokens->count);
    }
    return GRAIL_OK;
}

static grail_status token_type(const gguf_value *types, uint64_t id, int64_t *out)
{
    *out = TOKEN_NORMAL;
    return types == NULL ? GRAIL_OK : gguf_integer_at(types, id, out);
}

/* A text as JSON. Byte-level tokens are UTF-8 without NUL bytes. */
static grail_status text_of(const char *bytes, size_t size, json_t **out)
{
    if (memchr(bytes, 0, size) != NULL || utf8_valid_prefix(bytes, size) != size) {
        return error_set(GRAIL_ERROR_FORMAT, "a token or merge holds a NUL byte, or is no UTF-8");
    }
    *out = json_stringn_nocheck(bytes, size);
    return *out == NULL ? error_set(GRAIL_ERROR_MEMORY, "out of memory while reading tokens")
                        : GRAIL_OK;
}

/* -- the form of tokenizer.json ---------------------------------------------------------------- */

/* Control and user-defined tokens are matched before anything else. */
static grail_status add_token(json_t *pieces, json_t *added, json_t *content, uint64_t id,
                              int64_t type)
{
    const char *text = json_string_value(content);
    if (type == TOKEN_CONTROL || type == TOKEN_USER_DEFINED) {
        json_t *object = json_object();
        CHECK(json_push(added, object));
        CHECK(json_put(object, "id", json_integer((json_int_t)id)));
        return json_put(object, "content", json_incref(content));
    }
    if (type == TOKEN_UNUSED) {
        return GRAIL_OK;
    }
    if (json_object_get(pieces, text) != NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "token '%s' has two ids", text);
    }
    return json_put(pieces, text, json_integer((json_int_t)id));
}

static grail_status put_tokens(const gguf_metadata *m, json_t *pieces, json_t *added)
{
    grail_status status = GRAIL_OK;
    const gguf_value *tokens = NULL;
    const gguf_value *types = NULL;
    const char *bytes = NULL;
    size_t size = 0;
    json_t *content = NULL;
    TRY(find_tokens(m, &tokens));
    TRY(find_numbers(m, KEY("token_type"), tokens, &types));
    gguf_walk walk = {.value = tokens};
    for (uint64_t id = 0; gguf_walk_next(&walk, &bytes, &size); id++) {
        int64_t type = TOKEN_NORMAL;
        TRY(token_type(types, id, &type));
        json_decref(content);
        content = NULL;
        TRY(text_of(bytes, size, &content));
        TRY(add_token(pieces, added, content, id, type));
    }
out:
    json_decref(content);
    return status;
}

/* -- ids around a text ------------------------------------------------------------------------- */

/* The id that the key names, if the flag says that it is added; -1 otherwise. */
static grail_status find_added(const gguf_metadata *m, const char *flag, bool usually,
                               const char *key, int64_t usual_id, int64_t *out)
{
    bool adds = false;
    int64_t id = -1;
    CHECK(gguf_get_boolean(m, flag, usually, &adds));
    CHECK(gguf_get_integer(m, key, usual_id, &id));
    if (adds && (id < -1 || id > TOKEN_ID_MAX)) {
        return error_set(GRAIL_ERROR_FORMAT, "key '%s' is %lld, expected an id of a token", key,
                         (long long)id);
    }
    *out = adds ? id : -1;
    return GRAIL_OK;
}

static grail_status put_around(const gguf_metadata *m, bool adds_bos, int64_t bos, int64_t eos,
                               tokenizer *t)
{
    int64_t before = -1;
    int64_t after = -1;
    CHECK(find_added(m, KEY("add_bos_token"), adds_bos, KEY("bos_token_id"), bos, &before));
    CHECK(find_added(m, KEY("add_eos_token"), false, KEY("eos_token_id"), eos, &after));
    t->before.count = 0;
    if (before >= 0) {
        CHECK(token_list_push(&t->before, (int32_t)before));
    }
    return after < 0 ? GRAIL_OK : token_list_push(&t->after, (int32_t)after);
}

/* -- both kinds -------------------------------------------------------------------------------- */

static grail_status read_pieces(const gguf_metadata *m, tokenizer *t)
{
    enum { USUAL_BOS = 1, USUAL_EOS = 2 };
    grail_status status = GRAIL_OK;
    sentence_model model = {0};
    const gguf_value *tokens = NULL;
    const gguf_value *scores = NULL;
    const gguf_value *types = NULL;
    text_span text = {0};
    TRY(gguf_get_boolean(m, KEY("add_space_prefix"), true, &model.rules.add_dummy_prefix));
    TRY(gguf_get_boolean(m, KEY("remove_extra_whitespaces"), false,
                         &model.rules.remove_extra_whitespaces));
    TRY(find_tokens(m, &tokens));
    TRY(find_numbers(m, KEY("scores"), tokens, &scores));
    TRY(find_numbers(m, KEY("token_type"), tokens, &types));
    if (scores == NULL) {
        FAIL(GRAIL_ERROR_FORMAT, "key '" KEY("scores") "' is missing");
    }
    gguf_walk walk = {.value = tokens};
    for (uint64_t id = 0; gguf_walk_next(&walk, &text.bytes, &text.size); id++) {
        double score = 0.0;
        int64_t type = TOKEN_NORMAL;
        TRY(gguf_real_at(scores, id, &score));
        TRY(token_type(types, id, &type));
        TRY(sentence_model_add(
            &model, (sentence_piece){.text = text, .score = (float)score, .type = (uint64_t)type}));
    }
    TRY(tokenizer_read_pieces(&model, t));
    TRY(put_around(m, true, USUAL_BOS, USUAL_EOS, t));
out:
    memory_free(model.pieces);
    return status;
}

static grail_status read_bytes(const gguf_metadata *m, const byte_tokenizer *how, tokenizer *t)
{
    grail_status status = GRAIL_OK;
    json_t *root = json_object();
    json_t *steps = NULL;
    json_t *model = json_object();
    TRY(json_put(root, "model", model));
    json_t *added = json_array();
    TRY(json_put(root, "added_tokens", added));
    json_t *pieces = json_object();
    TRY(json_put(model, "vocab", pieces));
    json_t *merges = json_array();
    TRY(json_put(model, "merges", merges));
    TRY(json_put(model, "type", json_text("BPE")));
    TRY(json_put(model, "ignore_merges", json_boolean(how->whole_words)));
    TRY(put_tokens(m, pieces, added));
    const gguf_value *value = NULL;
    const char *bytes = NULL;
    size_t size = 0;
    TRY(find_texts(m, KEY("merges"), &value));
    gguf_walk walk = {.value = value};
    while (gguf_walk_next(&walk, &bytes, &size)) {
        json_t *merge = NULL;
        TRY(text_of(bytes, size, &merge));
        TRY(json_push(merges, merge));
    }
    TRY(json_parse("pre-tokenizer", how->steps, strlen(how->steps), &steps));
    TRY(json_put(root, "pre_tokenizer", steps));
    TRY(how->composes ? json_put(root, "normalizer", json_pack("{s:o}", "type", json_text("NFC")))
                      : GRAIL_OK);
    TRY(tokenizer_read_document("its tokenizer", root, t));
    TRY(put_around(m, how->adds_bos, -1, -1, t));
out:
    json_decref(root);
    return status;
}

grail_status tokenizer_from_gguf(const char *name, const gguf_metadata *m,
                                 const byte_tokenizer *how, tokenizer **out)
{
    grail_status status = GRAIL_OK;
    tokenizer *t = NULL;
    hash_state state;
    TRY(tokenizer_new(name, "", 0, &t));
    /* what the ids follow from: all keys of the tokenizer, but for the template of chats */
    hash_begin(&state);
    for (int64_t i = 0; i < m->count; i++) {
        const gguf_value *value = &m->values[i];
        if (strncmp(value->key, KEY(""), strlen(KEY(""))) == 0) {
            hash_add(&state, value->key, strlen(value->key));
            hash_add(&state, value->bytes, value->size);
        }
    }
    hash_end(&state, t->hash);
    TRY(error_in(how == NULL ? read_pieces(m, t) : read_bytes(m, how, t), "%s", name));
    *out = t;
    t = NULL;
out:
    tokenizer_close(t);
    return status;
}
