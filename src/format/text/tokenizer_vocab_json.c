/* Reads vocab.json and merges.txt, byte-level BPE without a tokenizer.json, into the form of a
 * tokenizer.json. The class that tokenizer_config.json names says the rest: the pattern of words,
 * and which tokens are put around a text. Source: the classes of these names of Hugging Face
 * transformers, and AutoTokenizer for what a directory lacks. */
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "format/text/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

#define BYTES "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}"
#define SPLIT                                                                                      \
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": " \
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}|"             \
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}, "     \
    "\"behavior\": \"Isolated\", \"invert\": false}, {\"type\": \"ByteLevel\", "                   \
    "\"add_prefix_space\": false, \"use_regex\": false}]}"

typedef enum special_kind { BOS, EOS, UNK, SEP, PAD, CLS, MASK, SPECIALS } special_kind;

static const char *const special_keys[SPECIALS] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

typedef struct token_class {
    const char *name; /* without "Fast" */
    const char *steps;
    bool framed, composes;
    const char *usual[SPECIALS];
} token_class;

#define END "<|endoftext|>"
#define FRAMED                                                                                     \
    {                                                                                              \
        "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"                                   \
    }

static const token_class classes[] = {
    {.name = "GPT2Tokenizer", .steps = BYTES, .usual = {END, END, END}},
    {.name = "CodeGenTokenizer", .steps = BYTES, .usual = {END, END, END}},
    {.name = "Qwen2Tokenizer",
     .steps = SPLIT,
     .composes = true,
     .usual = {[EOS] = END, [UNK] = END, [PAD] = END}},
    {.name = "RobertaTokenizer", .steps = BYTES, .framed = true, .usual = FRAMED},
    {.name = "BartTokenizer", .steps = BYTES, .framed = true, .usual = FRAMED},
};
enum { CLASSES = sizeof classes / sizeof classes[0], PLAIN = 0, FRAMED_CLASS = 3 };

typedef struct merged_files {
    json_t *vocab, *settings, *specials, *added; /* the last three may be NULL */
    buffer merges;
    const token_class *how;
    json_t *root;
    json_t *ids;        /* of the added tokens by their texts */
    json_int_t next_id; /* of a token that no file gives an id */
} merged_files;

static const json_t *setting(const merged_files *f, const char *key)
{
    const json_t *value = json_object_get(f->specials, key);
    return value == NULL ? json_object_get(f->settings, key) : value;
}

/* Where no class is named, a vocabulary with a mask is framed. */
static grail_status choose_class(const char *name, merged_files *f)
{
    const char *class = json_string_value(json_object_get(f->settings, "tokenizer_class"));
    if (class == NULL) {
        f->how = &classes[json_object_get(f->vocab, "<mask>") == NULL ? PLAIN : FRAMED_CLASS];
        return GRAIL_OK;
    }
    for (int i = 0; i < CLASSES; i++) {
        const size_t length = strlen(classes[i].name);
        if (strncmp(class, classes[i].name, length) == 0 &&
            (class[length] == 0 || strcmp(class + length, "Fast") == 0)) {
            f->how = &classes[i];
            return GRAIL_OK;
        }
    }
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "%s: tokenizer_config.json names the class '%s', which grail does not know "
                     "with vocab.json and merges.txt; write a tokenizer.json with "
                     "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers",
                     name, class);
}

/* One merge on each line, behind a line with the version. */
static grail_status put_merges(const char *name, const buffer *text, json_t *merges)
{
    const char *at = (const char *)text->bytes;
    const char *end = at + text->size;
    const size_t valid = utf8_valid_prefix(at, text->size);
    if (valid != text->size) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: merges.txt is not UTF-8 at byte %zu", name,
                         valid);
    }
    while (at < end) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        const char *next = feed == NULL ? end : feed + 1;
        size_t size = (size_t)((feed == NULL ? end : feed) - at);
        size -= size > 0 && at[size - 1] == '\r' ? 1 : 0;
        if (size > 0 && !(size >= 8 && memcmp(at, "#version", 8) == 0)) {
            CHECK(json_push(merges, json_stringn_nocheck(at, size)));
        }
        at = next;
    }
    return GRAIL_OK;
}

