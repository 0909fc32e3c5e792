/* Reads a tokenizer.json: the normalizer and the pre-tokenizer, the model, BPE or WordPiece, added
 * tokens and the post-processor. Truncation, padding and the decoder are not used. */
#include "base/file.h"
#include "base/json.h"
#include "base/names.h"
#include "base/options.h"
#include "format/text/tokenizer_internal.h"

#include <string.h>
#include <utf8proc.h>

/* The normalizer and the pre-tokenizer become flat lists of steps. A row of a table says what a
 * component is: a step, and how its fields are read; or several steps. */

/* The split of the ByteLevel pre-tokenizer, first used by GPT-2. */
static const char byte_level_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

typedef struct component_kind {
    const char *type; /* NULL ends a table */
    text_step step;   /* what is added */
    /* Reads the fields of the step; may be NULL. */
    grail_status (*read)(const char *name, const json_t *component, text_step *step);
    /* In place of both: adds several steps. */
    grail_status (*read_all)(const char *name, const json_t *component, step_list *out);
} component_kind;

typedef struct component_role {
    const char *name;
    const char *members; /* the key under which a Sequence has its components */
    const component_kind *kinds;
} component_role;

static grail_status require_string(const char *name, const json_t *object, const char *key,
                                   const char **out)
{
    CHECK(json_get_string(name, object, key, NULL, out));
    return *out != NULL ? GRAIL_OK
                        : error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is missing", name, key);
}

static grail_status read_word(const char *name, const json_t *object, const char *key,
                              const char *usual, const char *const words[], int *out)
{
    const char *word = NULL;
    CHECK(json_get_string(name, object, key, usual, &word));
    const grail_status status = option_find_word(key, word, words, out);
    return error_in(status == GRAIL_OK ? GRAIL_OK : GRAIL_ERROR_FORMAT, "%s", name);
}

/* {"String": "..."} or {"Regex": "..."} */
static grail_status read_pattern(const char *name, const json_t *component, text_step *step)
{
    const json_t *pattern = json_object_get(component, "pattern");
    const char *string = json_string_value(json_object_get(pattern, "String"));
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    if ((string == NULL) == (regex == NULL)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: a \"pattern\" is neither a String nor a Regex",
                         name);
    }
    return error_in(string != NULL ? pattern_from_string(&step->pattern, span_of_string(string))
                                   : pattern_from_regex(&step->pattern, span_of_string(regex)),
                    "%s", name);
}

static grail_status add_step(const char *name, step_list *list, text_step step, text_step **out)
{
    if (list->count == TOKENIZER_STEPS_MAX) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "%s: the %s has more than %d steps", name,
                         step.kind < PRETOKENIZE_SPLIT ? "normalizer" : "pre-tokenizer",
                         TOKENIZER_STEPS_MAX);
    }
    list->steps[list->count] = step;
    *out = &list->steps[list->count++];
    return GRAIL_OK;
}

/* --- normalizer --- */

static grail_status read_content(const char *name, const json_t *component, const char *key,
                                 text_step *step)
{
    const char *content = NULL;
    CHECK(require_string(name, component, key, &content));
    return memory_copy_string(&step->content, content);
}

static grail_status read_prepend(const char *name, const json_t *component, text_step *step)
{
    return read_content(name, component, "prepend", step);
}

static grail_status read_replace(const char *name, const json_t *component, text_step *step)
{
    CHECK(read_content(name, component, "content", step));
    return read_pattern(name, component, step);
}

static grail_status read_strip(const char *name, const json_t *component, text_step *step)
{
    CHECK(json_get_boolean(name, component, "strip_left", true, &step->left));
    return json_get_boolean(name, component, "strip_right", true, &step->right);
}

