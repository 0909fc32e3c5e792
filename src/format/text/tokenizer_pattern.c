/* Patterns that tokenizer files split and replace by, on PCRE2.
 *
 * The files are written for Oniguruma's Ruby syntax with Unicode. Syntax that PCRE2 reads
 * differently is translated (\s, \w, \h, scripts) or, if it is rare, refused: a pattern never
 * silently means something else. Case folding and character properties are those of Unicode 14
 * (PCRE2 10.42). */
#include "format/text/tokenizer_internal.h"

#include <ctype.h>
#include <string.h>

static void *allocate(size_t size, void *unused)
{
    (void)unused;
    void *block = NULL;
    return memory_new_unset(&block, 1, size) == GRAIL_OK ? block : NULL;
}

static void release(void *block, void *unused)
{
    (void)unused;
    memory_free(block);
}

static grail_status new_context(pcre2_general_context **out)
{
    *out = pcre2_general_context_create(allocate, release, NULL);
    return *out == NULL ? GRAIL_ERROR_MEMORY : GRAIL_OK;
}

/* --- translation --- */

#define SPACE_MEMBERS                                                                              \
    "\\t-\\r "                                                                                     \
    "\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
/* Oniguruma: Alphabetic, Mark, Decimal_Number, Connector_Punctuation. */
#define WORD_MEMBERS                                                                               \
    "\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"           \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}"
#define HEX_MEMBERS "0-9A-Fa-f"

typedef struct translation {
    text_span source;
    size_t position;
    bool in_class;
    buffer out;
} translation;

static grail_status refuse(const translation *t, const char *what)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED, "pattern '%.*s': %s at byte %zu is not supported",
                     (int)t->source.size, t->source.bytes, what, t->position);
}

/* PCRE2 reads \p{Han} as script extensions; Oniguruma reads it as the script alone. */
static grail_status translate_property(translation *t)
{
    static const char *const scripts[] = {"Han",    "Hiragana", "Katakana",  "Hangul",
                                          "Latin",  "Greek",    "Cyrillic",  "Arabic",
                                          "Hebrew", "Thai",     "Devanagari"};
    const text_span rest = span_from(t->source, t->position, t->source.size);
    const char *close = memchr(rest.bytes, '}', rest.size);
    if (rest.size < 4 || rest.bytes[2] != '{' || close == NULL) {
        return refuse(t, "a property without braces");
    }
    const text_span name = span_from(rest, 3, (size_t)(close - rest.bytes));
    const char *script = "";
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        const bool same =
            strlen(scripts[i]) == name.size && memcmp(scripts[i], name.bytes, name.size) == 0;
        script = same ? "sc:" : script;
    }
    CHECK(buffer_append(&t->out, rest.bytes, 3));
    CHECK(buffer_append_string(&t->out, script));
    CHECK(buffer_append(&t->out, name.bytes, name.size + 1));
    t->position += name.size + 4;
    return GRAIL_OK;
}

/* \b lies between a word character of our kind and another character, or an end. An escape without
 * a translation means the same in PCRE2. */
static grail_status translate_escape(translation *t)
{
    if (t->position + 1 == t->source.size) {
        return refuse(t, "a trailing backslash");
    }
    const char letter = t->source.bytes[t->position + 1];
    const char lower = (char)tolower((unsigned char)letter);
    const bool negated = letter != lower;
    const char *members = lower == 's'   ? SPACE_MEMBERS
                          : lower == 'w' ? WORD_MEMBERS
                          : lower == 'h' ? HEX_MEMBERS
                                         : NULL;
    if (lower == 'p') {
        return translate_property(t);
    }
    if (memchr("vVQE", letter, 4) != NULL) {
        return refuse(t, "an escape \\v, \\V, \\Q or \\E");
    }
    if (lower == 'b' && !t->in_class) {
        t->position += 2;
        return buffer_append_string(&t->out,
                                    negated ? "(?:(?<=[" WORD_MEMBERS "])(?=[" WORD_MEMBERS "])|"
                                              "(?<![" WORD_MEMBERS "])(?![" WORD_MEMBERS "]))"
                                            : "(?:(?<=[" WORD_MEMBERS "])(?![" WORD_MEMBERS "])|"
                                              "(?<![" WORD_MEMBERS "])(?=[" WORD_MEMBERS "]))");
    }
    if (members == NULL) {
        /* Copies any other escape unchanged, with its braces: \x{85}. */
        const text_span rest = span_from(t->source, t->position, t->source.size);
        size_t length = 1 + character_length(rest.bytes[1]);
        if (length < rest.size && rest.bytes[length] == '{') {
            const char *close = memchr(rest.bytes, '}', rest.size);
            length = close == NULL ? rest.size : (size_t)(close - rest.bytes) + 1;
        }
        t->position += length;
        return buffer_append(&t->out, rest.bytes, length);
    }
    if (negated && t->in_class) {
        return refuse(t, "a negated class inside brackets");
    }
    t->position += 2;
    return buffer_format(&t->out, "%s%s%s",
                         t->in_class ? ""
                         : negated   ? "[^"
                                     : "[",
                         members, t->in_class ? "" : "]");
}

