#include "options.h"

#include "print.h"

#include <grail/compress.h>
#include <grail/machine.h>
#include <grail/names.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPTIONS = 96 };

/* The complete table of the command that was parsed, NULL before. */
static const option *parsed;

/* What was given for each of its rows, "" for a flag; NULL: nothing. */
static const char *given[MOST_OPTIONS];

/* The "--" of the arguments that were parsed, NULL for none. */
static char **end_of_options;

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
    if (kind == OPTION_BACKEND && (i == 0 || find_backend(i - 1, &backend))) {
        *meaning = "torch:cuda where the network is large and PyTorch, which is named, sees a GPU; "
                   "else cpu";
        return "auto";
    }
    const char *name = kind == OPTION_SELECTOR ? grail_selector_at(i) : NULL;
    if (name != NULL && grail_selector_describe(name, &selector) == GRAIL_OK) {
        *meaning = selector.summary;
    }
    return name;
}

/* -- tables ------------------------------------------------------------------------------------ */

static const option *find_option(const option *options, const char *name, size_t length)
{
    for (const option *o = options; o->name != NULL; o++) {
        if (strlen(o->name) == length && strncmp(o->name, name, length) == 0) {
            return o;
        }
    }
    return NULL;
}

static option_kind kind_of(grail_option_type type)
{
    static const struct {
        grail_option_type type;
        option_kind kind;
    } kinds[] = {{GRAIL_OPTION_FLAG, OPTION_FLAG},         {GRAIL_OPTION_CHOICE, OPTION_WORD},
                 {GRAIL_OPTION_SELECTOR, OPTION_SELECTOR}, {GRAIL_OPTION_BACKEND, OPTION_BACKEND},
                 {GRAIL_OPTION_TEXT, OPTION_TEXT},         {GRAIL_OPTION_WORD, OPTION_TEXT}};
    option_kind kind = OPTION_REAL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        kind = kinds[i].type == type ? kinds[i].kind : kind;
    }
    return kind;
}

static option row_of(const option *fields, const grail_option *of)
{
    return (option){
        .group = fields->group,
        .name = of->name,
        .kind = kind_of(of->type),
        .target = fields->target,
        .argument = of->argument,
        .words = of->words,
        .help = of->help,
        .only_with = of->only_with,
        .never_with = of->never_with,
        .field = of->field,
        .recorded = of->unrecorded != 0 ? "" : NULL,
        .of = of,
    };
}

/* Whether a row of OPTION_FIELDS stands for this one. */
static bool takes_field(const option *rows, const option *row, const grail_option *of)
{
    if (of->name == NULL || row->name[0] != 0) {
        return of->name != NULL && strcmp(row->name, of->name) == 0;
    }
    return of->subject == row->subject && find_option(rows, of->name, strlen(of->name)) == NULL;
}

const option *options_complete(const option *rows)
{
    static option complete[MOST_OPTIONS];
    int count = 0;
    for (const option *row = rows; row->name != NULL; row++) {
        if (row->kind != OPTION_FIELDS) {
            complete[count++] = *row;
            continue;
        }
        for (int i = 0; row->fields(i) != NULL; i++) {
            const grail_option *of = row->fields(i);
            if (takes_field(rows, row, of)) {
                complete[count++] = row_of(row, of);
            }
        }
    }
    complete[count] = (option){0};
    return complete;
}

const option *options_parsed(void)
{
    return parsed;
}

bool option_given(const char *name)
{
    const option *o = find_option(parsed, name, strlen(name));
    return o != NULL && given[o - parsed] != NULL;
}

/* -- values ------------------------------------------------------------------------------------ */