/* Accents go where "strip_accents" says so, or says nothing and letters are made small. */
static grail_status read_bert(const char *name, const json_t *component, step_list *list)
{
    static const text_step decompose = {.kind = NORMALIZE_UNICODE,
                                        .form = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE};
    text_step *step = NULL;
    bool clean = true;
    bool apart = true;
    bool lower = true;
    bool strips = true;
    CHECK(json_get_boolean(name, component, "clean_text", true, &clean));
    CHECK(json_get_boolean(name, component, "handle_chinese_chars", true, &apart));
    CHECK(json_get_boolean(name, component, "lowercase", true, &lower));
    CHECK(json_get_boolean(name, component, "strip_accents", lower, &strips));
    if (clean) {
        CHECK(add_step(name, list, (text_step){.kind = NORMALIZE_CLEAN}, &step));
    }
    if (apart) {
        CHECK(add_step(name, list, (text_step){.kind = NORMALIZE_IDEOGRAPHS}, &step));
    }
    if (strips) {
        CHECK(add_step(name, list, decompose, &step));
        CHECK(add_step(name, list, (text_step){.kind = NORMALIZE_STRIP_MARKS}, &step));
    }
    return lower ? add_step(name, list, (text_step){.kind = NORMALIZE_LOWERCASE}, &step) : GRAIL_OK;
}

#define FORM(options)                                                                              \
    {                                                                                              \
        .kind = NORMALIZE_UNICODE, .form = UTF8PROC_STABLE | (options)                             \
    }

static const component_kind normalizers[] = {
    {.type = "Prepend", .step = {.kind = NORMALIZE_PREPEND}, .read = read_prepend},
    {.type = "Replace", .step = {.kind = NORMALIZE_REPLACE}, .read = read_replace},
    {.type = "NFC", .step = FORM(UTF8PROC_COMPOSE)},
    {.type = "NFD", .step = FORM(UTF8PROC_DECOMPOSE)},
    {.type = "NFKC", .step = FORM(UTF8PROC_COMPOSE | UTF8PROC_COMPAT)},
    {.type = "NFKD", .step = FORM(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT)},
    {.type = "Strip", .step = {.kind = NORMALIZE_STRIP}, .read = read_strip},
    {.type = "Lowercase", .step = {.kind = NORMALIZE_LOWERCASE}},
    {.type = "BertNormalizer", .read_all = read_bert},
    {.type = "Sequence"},
    {.type = NULL},
};

/* --- pre-tokenizer --- */

static grail_status read_behavior(const char *name, const json_t *component, text_step *step)
{
    static const char *const names[] = {
        [SPLIT_ISOLATED] = "Isolated",
        [SPLIT_REMOVED] = "Removed",
        [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [SPLIT_CONTIGUOUS] = "Contiguous",
        NULL,
    };
    int found = 0;
    CHECK(read_word(name, component, "behavior", "Isolated", names, &found));
    step->behavior = (split_behavior)found;
    return GRAIL_OK;
}

static grail_status read_split(const char *name, const json_t *component, text_step *step)
{
    CHECK(read_pattern(name, component, step));
    CHECK(read_behavior(name, component, step));
    return json_get_boolean(name, component, "invert", false, &step->invert);
}

static grail_status read_digits(const char *name, const json_t *component, text_step *step)
{
    bool individual = false;
    CHECK(json_get_boolean(name, component, "individual_digits", false, &individual));
    step->behavior = individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
    return GRAIL_OK;
}

static grail_status read_byte_level(const char *name, const json_t *component, step_list *list)
{
    text_step *step = NULL;
    bool prefix = true;
    bool regex = true;
    CHECK(json_get_boolean(name, component, "add_prefix_space", true, &prefix));
    CHECK(json_get_boolean(name, component, "use_regex", true, &regex));
    if (prefix) {
        CHECK(add_step(name, list, (text_step){.kind = PRETOKENIZE_SPACE_PREFIX}, &step));
    }
    if (regex) {
        CHECK(add_step(name, list, (text_step){.kind = PRETOKENIZE_SPLIT}, &step));
        CHECK(pattern_from_regex(&step->pattern, span_of_string(byte_level_pattern)));
    }
    for (int i = 0; i < list->count; i++) { /* each would double the bytes that are not ASCII */
        if (list->steps[i].kind == PRETOKENIZE_BYTES) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "%s: the pre-tokenizer has more than one ByteLevel", name);
        }
    }
    return add_step(name, list, (text_step){.kind = PRETOKENIZE_BYTES}, &step);
}

