/* Reads the normalizer and the pre-tokenizer of a tokenizer.json into flat lists of steps. */
#include "base/json.h"
#include "format/text/tokenizer_internal.h"

#include <string.h>
#include <utf8proc.h>

/* The split of the ByteLevel pre-tokenizer, first used by GPT-2. */
static const char byte_level_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static grail_status read_type(const char *name, const char *role, const json_t *component,
                              const char **out)
{
    const char *type = json_string_value(json_object_get(component, "type"));
    if (type == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: a %s has no \"type\"", name, role);
    }
    *out = type;
    return GRAIL_OK;
}

static grail_status require_string(const char *name, const json_t *object, const char *key,
                                   const char **out)
{
    const char *text = NULL;
    CHECK(json_get_string(name, object, key, NULL, &text));
    if (text == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is missing", name, key);
    }
    *out = text;
    return GRAIL_OK;
}

/* {"String": "..."} or {"Regex": "..."} */
static grail_status read_pattern(const char *name, const json_t *object, text_pattern *out)
{
    grail_status status = GRAIL_OK;
    const json_t *pattern = json_object_get(object, "pattern");
    const char *string = json_string_value(json_object_get(pattern, "String"));
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    if ((string == NULL) == (regex == NULL)) {
        FAIL(GRAIL_ERROR_FORMAT, "a \"pattern\" is neither a String nor a Regex");
    }
    if (string != NULL) {
        TRY(pattern_from_string(out, span_of_string(string)));
    } else {
        TRY(pattern_from_regex(out, span_of_string(regex)));
    }
out:
    if (status != GRAIL_OK) {
        error_prefix("%s", name);
    }
    return status;
}

/* Calls `read` for each member of the array that a Sequence holds under `key`. */
typedef grail_status (*component_reader)(const char *name, const json_t *component, void *out);

static grail_status read_members(const char *name, const json_t *component, const char *key,
                                 component_reader read, void *out)
{
    const json_t *members = json_object_get(component, key);
    if (!json_is_array(members)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: a Sequence lacks the array \"%s\"", name, key);
    }
    for (size_t i = 0; i < json_array_size(members); i++) {
        CHECK(read(name, json_array_get(members, i), out));
    }
    return GRAIL_OK;
}

static grail_status too_many_steps(const char *name, const char *role)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED, "%s: the %s has more than %d steps", name, role,
                     TOKENIZER_STEPS_MAX);
}

/* --- normalizer --- */

static grail_status add_normalizer(const char *name, normalizer *n, normalizer_kind kind,
                                   normalizer_step **out)
{
    if (n->count == TOKENIZER_STEPS_MAX) {
        return too_many_steps(name, "normalizer");
    }
    normalizer_step *step = &n->steps[n->count++];
    *step = (normalizer_step){.kind = kind};
    *out = step;
    return GRAIL_OK;
}

static grail_status read_prepend(const char *name, const json_t *component, normalizer *n)
{
    normalizer_step *step = NULL;
    const char *content = NULL;
    CHECK(require_string(name, component, "prepend", &content));
    CHECK(add_normalizer(name, n, NORMALIZE_PREPEND, &step));
    return memory_copy_string(&step->content, content);
}

static grail_status read_replace(const char *name, const json_t *component, normalizer *n)
{
    normalizer_step *step = NULL;
    const char *content = NULL;
    CHECK(require_string(name, component, "content", &content));
    CHECK(add_normalizer(name, n, NORMALIZE_REPLACE, &step));
    CHECK(memory_copy_string(&step->content, content));
    return read_pattern(name, component, &step->pattern);
}

static grail_status read_lowercase(const char *name, const json_t *component, normalizer *n)
{
    (void)component;
    normalizer_step *step = NULL;
    return add_normalizer(name, n, NORMALIZE_LOWERCASE, &step);
}

static grail_status read_strip(const char *name, const json_t *component, normalizer *n)
{
    normalizer_step *step = NULL;
    CHECK(add_normalizer(name, n, NORMALIZE_STRIP, &step));
    CHECK(json_get_boolean(name, component, "strip_left", true, &step->left));
    return json_get_boolean(name, component, "strip_right", true, &step->right);
}

static grail_status read_form(const char *name, const json_t *component, normalizer *n)
{
    normalizer_step *step = NULL;
    const char *type = json_string_value(json_object_get(component, "type"));
    CHECK(add_normalizer(name, n, NORMALIZE_UNICODE, &step));
    step->form = UTF8PROC_STABLE;
    step->form |= strchr(type, 'C') != NULL ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    step->form |= strchr(type, 'K') != NULL ? UTF8PROC_COMPAT : 0;
    return GRAIL_OK;
}

