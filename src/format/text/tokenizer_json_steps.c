/* Reads the normalizer and the pre-tokenizer of a tokenizer.json into flat lists of steps. A row of
 * a table says what a component is: a step, and how its fields are read; or several steps. */
#include "base/json.h"
#include "base/names.h"
#include "base/options.h"
#include "format/text/tokenizer_internal.h"

#include <string.h>
#include <utf8proc.h>

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

grail_status read_normalizer(const char *name, const json_t *component, step_list *out)
{
    static const component_role role = {"normalizer", "normalizers", normalizers};
    return read_component(name, &role, component, out);
}

grail_status read_pretokenizer(const char *name, const json_t *component, step_list *out)
{
    static const component_role role = {"pre-tokenizer", "pretokenizers", pretokenizers};
    return read_component(name, &role, component, out);
}