static grail_status read_metaspace(const char *name, const json_t *component, step_list *list)
{
    static const char *const names[] = {
        [PREPEND_ALWAYS] = "always", [PREPEND_FIRST] = "first", [PREPEND_NEVER] = "never", NULL};
    text_step *step = NULL;
    const char *mark = NULL;
    int found = 0;
    bool split = true;
    bool prefix = true;
    CHECK(require_string(name, component, "replacement", &mark));
    if (mark[0] == 0 || strlen(mark) != character_length(mark[0])) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: Metaspace has the replacement '%s', expected a single character",
                         name, mark);
    }
    CHECK(json_get_boolean(name, component, "split", true, &split));
    CHECK(add_step(name, list, (text_step){.kind = PRETOKENIZE_METASPACE}, &step));
    CHECK(memory_copy_string(&step->content, mark));
    /* older files have add_prefix_space alone, newer ones prepend_scheme */
    CHECK(json_get_boolean(name, component, "add_prefix_space", true, &prefix));
    CHECK(read_word(name, component, "prepend_scheme", prefix ? "always" : "never", names, &found));
    step->scheme = (prepend_scheme)found;
    if (!split) {
        return GRAIL_OK;
    }
    const text_step next = {.kind = PRETOKENIZE_SPLIT, .behavior = SPLIT_MERGED_WITH_NEXT};
    CHECK(add_step(name, list, next, &step));
    return pattern_from_string(&step->pattern, span_of_string(mark));
}

#define SPLIT_AT(class, how)                                                                       \
    {                                                                                              \
        .kind = PRETOKENIZE_SPLIT, .pattern = {.members = (class)}, .behavior = (how)              \
    }

/* At white space, and at each punctuation mark. */
static grail_status read_bert_words(const char *name, const json_t *component, step_list *list)
{
    text_step *step = NULL;
    (void)component;
    CHECK(add_step(name, list, (text_step)SPLIT_AT(character_is_space, SPLIT_REMOVED), &step));
    return add_step(name, list, (text_step)SPLIT_AT(character_is_punctuation, SPLIT_ISOLATED),
                    &step);
}

static const component_kind pretokenizers[] = {
    {.type = "Split", .step = {.kind = PRETOKENIZE_SPLIT}, .read = read_split},
    {.type = "ByteLevel", .read_all = read_byte_level},
    {.type = "Digits",
     .step = SPLIT_AT(character_is_numeric, SPLIT_CONTIGUOUS),
     .read = read_digits},
    {.type = "Punctuation",
     .step = SPLIT_AT(character_is_punctuation, SPLIT_ISOLATED),
     .read = read_behavior},
    {.type = "WhitespaceSplit", .step = SPLIT_AT(character_is_space, SPLIT_REMOVED)},
    {.type = "Metaspace", .read_all = read_metaspace},
    {.type = "BertPreTokenizer", .read_all = read_bert_words},
    {.type = "Sequence"},
    {.type = NULL},
};

/* --- both --- */

static const char *type_at(const void *kinds, int i)
{
    return ((const component_kind *)kinds)[i].type;
}