static grail_status read_normalizer_member(const char *name, const json_t *component, void *out)
{
    return read_normalizer(name, component, out);
}

static grail_status read_normalizers(const char *name, const json_t *component, normalizer *n)
{
    return read_members(name, component, "normalizers", read_normalizer_member, n);
}

grail_status read_normalizer(const char *name, const json_t *component, normalizer *out)
{
    static const struct {
        const char *type;
        grail_status (*read)(const char *name, const json_t *component, normalizer *n);
    } readers[] = {
        {"Prepend", read_prepend}, {"Replace", read_replace},     {"NFC", read_form},
        {"NFD", read_form},        {"NFKC", read_form},           {"NFKD", read_form},
        {"Strip", read_strip},     {"Lowercase", read_lowercase}, {"Sequence", read_normalizers}};
    const char *type = NULL;
    if (component == NULL || json_is_null(component)) {
        return GRAIL_OK;
    }
    CHECK(read_type(name, "normalizer", component, &type));
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        if (strcmp(type, readers[i].type) == 0) {
            return readers[i].read(name, component, out);
        }
    }
    return error_set(
        GRAIL_ERROR_UNSUPPORTED,
        "%s: normalizer '%s' is not supported; the supported ones are Prepend, Replace, NFC, NFD, "
        "NFKC, NFKD, Strip, Lowercase and Sequence",
        name, type);
}

/* --- pre-tokenizer --- */

static grail_status add_pretokenizer(const char *name, pretokenizer *p, pretokenizer_kind kind,
                                     pretokenizer_step **out)
{
    if (p->count == TOKENIZER_STEPS_MAX) {
        return too_many_steps(name, "pre-tokenizer");
    }
    pretokenizer_step *step = &p->steps[p->count++];
    *step = (pretokenizer_step){.kind = kind};
    *out = step;
    return GRAIL_OK;
}

static grail_status read_behavior(const char *name, const json_t *component, split_behavior *out)
{
    static const char *const names[] = {
        [SPLIT_ISOLATED] = "Isolated",
        [SPLIT_REMOVED] = "Removed",
        [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *behavior = NULL;
    CHECK(json_get_string(name, component, "behavior", "Isolated", &behavior));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(behavior, names[i]) == 0) {
            *out = (split_behavior)i;
            return GRAIL_OK;
        }
    }
    return error_set(
        GRAIL_ERROR_FORMAT,
        "%s: a pre-tokenizer has the unknown behavior '%s'; expected one of Isolated, Removed, "
        "MergedWithPrevious, MergedWithNext and Contiguous",
        name, behavior);
}

static grail_status read_split(const char *name, const json_t *component, pretokenizer *p)
{
    pretokenizer_step *step = NULL;
    CHECK(add_pretokenizer(name, p, PRETOKENIZE_SPLIT, &step));
    CHECK(read_pattern(name, component, &step->pattern));
    CHECK(read_behavior(name, component, &step->behavior));
    return json_get_boolean(name, component, "invert", false, &step->invert);
}

static grail_status read_byte_level(const char *name, const json_t *component, pretokenizer *p)
{
    pretokenizer_step *step = NULL;
    bool prefix = true;
    bool regex = true;
    CHECK(json_get_boolean(name, component, "add_prefix_space", true, &prefix));
    CHECK(json_get_boolean(name, component, "use_regex", true, &regex));
    if (prefix) {
        CHECK(add_pretokenizer(name, p, PRETOKENIZE_SPACE_PREFIX, &step));
    }
    if (regex) {
        CHECK(add_pretokenizer(name, p, PRETOKENIZE_SPLIT, &step));
        CHECK(pattern_from_regex(&step->pattern, span_of_string(byte_level_pattern)));
    }
    for (int i = 0; i < p->count; i++) { /* each would double the bytes that are not ASCII */
        if (p->steps[i].kind == PRETOKENIZE_BYTES) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "%s: the pre-tokenizer has more than one ByteLevel", name);
        }
    }
    return add_pretokenizer(name, p, PRETOKENIZE_BYTES, &step);
}