/* How the texts of a row are read: those of a command's own variables as these say. */
static const grail_option *description_of(const option *o)
{
#define OF(c_type, as, ...)                                                                        \
    {                                                                                              \
        .field = "", .size = sizeof(c_type), .type = (as), __VA_ARGS__                             \
    }
    static const grail_option kinds[] = {
        [OPTION_FLAG] = OF(bool, GRAIL_OPTION_FLAG, .least = 0.0),
        [OPTION_TEXT] = OF(char *, GRAIL_OPTION_TEXT, .least = 0.0),
        [OPTION_WORD] = OF(char *, GRAIL_OPTION_TEXT, .least = 0.0),
        [OPTION_SELECTOR] = OF(char *, GRAIL_OPTION_TEXT, .least = 0.0),
        [OPTION_BACKEND] = OF(char *, GRAIL_OPTION_TEXT, .least = 0.0),
        [OPTION_INTEGER] = OF(int64_t, GRAIL_OPTION_INTEGER, .least = 1.0),
        [OPTION_THREADS] =
            OF(int64_t, GRAIL_OPTION_INTEGER, .least = 1.0, .below = MOST_THREADS + 1.0),
        [OPTION_SIZE] = OF(int64_t, GRAIL_OPTION_SIZE, .least = 1.0),
        [OPTION_REAL] = OF(double, GRAIL_OPTION_REAL, .least = -(double)INFINITY),
    };
#undef OF
    return o->of != NULL ? o->of : &kinds[o->kind];
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
    return o->kind == OPTION_LIST
               ? append_to_list(text, o->target)
               : grail_option_set(description_of(o), o->target, text) == GRAIL_OK;
}

/* -- refusals ---------------------------------------------------------------------------------- */

static const char *name_of_option(const void *list, int i)
{
    const option *options = list;
    return options[i].name;
}

static int unknown_option(const char *text)
{
    char name[80];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 2, "="), text + 2);
    const char *meant = text[1] == '-' ? grail_nearest_name(name, name_of_option, parsed) : NULL;
    return meant == NULL ? print_misuse("unknown option '%s'", text)
                         : print_misuse("unknown option '--%s'; did you mean '--%s'?", name, meant);
}

static int bad_value(const option *o, const char *value)
{
    char expected[160];
    if (o->kind == OPTION_LIST) {
        return print_misuse("--%s may be given at most %d times", o->name, OPTION_LIST_MOST);
    }
    grail_option_expected(description_of(o), expected, sizeof expected);
    return print_misuse("--%s takes %s, not '%s'", o->name, expected, value);
}

/* -- words ------------------------------------------------------------------------------------- */

enum { MOST_WORDS = 16, TEXT_SIZE = 400 };

/* The words of an option, apart. */
typedef struct word_list {
    char text[160];
    const char *words[MOST_WORDS + 1];
} word_list;

static void split_words(const char *words, word_list *out)
{
    int count = 0;
    snprintf(out->text, sizeof out->text, "%s", words == NULL ? "" : words);
    char *rest = out->text;
    for (char *word = strsep(&rest, " "); word != NULL && count < MOST_WORDS;
         word = strsep(&rest, " ")) {
        out->words[count++] = word;
    }
    out->words[count] = NULL;
}

static const char *word_at(const void *list, int i)
{
    const char *const *words = list;
    return words[i];
}

int options_check_word(const char *what, const char *const *words, const char *value)
{
    char list[TEXT_SIZE] = "";
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], value) == 0) {
            return EXIT_OK;
        }
        append_text(list, sizeof list, "%s %s",
                    i == 0                 ? ""
                    : words[i + 1] == NULL ? " or"
                                           : ",",
                    words[i]);
    }
    const char *meant = grail_nearest_name(value, word_at, words);
    return meant == NULL
               ? print_misuse("%s takes%s, not '%s'", what, list, value)
               : print_misuse("%s takes%s, not '%s'; did you mean '%s'?", what, list, value, meant);
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

bool options_ended(char **at)
{
    return end_of_options != NULL && at >= end_of_options;
}