static grail_status read_component(const char *name, const component_role *role,
                                   const json_t *component, step_list *out)
{
    const component_kind *kind = role->kinds;
    text_step *step = NULL;
    if (component == NULL || json_is_null(component)) {
        return GRAIL_OK;
    }
    const char *type = json_string_value(json_object_get(component, "type"));
    if (type == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: a %s has no \"type\"", name, role->name);
    }
    while (kind->type != NULL && strcmp(type, kind->type) != 0) {
        kind++;
    }
    if (kind->type == NULL) {
        const grail_status status = error_set(
            GRAIL_ERROR_UNSUPPORTED, "%s: %s '%s' is not supported; the supported ones are", name,
            role->name, type);
        error_append_names(type, type_at, role->kinds);
        return status;
    }
    if (strcmp(type, "Sequence") == 0) {
        const json_t *members = json_object_get(component, role->members);
        if (!json_is_array(members)) {
            return error_set(GRAIL_ERROR_FORMAT, "%s: a Sequence lacks the array \"%s\"", name,
                             role->members);
        }
        for (size_t i = 0; i < json_array_size(members); i++) {
            CHECK(read_component(name, role, json_array_get(members, i), out));
        }
        return GRAIL_OK;
    }
    if (kind->read_all != NULL) {
        return kind->read_all(name, component, out);
    }
    CHECK(add_step(name, out, kind->step, &step));
    return kind->read == NULL ? GRAIL_OK : kind->read(name, component, step);
}

enum { PIECE_MAX = 1 << 20 };

static grail_status check_id(const char *name, const char *piece, json_int_t id)
{
    if (id < 0 || id > TOKEN_ID_MAX) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: piece '%s' has id %lld; ids must be 0 to %d",
                         name, piece, (long long)id, TOKEN_ID_MAX);
    }
    return GRAIL_OK;
}

static grail_status read_vocabulary(const char *name, json_t *vocab, vocabulary *out)
{
    const char *piece = NULL;
    json_t *id = NULL;
    if (!json_is_object(vocab)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: the model has no \"vocab\" object", name);
    }
    json_object_foreach (vocab, piece, id) {
        if (!json_is_integer(id)) {
            return error_set(GRAIL_ERROR_FORMAT, "%s: the id of piece '%s' is not an integer", name,
                             piece);
        }
        CHECK(check_id(name, piece, json_integer_value(id)));
        CHECK(error_in(vocabulary_add(out, span_of_string(piece), (int32_t)json_integer_value(id)),
                       "%s", name));
    }
    return GRAIL_OK;
}

/* "a b", or ["a", "b"] where pieces may hold spaces. */
static grail_status read_halves(const char *name, size_t rank, const json_t *merge, text_span *left,
                                text_span *right)
{
    const char *first = json_string_value(merge);
    const char *second = first == NULL ? NULL : strchr(first, ' ');
    if (second != NULL && strchr(second + 1, ' ') == NULL) {
        *left = (text_span){first, (size_t)(second - first)};
        *right = span_of_string(second + 1);
        return GRAIL_OK;
    }
    first = json_string_value(json_array_get(merge, 0));
    second = json_string_value(json_array_get(merge, 1));
    if (first == NULL || second == NULL || json_array_size(merge) != 2) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: merge %zu is not a pair of pieces", name, rank);
    }
    *left = span_of_string(first);
    *right = span_of_string(second);
    return GRAIL_OK;
}

/* The merge of that rank, of two pieces into a third one, all in the vocabulary. */
static grail_status read_merge(const char *name, size_t rank, const json_t *merge, bpe_model *m)
{
    grail_status status = GRAIL_OK;
    text_span spans[3] = {{0}}; /* left, right, and both */
    int32_t ids[3] = {0};
    buffer joined = {0};
    buffer_init(&joined, PIECE_MAX);
    TRY(read_halves(name, rank, merge, &spans[0], &spans[1]));
    TRY(buffer_append(&joined, spans[0].bytes, spans[0].size));
    TRY(buffer_append(&joined, spans[1].bytes, spans[1].size));
    spans[2] = span_of_buffer(&joined);
    for (int i = 0; i < 3; i++) {
        ids[i] = vocabulary_find(&m->pieces, spans[i]);
        if (ids[i] < 0) {
            FAIL(GRAIL_ERROR_FORMAT,
                 "%s: merge %zu names the piece '%.*s', which is not in the vocabulary", name, rank,
                 (int)spans[i].size, spans[i].bytes);
        }
    }
    TRY(error_in(pair_table_put(&m->merges, (pair_entry){ids[0], ids[1], (int32_t)rank, ids[2]}),
                 "%s", name));
out:
    buffer_fini(&joined);
    return status;
}

