#include "options.h"

#include "help.h"
#include "print.h"

#include <grail/compress.h>
#include <grail/machine.h>
#include <grail/names.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The table of the command that was parsed, NULL before. */
static const option *parsed;

/* What was given for each of its rows, "" for a flag; NULL: nothing. */
enum { MOST_OPTIONS = 96 };
static const char *given[MOST_OPTIONS];

/* The i-th backend of a name of its own; those of one name follow each other. */
static bool find_backend(int i, grail_backend *out)
{
    const char *name = "";
    int found = -1;
    for (int k = 0; found < i && grail_backend_describe(k, out) != 0; k++) {
        found += strcmp(out->name, name) != 0 ? 1 : 0;
        name = out->name;
    }
    return found == i;
}

const char *option_known_name(option_kind kind, int i, const char **meaning)
{
    static grail_selector_facts selector;
    static grail_backend backend;
    if (kind == OPTION_BACKEND && find_backend(i, &backend)) {
        *meaning = backend.summary;
        return backend.name;
    }
    const char *name = kind == OPTION_SELECTOR ? grail_selector_at(i) : NULL;
    if (name != NULL && grail_selector_describe(name, &selector) == GRAIL_OK) {
        *meaning = selector.summary;
    }
    return name;
}

static bool parse_real(const char *text, double *out)
{
    char *end = NULL;
    *out = strtod(text, &end);
    return end != text && *end == 0 && *out == *out;
}

static bool parse_integer(const char *text, bool suffix, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    int shift = 0;
    if (suffix && end != text && *end != 0 && end[1] == 0) {
        shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : -1;
        end += shift > 0 ? 1 : 0;
    }
    if (end == text || *end != 0 || errno != 0 || value < 0 || shift < 0 ||
        value > (INT64_MAX >> shift)) {
        return false;
    }
    *out = (int64_t)value << shift;
    return true;
}

static bool parse_triple(const char *text, option_triple *out)
{
    const char *rest = text;
    for (int i = 0; i < 3; i++) {
        char *end = NULL;
        out->values[i] = strtod(rest, &end);
        if (end == rest || *end != (i < 2 ? ',' : 0)) {
            return false;
        }
        rest = end + 1;
    }
    out->given = true;
    return true;
}

static bool append_to_list(const char *text, option_list *out)
{
    if (out->count == OPTION_LIST_MOST) {
        return false;
    }
    out->values[out->count++] = text;
    return true;
}

static bool set_option(const option *o, const char *text)
{
    switch (o->kind) {
    case OPTION_FLAG:
        *(bool *)o->target = true;
        return true;
    case OPTION_TEXT:
    case OPTION_WORD:
    case OPTION_SELECTOR:
    case OPTION_BACKEND:
        *(const char **)o->target = text;
        return true;
    case OPTION_SEED:
        return parse_integer(text, false, o->target);
    case OPTION_INTEGER:
        return parse_integer(text, false, o->target) && *(int64_t *)o->target > 0;
    case OPTION_THREADS:
        return parse_integer(text, false, o->target) && *(int64_t *)o->target > 0 &&
               *(int64_t *)o->target <= MOST_THREADS;
    case OPTION_SIZE:
        return parse_integer(text, true, o->target) && *(int64_t *)o->target > 0;
    case OPTION_REAL:
        return parse_real(text, o->target);
    case OPTION_TRIPLE:
        return parse_triple(text, o->target);
    case OPTION_LIST:
        return append_to_list(text, o->target);
    }
    return false;
}

static const option *find_option(const option *options, const char *name, size_t length)
{
    for (const option *o = options; o->name != NULL; o++) {
        if (strlen(o->name) == length && strncmp(o->name, name, length) == 0) {
            return o;
        }
    }
    return NULL;
}

/* -- refusals ---------------------------------------------------------------------------------- */

static int usage_error(const command *c, const char *what, const char *subject)
{
    print_error("grail %s: %s '%s'; see grail %s --help\n", c->name, what, subject, c->name);
    return EXIT_USAGE;
}

static const char *name_of_option(const void *list, int i)
{
    const option *options = list;
    return options[i].name;
}

static int unknown_option(const command *c, const option *options, const char *text, size_t length)
{
    char name[80];
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    const char *meant = grail_nearest_name(name, name_of_option, options);
    if (meant == NULL) {
        return usage_error(c, "unknown option", text - 2);
    }
    print_error("grail %s: unknown option '--%s'; did you mean '--%s'? see grail %s --help\n",
                c->name, name, meant, c->name);
    return EXIT_USAGE;
}

static const char *expected_value(option_kind kind)
{
    switch (kind) {
    case OPTION_SEED:
        return "an integer of at least 0";
    case OPTION_INTEGER:
        return "an integer of at least 1";
    case OPTION_THREADS:
        return "an integer from 1 to 1024";
    case OPTION_SIZE:
        return "a number of bytes above 0, such as 500M";
    case OPTION_TRIPLE:
        return "three numbers separated by commas";
    case OPTION_LIST:
        return "at most 32 values";
    default:
        return "a number";
    }
}

