#include "command_line.h"

#include "print.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int count;
static char **arguments;

void command_line_note(int argc, char **argv)
{
    count = argc;
    arguments = argv;
}

static bool is_plain(const char *text)
{
    return text[0] != 0 && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "0123456789_-./,=:+@%")] == 0;
}

/* A text that grows; NULL once memory has run out. */
typedef struct growing_text {
    char *text;
    size_t used, size;
    bool failed;
} growing_text;

static void put(growing_text *t, const char *more)
{
    const size_t length = strlen(more);
    if (!t->failed && t->used + length >= t->size) {
        t->size = 2 * (t->used + length + 1);
        char *larger = realloc(t->text, t->size);
        t->failed = larger == NULL;
        t->text = larger == NULL ? t->text : larger;
    }
    if (!t->failed) {
        memcpy(t->text + t->used, more, length + 1);
        t->used += length;
    }
}

static char *finish(growing_text *t)
{
    if (t->failed) {
        free(t->text);
        t->text = NULL;
    }
    return t->text;
}

/* In single quotes where a shell would not read it as it is; one of those inside becomes '\''. */
static void put_word(growing_text *t, const char *word)
{
    if (is_plain(word)) {
        put(t, word);
        return;
    }
    put(t, "'");
    for (; *word != 0; word++) {
        const char one[2] = {*word, 0};
        put(t, *word == '\'' ? "'\\''" : one);
    }
    put(t, "'");
}

/* " " and an argument that is no option. One that begins with a dash stood behind "--", which is
 * left out here: options may follow the path that it becomes. */
static void put_positional(growing_text *t, const char *word)
{
    put(t, word[0] == '-' ? " ./" : " ");
    put_word(t, word);
}

char *command_line_text(const char *more)
{
    growing_text t = {0};
    for (int i = 0; i < count; i++) {
        if (options_ended(arguments + i)) {
            continue;
        }
        put(&t, i == 0 ? "" : " ");
        put_word(&t, arguments[i]);
        more = more != NULL && strcmp(more, arguments[i]) == 0 ? NULL : more;
    }
    for (int i = 1; i < count; i++) {
        if (options_ended(arguments + i - 1)) {
            put_positional(&t, arguments[i]);
        }
    }
    if (more != NULL) {
        put(&t, " ");
        put(&t, more);
    }
    return finish(&t);
}

void command_line_print_resume(const char *output)
{
    char *partial = NULL;
    char *schedule = NULL;
    char *line = command_line_text("--resume");
    int length = (int)strlen(output);
    while (length > 1 && output[length - 1] == '/') {
        length--;
    }
    if (asprintf(&partial, "%.*s.partial", length, output) < 0) {
        partial = NULL;
    }
    if (asprintf(&schedule, "%.*s.schedule", length, output) < 0) {
        schedule = NULL;
    }
    if (partial != NULL && line != NULL && access(partial, F_OK) == 0) {
        print_error("; the finished part is in '%s'; continue it with:\n  %s", partial, line);
    } else if (schedule != NULL && line != NULL && access(schedule, F_OK) == 0) {
        print_error("; what was measured is in '%s'; continue it with:\n  %s", schedule, line);
    }
    print_error("\n");
    free(schedule);
    free(partial);
    free(line);
}

int command_line_print_failure(grail_status status)
{
    const bool goes_on = strstr(grail_error_fields(), "output.resume") != NULL;
    const int code = print_failure(status);
    char *line = goes_on && ranks_is_first() ? command_line_text("--resume") : NULL;
    if (line != NULL) {
        print_error("grail: continue it with:\n  %s\n", line);
    }
    free(line);
    return code;
}

int command_line_print_interrupted(const char *output)
{
    print_error("grail: interrupted");
    command_line_print_resume(output);
    return EXIT_FAILED;
}

static void put_recorded(growing_text *t, const argument *a)
{
    const char *shown = a->option == NULL ? NULL : a->option->recorded;
    if (shown != NULL && shown[0] == 0) {
        return;
    }
    if (a->option != NULL) {
        put(t, " --");
        put(t, a->option->name);
    }
    if (a->option == NULL && a->value != NULL) {
        put_positional(t, a->value);
    } else if (a->value != NULL) {
        put(t, " ");
        put_word(t, shown == NULL ? a->value : shown);
    }
}

char *command_line_recorded(void)
{
    growing_text t = {0};
    put(&t, "grail ");
    put(&t, count > 1 ? arguments[1] : "");
    for (int i = 2; i < count; i++) {
        const argument a = argument_at(count, arguments, &i);
        put_recorded(&t, &a);
    }
    return finish(&t);
}

static bool says_samples_or_machine(const argument *a)
{
    return a->option != NULL &&
           (a->option->group == GROUP_INPUT || a->option->group == GROUP_MACHINE);
}

static void put_positionals(growing_text *t)
{
    for (int i = 2; i < count; i++) {
        const argument a = argument_at(count, arguments, &i);
        if (a.option == NULL && a.value != NULL) {
            put_positional(t, a.value);
        }
    }
}

/* What is said of samples and of the machine, as it was given. */
static void put_options(growing_text *t)
{
    for (int i = 2; i < count; i++) {
        const int first = i;
        const argument a = argument_at(count, arguments, &i);
        for (int k = first; says_samples_or_machine(&a) && k <= i; k++) {
            put(t, " ");
            put_word(t, arguments[k]);
        }
    }
}

char *command_line_next(const char *name, const char *const words[])
{
    growing_text t = {0};
    put(&t, "grail ");
    put(&t, name);
    put_positionals(&t);
    for (int i = 0; words[i] != NULL; i++) {
        put(&t, " ");
        put_word(&t, words[i]);
    }
    put_options(&t);
    return finish(&t);
}