/* Whether the text starts a group with the option m or s. The option that lets '.' match a line
 * feed is m in Ruby and s in PCRE2, so groups that set either are refused. */
static bool sets_dot_option(text_span text)
{
    if (!span_starts_with(text, span_of_string("(?"))) {
        return false;
    }
    for (size_t i = 2; i < text.size && memchr("imsx-", text.bytes[i], 5) != NULL; i++) {
        if (text.bytes[i] == 'm' || text.bytes[i] == 's') {
            return true;
        }
    }
    return false;
}

/* The name of the syntax at this place that Oniguruma reads differently, or NULL. */
static const char *difference(const translation *t)
{
    const text_span rest = span_from(t->source, t->position, t->source.size);
    if (t->in_class) {
        return rest.bytes[0] == '['                           ? "a bracket inside brackets"
               : span_starts_with(rest, span_of_string("&&")) ? "an intersection of classes"
                                                              : NULL;
    }
    return span_starts_with(rest, span_of_string("}+"))   ? "an interval followed by '+'"
           : span_starts_with(rest, span_of_string("{,")) ? "an interval without a minimum"
           : sets_dot_option(rest)                        ? "the option m or s"
                                                          : NULL;
}

static grail_status translate(translation *t)
{
    while (t->position < t->source.size) {
        const char c = t->source.bytes[t->position];
        if (c == '\\') {
            CHECK(translate_escape(t));
            continue;
        }
        const char *different = difference(t);
        if (different != NULL) {
            return refuse(t, different);
        }
        t->in_class = c == '[' || (t->in_class && c != ']');
        t->position += 1;
        CHECK(buffer_append(&t->out, &c, 1));
    }
    return GRAIL_OK;
}

/* --- compilation --- */

grail_status pattern_from_regex(text_pattern *p, text_span regex)
{
    grail_status status = GRAIL_OK;
    translation t = {.source = regex};
    pcre2_general_context *general = NULL;
    pcre2_compile_context *context = NULL;
    int code = 0;
    PCRE2_SIZE offset = 0;
    buffer_init(&t.out, PATTERN_LONGEST);
    TRY(translate(&t));
    TRY(new_context(&general));
    context = pcre2_compile_context_create(general);
    if (context == NULL) {
        status = GRAIL_ERROR_MEMORY;
        goto out;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    const text_span translated = span_of_buffer(&t.out);
    /* In Ruby, ^ and $ match at every line. */
    p->regex = pcre2_compile((PCRE2_SPTR)translated.bytes, translated.size,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &code, &offset, context);
    if (p->regex == NULL) {
        PCRE2_UCHAR message[128] = "";
        pcre2_get_error_message(code, message, sizeof message);
        if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAP_FAILED) {
            status = GRAIL_ERROR_MEMORY;
            goto out;
        }
        FAIL(GRAIL_ERROR_UNSUPPORTED, "pattern '%.*s': %s", (int)regex.size, regex.bytes,
             (const char *)message);
    }
out:
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    buffer_fini(&t.out);
    return status;
}

grail_status pattern_from_string(text_pattern *p, text_span string)
{
    if (string.size == 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "an empty pattern is not supported");
    }
    CHECK(memory_new_unset(&p->string, string.size, 1));
    memcpy(p->string, string.bytes, string.size);
    p->size = string.size;
    return GRAIL_OK;
}

void pattern_fini(text_pattern *p)
{
    memory_free(p->string);
    pcre2_code_free(p->regex);
    *p = (text_pattern){0};
}

/* --- matching --- */

grail_status pattern_workspace_init(pattern_workspace *w, size_t size)
{
    grail_status status = GRAIL_OK;
    pcre2_general_context *general = NULL;
    TRY(new_context(&general));
    w->match = pcre2_match_data_create(1, general);
    w->context = pcre2_match_context_create(general);
    if (w->match == NULL || w->context == NULL) {
        status = GRAIL_ERROR_MEMORY;
        goto out;
    }
    pcre2_set_heap_limit(w->context, PATTERN_MOST_HEAP_KIB);
    const int64_t bytes = size < INT64_MAX / 512 ? (int64_t)size : INT64_MAX / 512;
    w->work_left = PATTERN_FREE_WORK + PATTERN_MOST_WORK * bytes;
out:
    pcre2_general_context_free(general);
    return status;
}

void pattern_workspace_fini(pattern_workspace *w)
{
    pcre2_match_data_free(w->match);
    pcre2_match_context_free(w->context);
    *w = (pattern_workspace){0};
}

pattern_scan pattern_scan_start(const text_pattern *p, pattern_workspace *w, text_span text,
                                bool open)
{
    return (pattern_scan){
        .pattern = p, .workspace = w, .text = text, .open = open, .last_end = SIZE_MAX};
}

/* Finds the first match from the position on; returns the code of pcre2_match. A match is first
 * tried with few steps and on the next few bytes only, which is enough for the words of ordinary
 * patterns; then with more of both until it is decided. Failed tries are subtracted from the
 * allowance for the entire text, so that the time of a pattern grows no faster than the text. */