/* Options of BPE that would change the ids are refused; no decoder's tokenizer uses them. */
static grail_status read_merged_pieces(const char *name, const json_t *model, bpe_model *m)
{
    static const char *const texts[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const char *unknown = NULL;
    double dropout = 0.0;
    CHECK(json_get_real(name, model, "dropout", 0.0, &dropout));
    if (dropout != 0.0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: BPE dropout %g is not supported; set it to null", name, dropout);
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *value = NULL;
        CHECK(json_get_string(name, model, texts[i], "", &value));
        if (value[0] != '\0') {
            return error_set(GRAIL_ERROR_UNSUPPORTED, "%s: BPE option %s '%s' is not supported",
                             name, texts[i], value);
        }
    }
    CHECK(json_get_boolean(name, model, "fuse_unk", false, &m->fuse_unknown));
    CHECK(json_get_boolean(name, model, "byte_fallback", false, &m->byte_fallback));
    CHECK(json_get_boolean(name, model, "ignore_merges", false, &m->ignore_merges));
    CHECK(read_vocabulary(name, json_object_get(model, "vocab"), &m->pieces));
    const json_t *merges = json_object_get(model, "merges");
    if (!json_is_array(merges) || json_array_size(merges) > INT32_MAX) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: the model has no \"merges\" array", name);
    }
    for (size_t i = 0; i < json_array_size(merges); i++) {
        CHECK(read_merge(name, i, json_array_get(merges, i), m));
    }
    CHECK(json_get_string(name, model, "unk_token", NULL, &unknown));
    if (unknown != NULL) {
        m->unknown = vocabulary_find(&m->pieces, span_of_string(unknown));
        m->unknown_missing = m->unknown < 0;
    }
    return error_in(bpe_prepare(m), "%s", name);
}

static grail_status read_model(const char *name, const json_t *model, tokenizer *t)
{
    const char *type = NULL;
    if (!json_is_object(model)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"model\" is missing", name);
    }
    /* files of early versions have no model type; a model with merges is BPE, and one with a limit
     * of characters WordPiece */
    const char *usual = json_object_get(model, "merges") != NULL ? "BPE"
                        : json_object_get(model, "max_input_chars_per_word") != NULL
                            ? "WordPiece"
                            : "without a type";
    CHECK(json_get_string(name, model, "type", usual, &type));
    if (strcmp(type, "WordPiece") == 0) {
        const char *unknown = NULL;
        const char *prefix = NULL;
        int64_t most = 0;
        CHECK(json_get_string(name, model, "unk_token", "[UNK]", &unknown));
        CHECK(json_get_string(name, model, "continuing_subword_prefix", "##", &prefix));
        CHECK(json_get_integer(name, model, "max_input_chars_per_word", 100, &most));
        CHECK(read_vocabulary(name, json_object_get(model, "vocab"), &t->model.pieces));
        return error_in(wordpiece_prepare(&t->model.pieces, span_of_string(unknown),
                                          span_of_string(prefix), most, &t->words),
                        "%s", name);
    }
    if (strcmp(type, "BPE") == 0) {
        return read_merged_pieces(name, model, &t->model);
    }
    return error_set(
        GRAIL_ERROR_UNSUPPORTED,
        "%s: model type '%s' is not supported, only BPE and WordPiece; encode the text "
        "with the model's own tokenizer and pass the ids",
        name, type);
}

/* --- added tokens --- */

