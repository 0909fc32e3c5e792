#include "options.h"

#include "print.h"

#include <grail/compress.h>
#include <grail/machine.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMN = 26, HELP_WIDTH = 100, NAME_WIDTH = 14 };

/* Prints the words of `text` from column `at` on; continuation lines begin at column `indent`. */
static void print_wrapped(const char *text, int at, int indent)
{
    const char *gap = "";
    for (const char *word = text; *word != 0;) {
        const int length = (int)strcspn(word, " \n");
        if (*gap != 0 && at + 1 + length > HELP_WIDTH) {
            print_out("\n%*s", indent, "");
            at = indent;
            gap = "";
        }
        print_out("%s%.*s", gap, length, word);
        at += (int)strlen(gap) + length;
        gap = " ";
        word += length;
        word += strspn(word, " \n");
    }
    print_out("\n");
}

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

static void print_known_names(option_kind kind)
{
    const int column = HELP_COLUMN + 2 + NAME_WIDTH;
    const char *meaning = "";
    const char *name = option_known_name(kind, 0, &meaning);
    for (int i = 1; name != NULL; name = option_known_name(kind, i++, &meaning)) {
        print_out("%*s%-*s", HELP_COLUMN + 2, "", NAME_WIDTH, name);
        print_wrapped(meaning, column, column);
    }
}

static void print_help(const command *c, const option *options)
{
    print_out("usage: grail %s%s%s [options]\n\n%s\n", c->name, c->arguments[0] == 0 ? "" : " ",
              c->arguments, c->summary);
    if (c->details != NULL) {
        print_out("\n");
        print_wrapped(c->details, 0, 0);
    }
    print_out("\noptions:\n");
    for (const option *o = options; o->name != NULL; o++) {
        if (o->help == NULL) {
            continue;
        }
        char left[80];
        snprintf(left, sizeof left, "  --%s%s%s", o->name, o->argument == NULL ? "" : " ",
                 o->argument == NULL ? "" : o->argument);
        if (strlen(left) >= HELP_COLUMN) {
            print_out("%s\n%*s", left, HELP_COLUMN, "");
        } else {
            print_out("%-*s", HELP_COLUMN, left);
        }
        print_wrapped(o->help, HELP_COLUMN, HELP_COLUMN);
        print_known_names(o->kind);
    }
    print_out("%-*s%s\n", HELP_COLUMN, "  --help", "print this help");
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
    case OPTION_SELECTOR:
    case OPTION_BACKEND:
        *(const char **)o->target = text;
        return true;
    case OPTION_INTEGER:
        return parse_integer(text, false, o->target);
    case OPTION_THREADS:
        return parse_integer(text, false, o->target) && *(int64_t *)o->target <= MOST_THREADS;
    case OPTION_SIZE:
        return parse_integer(text, true, o->target);
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

static int usage_error(const command *c, const char *what, const char *subject)
{
    print_error("grail %s: %s '%s'; see grail %s --help\n", c->name, what, subject, c->name);
    return EXIT_USAGE;
}

static const char *expected_value(option_kind kind)
{
    switch (kind) {
    case OPTION_INTEGER:
        return "an integer of at least 0";
    case OPTION_THREADS:
        return "an integer from 0 to 1024";
    case OPTION_SIZE:
        return "a number of bytes, such as 500M";
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

/* Parses "--name value" or "--name=value". *index moves past a separate value. */
static int parse_one(const command *c, const option *options, int argc, char **argv, int *index)
{
    const char *name = argv[*index] + 2;
    const char *equals = strchr(name, '=');
    const size_t length = equals == NULL ? strlen(name) : (size_t)(equals - name);
    const option *o = find_option(options, name, length);
    if (o == NULL) {
        return usage_error(c, "unknown option", argv[*index]);
    }
    const char *value = equals == NULL ? NULL : equals + 1;
    if (o->kind == OPTION_FLAG && value != NULL) {
        return usage_error(c, "this option takes no value:", argv[*index]);
    }
    if (o->kind != OPTION_FLAG && value == NULL) {
        if (*index + 1 >= argc) {
            return usage_error(c, "missing value after", argv[*index]);
        }
        value = argv[++*index];
    }
    return set_option(o, value) ? EXIT_OK : bad_value(c, o, value);
}

int options_parse(const command *c, const option *options, int argc, char **argv,
                  const char **positional, bool *help)
{
    int found = 0;
    *help = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *help = true;
            print_help(c, options);
            return EXIT_OK;
        }
        if (strcmp(argv[i], "-o") == 0) {
            static char output[] = "--output";
            argv[i] = output;
        }
        if (strncmp(argv[i], "--", 2) == 0) {
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
    return EXIT_OK;
}