argument argument_at(int argc, char **argv, int *index)
{
    if (options_ended(argv + *index)) {
        return (argument){.value = argv + *index == end_of_options ? NULL : argv[*index]};
    }
    const char *name = option_name(argv[*index]);
    const size_t length = name == NULL ? 0 : strcspn(name, "=");
    const option *o = name == NULL ? NULL : find_option(parsed, name, length);
    if (o == NULL) {
        return (argument){.value = argv[*index]};
    }
    const char *value = name[length] == 0 ? NULL : name + length + 1;
    if (o->kind != OPTION_FLAG && value == NULL && *index + 1 < argc) {
        value = argv[++*index];
    }
    return (argument){.option = o, .value = value};
}

/* Takes an option, which stood as `text`. */
static int take_option(const option *o, const char *value, const char *text)
{
    if (o->kind == OPTION_FLAG && value != NULL) {
        return print_misuse("--%s takes no value, not even '%s'", o->name, value);
    }
    if (o->kind != OPTION_FLAG && value == NULL) {
        return print_misuse("no value follows '%s'; give --%s %s", text, o->name, o->argument);
    }
    if (o->kind == OPTION_WORD) {
        char name[80];
        snprintf(name, sizeof name, "--%s", o->name);
        const int code = options_check_word(name, o->words, value);
        if (code != EXIT_OK) {
            return code;
        }
    }
    given[o - parsed] = value == NULL ? "" : value;
    return set_option(o, value) ? EXIT_OK : bad_value(o, value);
}

/* Names all that is missing at once. */
static int check_required(void)
{
    char missing[TEXT_SIZE] = "";
    for (const option *o = parsed; o->name != NULL; o++) {
        const char *const *text = o->target;
        if (o->need == REQUIRED && *text == NULL) {
            append_text(missing, sizeof missing, "%s --%s %s", missing[0] == 0 ? "" : " and",
                        o->name, o->argument);
        }
    }
    return missing[0] == 0 ? EXIT_OK : print_misuse("give%s", missing);
}

/* -- options without effect -------------------------------------------------------------------- */

/* Whether the option that a word names, "name" or "name=value", was given, with that value. */
static bool is_given(const char *word)
{
    const size_t length = strcspn(word, "=");
    const option *o = find_option(parsed, word, length);
    const char *value = o == NULL ? NULL : given[o - parsed];
    if (o != NULL && o->assumed && value == NULL) {
        return word[length] == 0;
    }
    return value != NULL && (word[length] == 0 || strcmp(value, word + length + 1) == 0);
}

/* The first word that was given, NULL for none. */
static const char *first_given(const word_list *l)
{
    int i = 0;
    while (l->words[i] != NULL && !is_given(l->words[i])) {
        i++;
    }
    return l->words[i];
}

/* Adds an option that a word names as it is typed, "--name" or "--name value". */
static void append_word(const char *word, char text[TEXT_SIZE])
{
    const size_t name = strcspn(word, "=");
    const bool valued = word[name] != 0;
    append_text(text, TEXT_SIZE, "--%.*s%s%s", (int)name, word, valued ? " " : "",
                valued ? word + name + 1 : "");
}

static int refuse_alone(const option *o, const word_list *l)
{
    char list[TEXT_SIZE] = "";
    const char *words[MOST_WORDS];
    int count = 0;
    for (int i = 0; l->words[i] != NULL; i++) {
        if (find_option(parsed, l->words[i], strcspn(l->words[i], "=")) != NULL) {
            words[count++] = l->words[i];
        }
    }
    for (int i = 0; i < count; i++) {
        append_text(list, sizeof list, "%s", i == 0 ? "" : i + 1 == count ? " and " : ", ");
        append_word(words[i], list);
    }
    return print_misuse("--%s has no effect without %s%s; give %s, or leave --%s out", o->name,
                        count > 1 ? "one of " : "", list, count > 1 ? "one of them" : "it too",
                        o->name);
}