/* An id that is too large is refused when the document is read. */
static void take_id(merged_files *f, json_int_t id)
{
    f->next_id = id >= f->next_id && id <= TOKEN_ID_MAX ? id + 1 : f->next_id;
}

/* `token` is the object of an added token, or NULL for one of the text `content`. */
static grail_status add_token(merged_files *f, const json_t *token, const char *content,
                              bool special, json_int_t id)
{
    if (json_object_get(f->ids, content) != NULL) {
        return GRAIL_OK;
    }
    json_t *entry = token == NULL ? json_object() : json_copy((json_t *)(uintptr_t)token);
    CHECK(json_push(json_object_get(f->root, "added_tokens"), entry));
    CHECK(json_put(entry, "content", json_stringn_nocheck(content, strlen(content))));
    if (special || token == NULL) {
        CHECK(json_put(entry, special ? "special" : "normalized", json_true()));
    }
    take_id(f, id);
    CHECK(json_put(f->ids, content, json_integer(id)));
    return json_put(entry, "id", json_integer(id));
}

static const char *text_of(const json_t *token)
{
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

static json_int_t id_of(const merged_files *f, const char *content)
{
    const json_t *piece = json_object_get(f->vocab, content);
    const json_t *id = piece != NULL ? piece : json_object_get(f->ids, content);
    return id == NULL ? f->next_id : json_integer_value(id);
}

static grail_status put_stated(const char *name, merged_files *f)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach (json_object_get(f->settings, "added_tokens_decoder"), key, value) {
        char *end = NULL;
        const long long id = strtoll(key, &end, 10);
        if (text_of(value) == NULL || end == key || *end != 0 || id < 0 || id > TOKEN_ID_MAX) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: tokenizer_config.json: \"added_tokens_decoder\" has '%s', "
                             "expected the id of a token with its \"content\"",
                             name, key);
        }
        CHECK(add_token(f, value, text_of(value), false, (json_int_t)id));
    }
    json_object_foreach (f->added, key, value) {
        if (!json_is_number(value)) {
            return error_set(GRAIL_ERROR_FORMAT, "%s: added_tokens.json: '%s' has no id", name,
                             key);
        }
        CHECK(add_token(f, NULL, key, false, (json_int_t)json_number_value(value)));
    }
    return GRAIL_OK;
}

/* The text of a special token, or NULL where there is none. */
static const char *special_of(const merged_files *f, special_kind kind)
{
    const json_t *value = setting(f, special_keys[kind]);
    return value == NULL ? f->how->usual[kind] : text_of(value);
}

static grail_status put_named(const merged_files *f, json_t *component, const char *key,
                              special_kind kind)
{
    const char *content = special_of(f, kind);
    json_t *pair = json_array();
    CHECK(json_put(component, key, pair));
    CHECK(json_push(pair, json_text(content == NULL ? "" : content)));
    return json_push(pair, json_integer(content == NULL ? -1 : id_of(f, content)));
}

/* A token of the template, where a setting asks for it and the class has it. */
static grail_status put_asked(const char *name, const merged_files *f, const char *flag,
                              special_kind kind, json_t *component)
{
    bool asked = false;
    const char *content = special_of(f, kind);
    CHECK(json_get_boolean(name, f->settings, flag, false, &asked));
    if (!asked || content == NULL) {
        return GRAIL_OK;
    }
    CHECK(json_push(json_object_get(component, "single"),
                    json_pack("{s:{s:o}}", "SpecialToken", "id", json_text(content))));
    return json_put(json_object_get(component, "special_tokens"), content,
                    json_pack("{s:[I]}", "ids", id_of(f, content)));
}