static grail_status read_added_token(const char *name, const json_t *object, tokenizer *t)
{
    const char *content = NULL;
    int64_t id = 0;
    bool normalized = false;
    added_token token = {0};
    CHECK(json_get_string(name, object, "content", "", &content));
    if (content[0] == '\0') {
        return GRAIL_OK;
    }
    CHECK(json_require_integer(name, object, "id", &id));
    CHECK(check_id(name, content, id));
    token.id = (int32_t)id;
    CHECK(json_get_boolean(name, object, "single_word", false, &token.single_word));
    CHECK(json_get_boolean(name, object, "lstrip", false, &token.strip_left));
    CHECK(json_get_boolean(name, object, "rstrip", false, &token.strip_right));
    CHECK(json_get_boolean(name, object, "normalized", false, &normalized));
    /* the id must be free, or be the id that the vocabulary gives to this piece */
    const int32_t known = vocabulary_find(&t->model.pieces, span_of_string(content));
    if (known >= 0 && known != token.id) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: added token '%s' has id %d, but the vocabulary gives it id %d", name,
                         content, token.id, known);
    }
    const char *named = vocabulary_piece(&t->model.pieces, token.id).bytes;
    if (named == NULL || strcmp(named, content) != 0) {
        CHECK(error_in(vocabulary_name(&t->model.pieces, span_of_string(content), token.id),
                       "%s: added token '%s'", name, content));
    }
    return error_in(tokenizer_add_token(t, span_of_string(content), normalized, token), "%s", name);
}

/* --- post-processor --- */

static grail_status push_special(const char *name, const json_t *template, const char *key,
                                 token_list *out)
{
    const json_t *special = json_object_get(json_object_get(template, "special_tokens"), key);
    const json_t *ids = json_object_get(special, "ids");
    if (json_array_size(ids) == 0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: the post-processor has no ids for '%s'", name,
                         key);
    }
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        CHECK(check_id(name, key, json_is_integer(id) ? json_integer_value(id) : -1));
        CHECK(token_list_push(out, (int32_t)json_integer_value(id)));
    }
    return GRAIL_OK;
}

/* The template of a single text: special tokens around the one sequence A. */
static grail_status read_template(const char *name, const json_t *template, tokenizer *t)
{
    const json_t *single = json_object_get(template, "single");
    bool seen = false;
    if (t->before.count > 0 || t->after.count > 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: has more than one TemplateProcessing; one is supported", name);
    }
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i);
        const json_t *special = json_object_get(item, "SpecialToken");
        const json_t *sequence = json_object_get(item, "Sequence");
        const char *id = json_string_value(json_object_get(special, "id"));
        if (id != NULL) {
            CHECK(push_special(name, template, id, seen ? &t->after : &t->before));
        } else if (sequence != NULL && !seen) {
            seen = true;
        } else {
            return error_set(
                GRAIL_ERROR_FORMAT,
                "%s: item %zu of the template is neither a SpecialToken with an id nor its first "
                "Sequence",
                name, i);
        }
    }
    if (!seen) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: the template has no Sequence, so no place for the text", name);
    }
    return GRAIL_OK;
}

static grail_status read_postprocessor(const char *name, const json_t *component, tokenizer *t)
{
    const char *type = NULL;
    if (component == NULL || json_is_null(component)) {
        return GRAIL_OK;
    }
    CHECK(json_get_string(name, component, "type", "without a type", &type));
    if (strcmp(type, "TemplateProcessing") == 0) {
        CHECK(read_template(name, component, t));
    } else if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        /* one token before the text, and one behind it, as ["[SEP]", 102] */
        if (t->before.count > 0 || t->after.count > 0) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "%s: more than one post-processor puts tokens around the text", name);
        }
        for (int i = 0; i < 2; i++) {
            const char *key = i == 0 ? "cls" : "sep";
            const json_t *id = json_array_get(json_object_get(component, key), 1);
            CHECK(check_id(name, key, json_is_integer(id) ? json_integer_value(id) : -1));
            CHECK(
                token_list_push(i == 0 ? &t->before : &t->after, (int32_t)json_integer_value(id)));
        }
    } else if (strcmp(type, "Sequence") == 0) {
        const json_t *members = json_object_get(component, "processors");
        for (size_t i = 0; i < json_array_size(members); i++) {
            CHECK(read_postprocessor(name, json_array_get(members, i), t));
        }
    } else if (strcmp(type, "ByteLevel") != 0) { /* ByteLevel only changes offsets */
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: post-processor '%s' is not supported; the supported ones are TemplateProcessing, "
            "BertProcessing, RobertaProcessing, ByteLevel and Sequence",
            name, type);
    }
    return GRAIL_OK;
}