static int check_effect(const option *o)
{
    char name[TEXT_SIZE] = "";
    word_list with = {0};
    word_list without = {0};
    split_words(o->only_with, &with);
    split_words(o->never_with, &without);
    if (o->only_with != NULL && first_given(&with) == NULL) {
        return refuse_alone(o, &with);
    }
    const char *other = first_given(&without);
    if (other == NULL) {
        return EXIT_OK;
    }
    append_word(other, name);
    return print_misuse("--%s has no effect with %s; leave one of the two out", o->name, name);
}

static int check_effects(void)
{
    int code = EXIT_OK;
    for (const option *o = parsed; o->name != NULL && code == EXIT_OK; o++) {
        code = given[o - parsed] == NULL ? EXIT_OK : check_effect(o);
    }
    return code;
}

int options_parse(const command *c, int argc, char **argv, const char *arguments[MOST_ARGUMENTS],
                  help_page *help)
{
    int found = 0;
    parsed = options_complete(c->options);
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        const bool ended = end_of_options != NULL;
        if (!ended && (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0)) {
            *help = HELP_FIRST;
            return EXIT_OK;
        }
        if (!ended && strcmp(text, "--help-all") == 0) {
            *help = HELP_ALL;
            return EXIT_OK;
        }
        if (!ended && strcmp(text, "--") == 0) {
            end_of_options = argv + i;
            continue;
        }
        const argument a = argument_at(argc, argv, &i);
        int code = EXIT_OK;
        if (a.option != NULL) {
            code = take_option(a.option, a.value, text);
        } else if (!ended && text[0] == '-' && text[1] != 0) {
            code = unknown_option(text);
        } else if (found == c->argument_count) {
            code = print_misuse("unexpected argument '%s'", text);
        } else {
            arguments[found++] = text;
        }
        if (code != EXIT_OK) {
            return code;
        }
    }
    if (found < c->argument_count) {
        return print_misuse("expected %s", c->arguments);
    }
    const int code = check_required();
    return code == EXIT_OK ? check_effects() : code;
}

/* -- fields of the library --------------------------------------------------------------------- */

/* Behind the struct that holds it. */
static const char *last_part(const char *field)
{
    const char *point = strrchr(field, '.');
    return point == NULL ? field : point + 1;
}

/* Fields are compared without the structs that hold them: what reads a text or computes does not
 * know of which struct its options are a part. */
static bool sets_field(const option *o, const char *field, size_t length)
{
    const char *name = last_part(o->field == NULL ? o->name : o->field);
    const char *point = memrchr(field, '.', length);
    const size_t skipped = point == NULL ? 0 : (size_t)(point + 1 - field);
    size_t i = 0;
    while (i < length - skipped && name[i] != 0 &&
           (name[i] == '-' ? '_' : name[i]) == field[skipped + i]) {
        i++;
    }
    return i == length - skipped && name[i] == 0;
}

void options_given_fields(char *text, size_t size)
{
    text[0] = 0;
    for (const option *o = parsed; o->name != NULL; o++) {
        const size_t used = strlen(text);
        const char *name = o->field == NULL ? o->name : o->field;
        if (given[o - parsed] == NULL || used + strlen(name) + 2 > size) {
            continue;
        }
        append_text(text, size, "%s%s", used == 0 ? "" : " ", name);
        for (char *at = strchr(text + used, '-'); at != NULL; at = strchr(at, '-')) {
            *at = '_';
        }
    }
}

void options_of_fields(const char *fields, char *text, size_t size)
{
    text[0] = 0;
    for (const char *field = fields; *field != 0; field += strspn(field, " ")) {
        const size_t length = strcspn(field, " ");
        for (const option *o = parsed; o != NULL && o->name != NULL; o++) {
            if (sets_field(o, field, length) && strlen(text) + strlen(o->name) + 8 < size) {
                append_text(text, size, "%s--%s", text[0] == 0 ? " (" : ", ", o->name);
            }
        }
        field += length;
    }
    append_text(text, size, "%s", text[0] == 0 ? "" : ")");
}
