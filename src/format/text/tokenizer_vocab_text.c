/* Reads a vocab.txt, BERT's tokenizer without a tokenizer.json: a piece on each line, whose ids are
 * the numbers of the lines. It is brought into the form of a tokenizer.json; what that would say
 * beside the pieces is in tokenizer_config.json. Source: BertTokenizer of Hugging Face
 * transformers. */
#include "base/json.h"
#include "base/utf8.h"
#include "format/text/tokenizer_internal.h"

#include <string.h>

/* The length of the line at `at`, without its end; *next is where the next one begins. */
static size_t line_at(text_span text, size_t at, size_t *next)
{
    const char *end = memchr(text.bytes + at, '\n', text.size - at);
    size_t length = end == NULL ? text.size - at : (size_t)(end - text.bytes) - at;
    *next = at + length + (end == NULL ? 0 : 1);
    return length > 0 && text.bytes[at + length - 1] == '\r' ? length - 1 : length;
}

static grail_status put_piece(const char *name, text_span line, int64_t id, json_t *vocab)
{
    grail_status status = GRAIL_OK;
    char *piece = NULL;
    if (memchr(line.bytes, 0, line.size) != NULL ||
        utf8_valid_prefix(line.bytes, line.size) != line.size) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: line %lld holds a NUL byte, or is no UTF-8", name,
             (long long)id + 1);
    }
    if (id > TOKEN_ID_MAX) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: has more than %d lines", name, TOKEN_ID_MAX + 1);
    }
    TRY(memory_format(&piece, "%.*s", (int)line.size, line.bytes));
    const json_t *other = json_object_get(vocab, piece);
    if (other != NULL) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: '%s' is on line %lld and again on line %lld", name, piece,
             (long long)json_integer_value(other) + 1, (long long)id + 1);
    }
    TRY(json_put_name(vocab, piece, json_integer(id)));
out:
    memory_free(piece);
    return status;
}

static grail_status put_pieces(const char *name, text_span text, json_t *vocab)
{
    int64_t id = 0;
    for (size_t at = 0; at < text.size;) {
        size_t next = 0;
        const size_t length = line_at(text, at, &next);
        CHECK(put_piece(name, (text_span){text.bytes + at, length}, id, vocab));
        at = next;
        id++;
    }
    return GRAIL_OK;
}

/* The name of a special token: a string, or the object of an added token. */
static const char *special_name(const json_t *configuration, const char *key, const char *usual)
{
    const json_t *value = json_object_get(configuration, key);
    const char *name =
        json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
    return name == NULL || name[0] == 0 ? usual : name;
}

static grail_status put_special(const char *name, const char *token, const char *frame,
                                json_t *root)
{
    const json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    const json_t *id = json_object_get(vocab, token);
    json_t *entry = json_object();
    if (id == NULL) {
        json_decref(entry);
        return error_set(GRAIL_ERROR_FORMAT, "%s: lacks the special token '%s'", name, token);
    }
    CHECK(json_push(json_object_get(root, "added_tokens"), entry));
    CHECK(json_put(entry, "id", json_integer(json_integer_value(id))));
    CHECK(json_put(entry, "content", json_text(token)));
    if (frame == NULL) {
        return GRAIL_OK;
    }
    json_t *pair = json_array();
    CHECK(json_put(json_object_get(root, "post_processor"), frame, pair));
    CHECK(json_push(pair, json_text(token)));
    return json_push(pair, json_integer(json_integer_value(id)));
}

/* Those that text may hold, or that are put around it. */
static grail_status put_specials(const char *name, const json_t *configuration, json_t *root)
{
    static const struct {
        const char *key, *usual, *frame;
    } specials[] = {{"pad_token", "[PAD]", NULL},
                    {"unk_token", "[UNK]", NULL},
                    {"cls_token", "[CLS]", "cls"},
                    {"sep_token", "[SEP]", "sep"},
                    {"mask_token", "[MASK]", NULL}};
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) {
        const char *token = special_name(configuration, specials[i].key, specials[i].usual);
        CHECK(put_special(name, token, specials[i].frame, root));
    }
    return GRAIL_OK;
}

static grail_status new_document(const char *name, const json_t *configuration, json_t *root)
{
    bool lower = true;
    bool apart = true;
    const json_t *strips = json_object_get(configuration, "strip_accents");
    const char *unknown = special_name(configuration, "unk_token", "[UNK]");
    CHECK(json_get_boolean(name, configuration, "do_lower_case", true, &lower));
    CHECK(json_get_boolean(name, configuration, "tokenize_chinese_chars", true, &apart));
    CHECK(json_put(root, "model",
                   json_pack("{s:o, s:o, s:{}}", "type", json_text("WordPiece"), "unk_token",
                             json_text(unknown), "vocab")));
    CHECK(json_put(
        root, "normalizer",
        json_pack("{s:o, s:b, s:b, s:o}", "type", json_text("BertNormalizer"), "lowercase", lower,
                  "handle_chinese_chars", apart, "strip_accents",
                  json_is_boolean(strips) ? json_boolean(json_is_true(strips)) : json_null())));
    CHECK(
        json_put(root, "pre_tokenizer", json_pack("{s:o}", "type", json_text("BertPreTokenizer"))));
    CHECK(
        json_put(root, "post_processor", json_pack("{s:o}", "type", json_text("BertProcessing"))));
    return json_put(root, "added_tokens", json_array());
}

grail_status tokenizer_from_vocabulary(const char *name, const void *bytes, size_t size,
                                       const json_t *configuration, tokenizer **out)
{
    grail_status status = GRAIL_OK;
    tokenizer *t = NULL;
    json_t *root = json_object();
    const text_span text = {size == 0 ? "" : bytes, size};
    if (root == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "%s: out of memory", name);
    }
    TRY(new_document(name, configuration, root));
    TRY(put_pieces(name, text, json_object_get(json_object_get(root, "model"), "vocab")));
    TRY(put_specials(name, configuration, root));
    TRY(tokenizer_new(name, bytes, size, &t));
    TRY(tokenizer_read_document(name, root, t));
    *out = t;
    t = NULL;
out:
    tokenizer_close(t);
    json_decref(root);
    return status;
}
