/* grail: the command line over <grail/grail.h>. */
#include "command_line.h"
#include "print.h"
#include "process.h"
#include "ranks.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const command *const commands[] = {
    &command_inspect, &command_plan,   &command_gram,       &command_compress, &command_heal,
    &command_eval,    &command_verify, &command_generate,   &command_export,   &command_quantize,
    &command_doctor,  &command_logits, &command_completion,
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

const command *command_at(int i)
{
    return i >= 0 && i < COMMAND_COUNT ? commands[i] : NULL;
}

typedef void (*printer)(const char *format, ...) GRAIL_PRINTF(1, 2);

static void print_usage(printer print)
{
    print("grail %s - narrow trained networks and repair them in closed form\n\n"
          "usage: grail COMMAND ...\n\n",
          grail_version());
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (!commands[i]->hidden) {
            print("  %-12s%s\n", commands[i]->name, commands[i]->summary);
        }
    }
    print("  %-12s%s\n", "help", HELP_SUMMARY);
    print("\n'grail NAME' runs the program grail-NAME where NAME is none of these: the package for "
          "Python\nadds 'sweep', 'report' and 'bench'.\n");
    print("\n'grail help COMMAND' and 'grail COMMAND --help' list the options of a command.\n"
          "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 numerical failure or a failed check.\n");
}

static const char *command_name_at(const void *list, int i)
{
    (void)list;
    return i == COMMAND_COUNT ? "help" : i < COMMAND_COUNT ? commands[i]->name : NULL;
}

/* These come with the package for Python. */
static bool is_of_package(const char *name)
{
    static const char *const names[] = {"sweep", "report", "bench"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static int refuse_unknown(const char *name)
{
    const char *meant = grail_nearest_name(name, command_name_at, NULL);
    if (is_of_package(name)) {
        print_error("grail: '%s' is a command of the package for Python, and no directory of PATH "
                    "has grail-%s; install it with: pip install grail-compress\n",
                    name, name);
        return EXIT_USAGE;
    }
    print_error("grail: unknown command '%s'; %s%s%ssee grail --help\n", name,
                meant == NULL ? "" : "did you mean '", meant == NULL ? "" : meant,
                meant == NULL ? "" : "'? ");
    return EXIT_USAGE;
}

static int run_one(const command *c, int argc, char **argv)
{
    help_page help = HELP_NONE;
    const char *arguments[MOST_ARGUMENTS] = {NULL};
    print_as_command(c->name);
    int code = ranks_check(c);
    shared_options_init();
    code = code == EXIT_OK ? options_parse(c, argc, argv, arguments, &help) : code;
    if (code == EXIT_OK && help != HELP_NONE) {
        help_print(c, options_parsed(), help);
    } else if (code == EXIT_OK) {
        if (asked.threads > 0) {
            grail_set_threads((int)asked.threads);
        }
        if (shared_options_use_torch() || asked.torch != NULL) {
            torch_find(asked.torch);
        }
        onnxruntime_find(argc, argv);
        code = c->run(arguments);
    }
    return code;
}

static int run_named(int argc, char **argv)
{
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i]->name, argv[0]) == 0) {
            return run_one(commands[i], argc, argv);
        }
    }
    external_run(argv);
    return refuse_unknown(argv[0]);
}

/* argv[0] is "help" or an option that means it. */
static int print_help_of(int argc, char **argv)
{
    static char help_option[] = "--help";
    if (argc == 1 || argv[1][0] == '-' || strcmp(argv[1], "help") == 0) {
        print_usage(print_out);
        return EXIT_OK;
    }
    if (argc > 2) {
        print_error("grail help: unexpected argument '%s'; see grail --help\n", argv[2]);
        return EXIT_USAGE;
    }
    char *arguments[] = {argv[1], help_option, NULL};
    return run_named(2, arguments);
}

static int run_command(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(print_error);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        return print_help_of(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        print_out("grail %s\n", grail_version());
        return EXIT_OK;
    }
    return run_named(argc - 1, argv + 1);
}

/* Buffered output can still fail to be written. */
static int flush_output(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && ferror(stdout) == 0) {
        return code;
    }
    print_error("grail: cannot write to standard output%s%s\n", errno == 0 ? "" : ": ",
                errno == 0 ? "" : strerror(errno));
    return code == EXIT_OK ? EXIT_FAILED : code;
}

int main(int argc, char **argv)
{
    if (!descriptors_open_missing()) {
        print_error("grail: cannot open '/dev/null' in place of a closed descriptor: %s\n",
                    strerror(errno));
        return EXIT_FAILED;
    }
    heap_arrange();
    print_start();
    interrupt_start();
    command_line_note(argc, argv);
    signal(SIGXFSZ, SIG_IGN); /* so that the write fails with an error that names the file */
    ranks_start();
    const int code = ranks_leave(flush_output(run_command(argc, argv)));
    interrupt_end();
    return code;
}