static grail_status read_class(const char *name, pretokenizer *p, character_class members,
                               pretokenizer_step **out)
{
    const grail_status status = add_pretokenizer(name, p, PRETOKENIZE_SPLIT, out);
    if (status == GRAIL_OK) {
        (*out)->pattern.members = members;
    }
    return status;
}

static grail_status read_digits(const char *name, const json_t *component, pretokenizer *p)
{
    pretokenizer_step *step = NULL;
    bool individual = false;
    CHECK(read_class(name, p, character_is_numeric, &step));
    CHECK(json_get_boolean(name, component, "individual_digits", false, &individual));
    step->behavior = individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
    return GRAIL_OK;
}

static grail_status read_punctuation(const char *name, const json_t *component, pretokenizer *p)
{
    pretokenizer_step *step = NULL;
    CHECK(read_class(name, p, character_is_punctuation, &step));
    return read_behavior(name, component, &step->behavior);
}

static grail_status read_whitespace_split(const char *name, const json_t *component,
                                          pretokenizer *p)
{
    pretokenizer_step *step = NULL;
    (void)component;
    CHECK(read_class(name, p, character_is_space, &step));
    step->behavior = SPLIT_REMOVED;
    return GRAIL_OK;
}

/* Older files have add_prefix_space alone, newer ones prepend_scheme. */
static grail_status read_scheme(const char *name, const json_t *component, prepend_scheme *out)
{
    static const char *const names[] = {
        [PREPEND_ALWAYS] = "always", [PREPEND_FIRST] = "first", [PREPEND_NEVER] = "never"};
    bool prefix = true;
    const char *scheme = NULL;
    CHECK(json_get_boolean(name, component, "add_prefix_space", true, &prefix));
    CHECK(json_get_string(name, component, "prepend_scheme", prefix ? "always" : "never", &scheme));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(scheme, names[i]) == 0) {
            *out = (prepend_scheme)i;
            return GRAIL_OK;
        }
    }
    return error_set(GRAIL_ERROR_FORMAT,
                     "%s: unknown prepend_scheme '%s', expected always, first or never", name,
                     scheme);
}

static grail_status read_metaspace(const char *name, const json_t *component, pretokenizer *p)
{
    pretokenizer_step *step = NULL;
    const char *text = NULL;
    bool split = true;
    CHECK(require_string(name, component, "replacement", &text));
    const text_span replacement = span_of_string(text);
    if (replacement.size == 0 || replacement.size != character_length(text[0])) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: Metaspace has the replacement '%s', expected a single character",
                         name, text);
    }
    CHECK(json_get_boolean(name, component, "split", true, &split));
    CHECK(add_pretokenizer(name, p, PRETOKENIZE_METASPACE, &step));
    memcpy(step->replacement, replacement.bytes, replacement.size);
    CHECK(read_scheme(name, component, &step->scheme));
    if (split) {
        CHECK(add_pretokenizer(name, p, PRETOKENIZE_SPLIT, &step));
        step->behavior = SPLIT_MERGED_WITH_NEXT;
        CHECK(pattern_from_string(&step->pattern, replacement));
    }
    return GRAIL_OK;
}

static grail_status read_pretokenizer_member(const char *name, const json_t *component, void *out)
{
    return read_pretokenizer(name, component, out);
}

static grail_status read_pretokenizers(const char *name, const json_t *component, pretokenizer *p)
{
    return read_members(name, component, "pretokenizers", read_pretokenizer_member, p);
}

grail_status read_pretokenizer(const char *name, const json_t *component, pretokenizer *out)
{
    static const struct {
        const char *type;
        grail_status (*read)(const char *name, const json_t *component, pretokenizer *p);
    } readers[] = {{"Split", read_split},
                   {"ByteLevel", read_byte_level},
                   {"Digits", read_digits},
                   {"Punctuation", read_punctuation},
                   {"WhitespaceSplit", read_whitespace_split},
                   {"Metaspace", read_metaspace},
                   {"Sequence", read_pretokenizers}};
    const char *type = NULL;
    if (component == NULL || json_is_null(component)) {
        return GRAIL_OK;
    }
    CHECK(read_type(name, "pre-tokenizer", component, &type));
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        if (strcmp(type, readers[i].type) == 0) {
            return readers[i].read(name, component, out);
        }
    }
    return error_set(
        GRAIL_ERROR_UNSUPPORTED,
        "%s: pre-tokenizer '%s' is not supported; the supported ones are Split, ByteLevel, "
        "Digits, Punctuation, WhitespaceSplit, Metaspace and Sequence",
        name, type);
}