grail_status tokenizer_read_document(const char *name, const json_t *root, tokenizer *t)
{
    CHECK(read_model(name, json_object_get(root, "model"), t));
    static const component_role normalizer = {"normalizer", "normalizers", normalizers};
    static const component_role splitter = {"pre-tokenizer", "pretokenizers", pretokenizers};
    CHECK(read_component(name, &normalizer, json_object_get(root, "normalizer"), &t->normalizer));
    CHECK(
        read_component(name, &splitter, json_object_get(root, "pre_tokenizer"), &t->pretokenizer));
    const json_t *tokens = json_object_get(root, "added_tokens");
    if (tokens != NULL && !json_is_null(tokens) && !json_is_array(tokens)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"added_tokens\" is not an array", name);
    }
    if (json_array_size(tokens) > TOKEN_ID_MAX) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: has %zu added tokens, more than there are ids",
                         name, json_array_size(tokens));
    }
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        CHECK(read_added_token(name, json_array_get(tokens, i), t));
    }
    return read_postprocessor(name, json_object_get(root, "post_processor"), t);
}

/* -- opening that of a directory --------------------------------------------------------------- */

#define JSON_NAME "tokenizer.json"
#define MERGES_NAME "merges.txt"

static grail_status make(const char *name, const json_t *root, const void *text, size_t size,
                         tokenizer **out)
{
    tokenizer *t = NULL;
    CHECK(tokenizer_new(name, text, size, &t));
    const grail_status status = tokenizer_read_document(name, root, t);
    if (status != GRAIL_OK) {
        tokenizer_close(t);
        return status;
    }
    *out = t;
    return GRAIL_OK;
}

grail_status tokenizer_from_json(const char *name, const void *text, size_t size, tokenizer **out)
{
    json_t *root = NULL;
    CHECK(json_parse(name, text, size, &root));
    const grail_status status = make(name, root, text, size, out);
    json_decref(root);
    return status;
}

grail_status tokenizer_exists(const char *directory, bool *out)
{
    static const char *const files[] = {JSON_NAME, MERGES_NAME};
    *out = false;
    for (size_t i = 0; i < sizeof files / sizeof files[0] && !*out; i++) {
        char *path = NULL;
        CHECK(path_find(&path, directory, files[i]));
        *out = path != NULL;
        memory_free(path);
    }
    return GRAIL_OK;
}

/* GRAIL_OK where the directory lacks the file. */
static grail_status refuse_file(const char *directory, const char *name)
{
    char *path = NULL;
    CHECK(path_find(&path, directory, name));
    const bool exists = path != NULL;
    memory_free(path);
    return exists
               ? error_set(GRAIL_ERROR_UNSUPPORTED,
                           "%s: has no " JSON_NAME ", and its %s is not read; transformers makes "
                           "one of it, AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
                           directory, name)
               : GRAIL_OK;
}

grail_status tokenizer_open(const char *directory, tokenizer **out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    json_t *root = NULL;
    buffer text = {0};
    buffer_init(&text, 2 * (size_t)TOKENIZER_LARGEST_FILE);
    TRY(path_find(&path, directory, JSON_NAME));
    if (path != NULL) {
        TRY(file_read(path, TOKENIZER_LARGEST_FILE, &text));
        TRY(tokenizer_from_json(path, text.bytes, text.size, out));
        goto out;
    }
    TRY(refuse_file(directory, "tokenizer.model"));
    TRY(tokenizer_document_of_merges(directory, &root));
    if (root == NULL) {
        TRY(refuse_file(directory, "vocab.txt"));
        FAIL(GRAIL_ERROR_IO, "%s: has neither " JSON_NAME " nor vocab.json with " MERGES_NAME,
             directory);
    }
    TRY(path_join(&path, directory, MERGES_NAME));
    TRY(json_append_text(root, &text));
    TRY(make(path, root, text.bytes, text.size, out));
out:
    json_decref(root);
    buffer_fini(&text);
    memory_free(path);
    return status;
}