static int bad_value(const command *c, const option *o, const char *value)
{
    print_error("grail %s: --%s takes %s, not '%s'; see grail %s --help\n", c->name, o->name,
                expected_value(o->kind), value, c->name);
    return EXIT_USAGE;
}

/* -- words ------------------------------------------------------------------------------------- */

enum { MOST_WORDS = 16, WORDS_SIZE = 160 };

/* The words of an option, apart. */
typedef struct word_list {
    char text[WORDS_SIZE];
    const char *words[MOST_WORDS + 1];
} word_list;

static void split_words(const char *choices, word_list *out)
{
    int count = 0;
    snprintf(out->text, sizeof out->text, "%s", choices);
    char *rest = out->text;
    for (char *word = strsep(&rest, " "); word != NULL && count < MOST_WORDS;
         word = strsep(&rest, " ")) {
        out->words[count++] = word;
    }
    out->words[count] = NULL;
}

static const char *word_at(const void *list, int i)
{
    const word_list *l = list;
    return l->words[i];
}

int options_check_word(const command *c, const char *what, const char *choices, const char *value)
{
    word_list l = {0};
    split_words(choices, &l);
    for (int i = 0; l.words[i] != NULL; i++) {
        if (strcmp(l.words[i], value) == 0) {
            return EXIT_OK;
        }
    }
    const char *meant = grail_nearest_name(value, word_at, &l);
    print_error("grail %s: %s takes", c->name, what);
    for (int i = 0; l.words[i] != NULL; i++) {
        print_error("%s %s", i == 0 ? "" : l.words[i + 1] == NULL ? " or" : ",", l.words[i]);
    }
    print_error(", not '%s'; %s%s%ssee grail %s --help\n", value,
                meant == NULL ? "" : "did you mean '", meant == NULL ? "" : meant,
                meant == NULL ? "" : "'? ", c->name);
    return EXIT_USAGE;
}

static int check_word(const command *c, const option *o, const char *value)
{
    char name[80];
    snprintf(name, sizeof name, "--%s", o->name);
    return o->kind == OPTION_WORD ? options_check_word(c, name, o->choices, value) : EXIT_OK;
}

/* -- parsing ----------------------------------------------------------------------------------- */

/* What follows "--" in an argument, NULL for one that is no option; the short form is as long. */
static const char *option_name(const char *text)
{
    if (strcmp(text, "-o") == 0) {
        return "output";
    }
    return strncmp(text, "--", 2) == 0 ? text + 2 : NULL;
}

/* Parses "--name value" or "--name=value". *index moves past a separate value. */
static int parse_one(const command *c, const option *options, int argc, char **argv, int *index)
{
    const char *name = option_name(argv[*index]);
    const size_t length = strcspn(name, "=");
    const option *o = find_option(options, name, length);
    if (o == NULL) {
        return name == argv[*index] + 2 ? unknown_option(c, options, name, length)
                                        : usage_error(c, "unknown option", argv[*index]);
    }
    const char *value = name[length] == 0 ? NULL : name + length + 1;
    if (o->kind == OPTION_FLAG && value != NULL) {
        return usage_error(c, "this option takes no value:", argv[*index]);
    }
    if (o->kind != OPTION_FLAG && value == NULL) {
        if (*index + 1 >= argc) {
            return usage_error(c, "missing value after", argv[*index]);
        }
        value = argv[++*index];
    }
    if (check_word(c, o, value) != EXIT_OK) {
        return EXIT_USAGE;
    }
    given[o - options] = value == NULL ? "" : value;
    return set_option(o, value) ? EXIT_OK : bad_value(c, o, value);
}

argument argument_at(const option *options, int argc, char **argv, int *index)
{
    const char *name = option_name(argv[*index]);
    const size_t length = name == NULL ? 0 : strcspn(name, "=");
    const option *o = name == NULL ? NULL : find_option(options, name, length);
    if (o == NULL) {
        return (argument){.value = argv[*index]};
    }
    const char *value = name[length] == 0 ? NULL : name + length + 1;
    if (o->kind != OPTION_FLAG && value == NULL && *index + 1 < argc) {
        value = argv[++*index];
    }
    return (argument){.option = o, .value = value};
}

static bool is_missing(const option *o)
{
    const char *const *text = o->target;
    return o->need == REQUIRED && *text == NULL;
}

/* Names all that is missing at once. */
static int check_required(const command *c, const option *options)
{
    int missing = 0;
    for (const option *o = options; o->name != NULL; o++) {
        if (is_missing(o)) {
            if (missing++ == 0) {
                print_error("grail %s: give", c->name);
            }
            print_error("%s --%s %s", missing == 1 ? "" : " and", o->name, o->argument);
        }
    }
    if (missing == 0) {
        return EXIT_OK;
    }
    print_error("; see grail %s --help\n", c->name);
    return EXIT_USAGE;
}

