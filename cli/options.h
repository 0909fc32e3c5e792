/* Command-line options: one table per command drives parsing, --help and completion. */
#ifndef GRAIL_CLI_OPTIONS_H
#define GRAIL_CLI_OPTIONS_H

#include <grail/options.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum option_kind {
    OPTION_FLAG,     /* bool */
    OPTION_TEXT,     /* const char * */
    OPTION_WORD,     /* const char *; one of `words` */
    OPTION_SELECTOR, /* const char *; the help lists the names that the library knows */
    OPTION_BACKEND,  /* likewise */
    OPTION_INTEGER,  /* int64_t, at least 1 */
    OPTION_THREADS,  /* int64_t, 1 to MOST_THREADS */
    OPTION_SIZE,     /* int64_t bytes, at least 1; suffixes K, M, G */
    OPTION_REAL,     /* double */
    OPTION_LIST,     /* option_list: the option may be repeated */
    OPTION_FIELDS    /* an option struct of the library: the option with the name of the row, or
                        with the name "" all those of a subject that the table has no row of */
} option_kind;

enum { OPTION_LIST_MOST = 32 };

typedef struct option_list {
    const char *values[OPTION_LIST_MOST];
    int count;
} option_list;

/** The groups of --help, in its order. */
typedef enum option_group {
    GROUP_INPUT,
    GROUP_CUT,
    GROUP_AMOUNT,
    GROUP_EFFORT,
    GROUP_REPAIR,
    GROUP_HEAL,
    GROUP_MEASURE,
    GROUP_MACHINE,
    GROUP_OUTPUT,
    OPTION_GROUPS
} option_group;

typedef enum option_need {
    OPTIONAL,
    REQUIRED,    /* of a kind with a text */
    ONE_REQUIRED /* exactly one of those marked so; the command checks it */
} option_need;

/** A row of a command's table: all that is known of an option. */
typedef struct option {
    option_group group;
    const char *name; /* without dashes */
    option_kind kind;
    void *target;
    const char *argument;     /* shown in help, such as "FILE"; NULL for flags */
    const char *const *words; /* for completion, up to NULL; or NULL */
    const char *help;
    option_need need;
    const char
        *only_with; /* options, of which the command has some: without one of them this one has
                       no effect. Words, "name" or "name=value"; NULL: it always has one */
    const char *never_with; /* likewise, options with which it has no effect; NULL: none */
    const char *field; /* of the library's option structs that it sets; NULL: named as the option,
                          with underscores */
    bool assumed;      /* the command does what the option says where it is not given */
    const char *recorded;   /* what a model card shows in place of its value, "" to leave the option
                               out; NULL: as given */
    grail_option_at fields; /* of OPTION_FIELDS */
    grail_option_subject subject;
    const grail_option *of; /* the library's description, of a row that came from it */
} option;

/** The row of one option that `at` describes; it sets a field of `owner`. */
#define FIELD_OF(group_of_help, at, option_name, owner)                                            \
    {                                                                                              \
        (group_of_help), (option_name), OPTION_FIELDS, &(owner), .fields = (at)                    \
    }

/** Words of a row. */
#define WORDS(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

/** The row of all options that `at` describes of a subject; they set fields of `owner`. */
#define FIELDS_OF(group_of_help, at, about, owner)                                                 \
    {                                                                                              \
        (group_of_help), "", OPTION_FIELDS, &(owner), .fields = (at), .subject = (about)           \
    }

typedef struct command {
    const char *name;
    const char *arguments; /* positional ones, such as "MODEL" */
    int argument_count;
    const char *summary;         /* one line */
    const char *details;         /* paragraph for --help, may be NULL */
    const char *const *examples; /* command lines for --help, up to NULL, that work in the directory
                                    of the source; may be NULL */
    const char *first;     /* names of the options on the first page of --help, separated by spaces;
                              NULL:     all */
    const option *options; /* up to one without a name */
    int (*run)(const char *const arguments[]); /* the positional ones; returns an exit code */
    bool hidden;
    bool shares_out; /* over the ranks that a launcher started (ranks.h) */
} command;

/** Above any sensible number: the OpenMP run time ends the program when it cannot start so many
 * threads. */
enum { MOST_THREADS = 1024, MOST_ARGUMENTS = 2 };

/** Exit codes. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NUMERIC = 3 };

/** Which help was asked for. */
typedef enum help_page { HELP_NONE, HELP_FIRST, HELP_ALL } help_page;

/**
 * Parses argv[1..] of a command. arguments[] gets those that are not options, such as all behind
 * "--". Returns EXIT_OK, or EXIT_USAGE after a message on stderr, also for an option without
 * effect. Where --help or --help-all was given, sets *help.
 */
int options_parse(const command *c, int argc, char **argv, const char *arguments[MOST_ARGUMENTS],
                  help_page *help);

/** The complete table of the command that was parsed, with the rows of the library. */
const option *options_parsed(void);

/** A table with the rows of the library in place of OPTION_FIELDS; valid until the next call. */
const option *options_complete(const option *rows);

/** Whether the option with this name was given. */
bool option_given(const char *name);

/** EXIT_OK where `value` is one of the words; else EXIT_USAGE, after a message that names `what`,
 * the words, and the one that was probably meant. */
int options_check_word(const char *what, const char *const *words, const char *value);

/** Whether an argument of the parsed command line is the "--" that ends the options, or behind it.
 */
bool options_ended(char **at);

/** What an argument of a command line is: a value of an option, or one by itself. */
typedef struct argument {
    const option *option; /* NULL: positional */
    const char *value;    /* NULL: of a flag, or the "--" that ends the options */
} argument;

/** The argument at argv[*index] of the parsed command line; *index moves past a separate value. */
argument argument_at(int argc, char **argv, int *index);

/** Writes how the options of the parsed command that set these fields of the library
 * (grail_error_fields) are called, " (--samples, --context)", or "" where it has none. */
void options_of_fields(const char *fields, char *text, size_t size);

/** Writes the names of the library's fields that the given options of the parsed command set,
 * "selector open_loop". */
void options_given_fields(char *text, size_t size);

/** The i-th name that the library knows for an option of this kind, and what it means; NULL past
 * the last, and for other kinds. */
const char *option_known_name(option_kind kind, int i, const char **meaning);

/** The commands, one file each, listed in main.c. */
extern const command command_inspect, command_plan, command_compress, command_heal, command_eval,
    command_verify, command_gram, command_export, command_quantize, command_generate,
    command_doctor, command_logits, command_completion;
/** In order, NULL past the last. */
const command *command_at(int i);

/** The summary of "grail help COMMAND", which main.c handles itself. */
#define HELP_SUMMARY "print the help of a command"

/** Prints a page of help of the command whose complete table of options this is. */
void help_print(const command *c, const option *options, help_page page);

#endif