static grail_status put_all(const char *name, merged_files *f)
{
    const char *piece = NULL;
    json_t *id = NULL;
    json_t *model = json_object();
    f->root = json_object();
    f->ids = json_object();
    CHECK(json_put(f->root, "model", model));
    CHECK(json_put(model, "type", json_text("BPE")));
    CHECK(json_put(model, "vocab", json_incref(f->vocab)));
    CHECK(json_put(model, "merges", json_array()));
    CHECK(json_put(f->root, "added_tokens", json_array()));
    json_object_foreach (f->vocab, piece, id) {
        take_id(f, json_integer_value(id));
    }
    CHECK(put_merges(name, &f->merges, json_object_get(model, "merges")));
    CHECK(put_stated(name, f));
    /* The special tokens that have a text, and then the additional ones. */
    const json_t *more = setting(f, "additional_special_tokens");
    for (size_t i = 0; i < SPECIALS + json_array_size(more); i++) {
        const json_t *token =
            i < SPECIALS ? setting(f, special_keys[i]) : json_array_get(more, i - SPECIALS);
        const char *content = i < SPECIALS ? special_of(f, (special_kind)i) : text_of(token);
        if (content != NULL && content[0] != 0) {
            CHECK(add_token(f, json_is_object(token) ? token : NULL, content, true,
                            id_of(f, content)));
        }
    }
    json_t *steps = NULL;
    bool prefix = false;
    CHECK(json_parse("pre-tokenizer", f->how->steps, strlen(f->how->steps), &steps));
    CHECK(json_put(f->root, "pre_tokenizer", steps));
    CHECK(json_get_boolean(name, f->settings, "add_prefix_space", false, &prefix));
    json_t *members = json_object_get(steps, "pretokenizers");
    json_t *bytes = members == NULL ? steps : json_array_get(members, 1);
    CHECK(json_put(bytes, "add_prefix_space", json_boolean(prefix)));
    if (f->how->composes) {
        CHECK(json_put(f->root, "normalizer", json_pack("{s:o}", "type", json_text("NFC"))));
    }
    json_t *component = json_object();
    CHECK(json_put(f->root, "post_processor", component));
    if (f->how->framed) {
        CHECK(json_put(component, "type", json_text("RobertaProcessing")));
        CHECK(put_named(f, component, "cls", CLS));
        return put_named(f, component, "sep", SEP);
    }
    CHECK(json_put(component, "type", json_text("TemplateProcessing")));
    CHECK(json_put(component, "special_tokens", json_object()));
    CHECK(json_put(component, "single", json_array()));
    CHECK(put_asked(name, f, "add_bos_token", BOS, component));
    CHECK(json_push(json_object_get(component, "single"), json_pack("{s:{}}", "Sequence")));
    return put_asked(name, f, "add_eos_token", EOS, component);
}

grail_status tokenizer_document_of_merges(const char *directory, json_t **out)
{
    grail_status status = GRAIL_OK;
    merged_files f = {0};
    char *pieces = NULL;
    char *merges = NULL;
    TRY(path_find(&pieces, directory, "vocab.json"));
    TRY(path_find(&merges, directory, "merges.txt"));
    if (pieces == NULL || merges == NULL) {
        goto out;
    }
    TRY(json_read_file(pieces, TOKENIZER_LARGEST_FILE, &f.vocab));
    TRY(file_read(merges, TOKENIZER_LARGEST_FILE, &f.merges));
    TRY(json_find_file(directory, "tokenizer_config.json", TOKENIZER_LARGEST_FILE,
                       json_read_file_of_reals, &f.settings));
    /* without "added_tokens_decoder", which later releases write, two more files have a say */
    if (json_object_get(f.settings, "added_tokens_decoder") == NULL) {
        TRY(json_find_file(directory, "special_tokens_map.json", TOKENIZER_LARGEST_FILE,
                           json_read_file_of_reals, &f.specials));
        TRY(json_find_file(directory, "added_tokens.json", TOKENIZER_LARGEST_FILE,
                           json_read_file_of_reals, &f.added));
    }
    TRY(choose_class(pieces, &f));
    TRY(put_all(pieces, &f));
    *out = f.root;
    f.root = NULL;
out:
    memory_free(merges);
    memory_free(pieces);
    json_decref(f.vocab);
    json_decref(f.settings);
    json_decref(f.specials);
    json_decref(f.added);
    json_decref(f.root);
    json_decref(f.ids);
    buffer_fini(&f.merges);
    return status;
}