static int match_here(const pattern_scan *s)
{
    enum { FIRST_STEPS = 512, FIRST_WINDOW = 1024, MORE = 8 };
    pattern_workspace *w = s->workspace;
    const size_t size = s->text.size;
    const size_t counted = (UINT32_MAX - PATTERN_FREE_STEPS) / PATTERN_MOST_STEPS;
    const uint32_t most =
        PATTERN_FREE_STEPS + PATTERN_MOST_STEPS * (uint32_t)(size < counted ? size : counted);
    uint32_t steps = FIRST_STEPS;
    size_t window = FIRST_WINDOW;
    for (;;) {
        /* the window ends between two characters */
        const bool all = size - s->position <= window;
        const size_t end = all ? size : character_before(s->text, s->position + window + 1);
        const uint32_t cut = end < size || s->open ? PCRE2_PARTIAL_HARD : 0;
        pcre2_set_match_limit(w->context, steps);
        const int code = pcre2_match(s->pattern->regex, (PCRE2_SPTR)s->text.bytes, end, s->position,
                                     PCRE2_NO_UTF_CHECK | cut, w->match, w->context);
        if (code == PCRE2_ERROR_MATCHLIMIT && steps < most) {
            w->work_left -= steps;
            if (w->work_left < 0) {
                return code;
            }
            steps = steps < most / MORE ? steps * MORE : most;
        } else if ((code == PCRE2_ERROR_PARTIAL || code == PCRE2_ERROR_NOMATCH) && end < size) {
            w->work_left -= (int64_t)window;
            if (w->work_left < 0) {
                return PCRE2_ERROR_MATCHLIMIT;
            }
            window *= MORE;
        } else {
            return code;
        }
    }
}

/* An empty match directly after the last match does not count; the search goes on at the next
 * character. */
static grail_status next_regex(pattern_scan *s, bool *found, size_t *begin, size_t *end)
{
    while (s->position <= s->text.size) {
        const int code = match_here(s);
        const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(s->workspace->match);
        if (code == PCRE2_ERROR_NOMATCH || code == PCRE2_ERROR_PARTIAL) {
            s->decided = code == PCRE2_ERROR_PARTIAL ? offsets[0] : s->text.size;
            return GRAIL_OK;
        }
        if (code < 0) {
            PCRE2_UCHAR message[128] = "";
            pcre2_get_error_message(code, message, sizeof message);
            return code == PCRE2_ERROR_NOMEMORY
                       ? GRAIL_ERROR_MEMORY
                       : error_set(GRAIL_ERROR_UNSUPPORTED,
                                   "matching a pattern of the tokenizer stopped at byte %zu of a "
                                   "section of %zu bytes: %s",
                                   s->position, s->text.size, (const char *)message);
        }
        if (offsets[0] < s->position || offsets[1] < offsets[0]) {
            return error_set(
                GRAIL_ERROR_UNSUPPORTED,
                "a pattern of the tokenizer moves the start of its match, which is not supported");
        }
        if (offsets[0] != offsets[1] || offsets[1] != s->last_end) {
            *found = true;
            *begin = offsets[0];
            *end = offsets[1];
            return GRAIL_OK;
        }
        s->position +=
            s->position < s->text.size ? character_length(s->text.bytes[s->position]) : 1;
    }
    s->decided = s->text.size;
    return GRAIL_OK;
}

static void next_string(pattern_scan *s, bool *found, size_t *begin, size_t *end)
{
    const char *start = s->text.bytes + s->position;
    const char *match =
        memmem(start, s->text.size - s->position, s->pattern->string, s->pattern->size);
    if (match != NULL) {
        *found = true;
        *begin = (size_t)(match - s->text.bytes);
        *end = *begin + s->pattern->size;
    } else if (s->open) {
        const size_t last = s->pattern->size - 1; /* most bytes of an incomplete match at the end */
        s->decided = s->text.size - s->position > last ? s->text.size - last : s->position;
    } else {
        s->decided = s->text.size;
    }
}

static void next_member(pattern_scan *s, bool *found, size_t *begin, size_t *end)
{
    s->decided = s->text.size;
    for (size_t i = s->position; i < s->text.size && !*found;) {
        const size_t length = character_length(s->text.bytes[i]);
        if (s->pattern->members(character_at(span_from(s->text, i, s->text.size)))) {
            *found = true;
            *begin = i;
            *end = i + length;
        }
        i += length;
    }
}

grail_status pattern_scan_next(pattern_scan *s, bool *found, size_t *begin, size_t *end)
{
    *found = false;
    if (s->pattern->members != NULL) {
        next_member(s, found, begin, end);
    } else if (s->pattern->string != NULL) {
        next_string(s, found, begin, end);
    } else {
        CHECK(next_regex(s, found, begin, end));
    }
    if (*found) {
        s->position = *end;
        s->last_end = *end;
    }
    return GRAIL_OK;
}