/* -- options without effect -------------------------------------------------------------------- */

/* Whether the option that a word names, "name" or "name=value", was given, with that value. */
static bool is_given(const option *options, const char *word)
{
    const size_t length = strcspn(word, "=");
    const option *o = find_option(options, word, length);
    const char *value = o == NULL ? NULL : given[o - options];
    return value != NULL && (word[length] == 0 || strcmp(value, word + length + 1) == 0);
}

static bool exists(const option *options, const char *word)
{
    return find_option(options, word, strcspn(word, "=")) != NULL;
}

/* The first word that was given, NULL for none. */
static const char *first_given(const option *options, const word_list *l)
{
    for (int i = 0; l->words[i] != NULL; i++) {
        if (is_given(options, l->words[i])) {
            return l->words[i];
        }
    }
    return NULL;
}

static int refuse_alone(const command *c, const option *options, const option *o,
                        const word_list *l)
{
    print_error("grail %s: --%s has no effect without", c->name, o->name);
    for (int i = 0, named = 0; l->words[i] != NULL; i++) {
        if (exists(options, l->words[i])) {
            print_error("%s --%s", named++ == 0 ? "" : " or", l->words[i]);
        }
    }
    print_error("; give both or neither, see grail %s --help\n", c->name);
    return EXIT_USAGE;
}

static int check_effect(const command *c, const option *options, const option *o)
{
    word_list with = {0};
    word_list without = {0};
    split_words(o->only_with == NULL ? "" : o->only_with, &with);
    split_words(o->never_with == NULL ? "" : o->never_with, &without);
    if (o->only_with != NULL && first_given(options, &with) == NULL) {
        return refuse_alone(c, options, o, &with);
    }
    const char *other = first_given(options, &without);
    if (other != NULL) {
        const size_t name = strcspn(other, "=");
        print_error("grail %s: --%s has no effect with --%.*s%s%s; drop one of them, see grail %s "
                    "--help\n",
                    c->name, o->name, (int)name, other, other[name] == 0 ? "" : " ",
                    other[name] == 0 ? "" : other + name + 1, c->name);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static int check_effects(const command *c, const option *options)
{
    int code = EXIT_OK;
    for (const option *o = options; o->name != NULL && code == EXIT_OK; o++) {
        code = given[o - options] == NULL ? EXIT_OK : check_effect(c, options, o);
    }
    return code;
}

static bool means_help(const char *text)
{
    return strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0;
}

int options_parse(const command *c, const option *options, int argc, char **argv,
                  const char **positional, bool *help)
{
    int found = 0;
    *help = false;
    parsed = options;
    for (int i = 1; i < argc; i++) {
        if (means_help(argv[i])) {
            *help = true;
            help_print(c, options);
            return EXIT_OK;
        }
        if (option_name(argv[i]) != NULL) {
            const int code = parse_one(c, options, argc, argv, &i);
            if (code != EXIT_OK) {
                return code;
            }
        } else if (argv[i][0] == '-' && argv[i][1] != 0) {
            return usage_error(c, "unknown option", argv[i]);
        } else if (found == c->positional_count) {
            return usage_error(c, "unexpected argument", argv[i]);
        } else {
            positional[found++] = argv[i];
        }
    }
    if (found < c->positional_count) {
        print_error("grail %s: expected %s; see grail %s --help\n", c->name, c->arguments, c->name);
        return EXIT_USAGE;
    }
    const int code = check_required(c, options);
    return code == EXIT_OK ? check_effects(c, options) : code;
}

/* -- fields of the library --------------------------------------------------------------------- */

static bool sets_field(const option *o, const char *field, size_t length)
{
    const char *name = o->field == NULL ? o->name : o->field;
    size_t i = 0;
    while (i < length && name[i] != 0 && (name[i] == '-' ? '_' : name[i]) == field[i]) {
        i++;
    }
    return i == length && name[i] == 0;
}

void options_given_fields(char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (const option *o = parsed; o->name != NULL; o++) {
        const char *name = o->field == NULL ? o->name : o->field;
        if (given[o - parsed] == NULL || used + strlen(name) + 2 > size) {
            continue;
        }
        used += used == 0 ? 0 : (size_t)snprintf(text + used, size - used, " ");
        for (; *name != 0; name++) {
            text[used++] = (char)(*name == '-' ? '_' : *name);
        }
        text[used] = 0;
    }
}

void options_of_fields(const char *fields, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (const char *field = fields; *field != 0; field += strspn(field, " ")) {
        const size_t length = strcspn(field, " ");
        for (const option *o = parsed; o != NULL && o->name != NULL; o++) {
            if (sets_field(o, field, length) && used + strlen(o->name) + 8 < size) {
                used += (size_t)snprintf(text + used, size - used, "%s--%s",
                                         used == 0 ? " (" : ", ", o->name);
            }
        }
        field += length;
    }
    if (used > 0) {
        snprintf(text + used, size - used, ")");
    }
}
