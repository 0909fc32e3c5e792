/* --help of a command, from its option table. */
#include "options.h"

#include "print.h"

#include <stdio.h>
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

static void print_left(const char *left)
{
    if (strlen(left) >= HELP_COLUMN) {
        print_out("%s\n%*s", left, HELP_COLUMN, "");
    } else {
        print_out("%-*s", HELP_COLUMN, left);
    }
}

static void print_option(const option *o)
{
    static const char *const marks[] = {
        [OPTIONAL] = "", [REQUIRED] = "[required] ", [ONE_REQUIRED] = "[one required] "};
    char left[80];
    snprintf(left, sizeof left, "  --%s%s%s", o->name, o->argument == NULL ? "" : " ",
             o->argument == NULL ? "" : o->argument);
    print_left(left);
    print_out("%s", marks[o->need]);
    print_wrapped(o->help, HELP_COLUMN + (int)strlen(marks[o->need]), HELP_COLUMN);
    print_known_names(o->kind);
}

static bool is_on_page(const command *c, const option *o, help_page page)
{
    const size_t length = strlen(o->name);
    const char *at = c->first;
    while (at != NULL && *at != 0 &&
           (strncmp(at, o->name, length) != 0 || (at[length] != ' ' && at[length] != 0))) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    return page == HELP_ALL || at == NULL || *at != 0;
}

static void print_group(const command *c, const option *options, option_group group, help_page page)
{
    static const char *const titles[OPTION_GROUPS] = {
        [GROUP_INPUT] = "input",         [GROUP_CUT] = "what to cut",
        [GROUP_AMOUNT] = "how much",     [GROUP_EFFORT] = "effort and time",
        [GROUP_REPAIR] = "repair",       [GROUP_HEAL] = "healing",
        [GROUP_MEASURE] = "measurement", [GROUP_MACHINE] = "machine",
        [GROUP_OUTPUT] = "output",
    };
    bool begun = false;
    for (const option *o = options; o->name != NULL; o++) {
        if (o->group == group && is_on_page(c, o, page)) {
            if (!begun) {
                print_out("\n%s:\n", titles[group]);
            }
            begun = true;
            print_option(o);
        }
    }
}

static void print_usage_line(const command *c, const option *options)
{
    print_out("usage: grail %s%s%s", c->name, c->arguments[0] == 0 ? "" : " ", c->arguments);
    for (const option *o = options; o->name != NULL; o++) {
        if (o->need == REQUIRED) {
            print_out(" --%s %s", o->name, o->argument);
        }
    }
    print_out("%s\n", options->name == NULL ? "" : " [options]");
}

void help_print(const command *c, const option *options, help_page page)
{
    print_usage_line(c, options);
    print_out("\n%s\n", c->summary);
    if (c->details != NULL) {
        print_out("\n");
        print_wrapped(c->details, 0, 0);
    }
    for (int group = 0; group < OPTION_GROUPS; group++) {
        print_group(c, options, (option_group)group, page);
    }
    print_out("\nhelp:\n");
    print_left("  --help");
    print_out("print this help; short form: -h\n");
    if (c->first != NULL) {
        print_left("  --help-all");
        print_out("print the help of all options\n");
    }
    if (c->argument_count > 0) {
        print_left("  --");
        print_out("end of the options: %s may then begin with a dash\n", c->arguments);
    }
    if (c->examples != NULL) {
        print_out("\nexamples:\n");
    }
    for (int i = 0; c->examples != NULL && c->examples[i] != NULL; i++) {
        print_out("  %s\n", c->examples[i]);
    }
}
