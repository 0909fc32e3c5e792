/* Command-line options: one table per command drives parsing, --help and completion. */
#ifndef GRAIL_CLI_OPTIONS_H
#define GRAIL_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum option_kind {
    OPTION_FLAG,     /* bool */
    OPTION_TEXT,     /* const char * */
    OPTION_SELECTOR, /* const char *; the help lists the names that the library knows */
    OPTION_BACKEND,  /* likewise */
    OPTION_INTEGER,  /* int64_t, not negative */
    OPTION_THREADS,  /* int64_t, up to MOST_THREADS */
    OPTION_SIZE,     /* int64_t bytes; suffixes K, M, G */
    OPTION_REAL,     /* double */
    OPTION_TRIPLE,   /* option_triple: three numbers separated by commas */
    OPTION_LIST      /* option_list: the option may be repeated */
} option_kind;

typedef struct option_triple {
    double values[3];
    bool given;
} option_triple;

enum { OPTION_LIST_MOST = 32 };

typedef struct option_list {
    const char *values[OPTION_LIST_MOST];
    int count;
} option_list;

typedef struct option {
    const char *name; /* without dashes */
    option_kind kind;
    void *target;
    const char *argument; /* shown in help, such as "FILE"; NULL for flags */
    const char *choices;  /* space-separated words for completion, or NULL */
    const char *help;     /* NULL: not shown */
} option;

/** Which precision products have; `usual` is what is taken without the option. */
#define PRECISION_OPTION(variable, usual)                                                          \
    {                                                                                              \
        "precision", OPTION_TEXT, &(variable), "NAME", "auto f32 bf16 bf16-gram f64",              \
            "precision of products: f32, bf16 (with f32 sums), bf16-gram (Gram matrices, too), "   \
            "f64 (ref alone), or auto: bf16 for large networks stored in 16 bits where that is "   \
            "faster here (" usual ")"                                                              \
    }

typedef struct command {
    const char *name;
    const char *arguments; /* positional ones, such as "MODEL" */
    int positional_count;
    const char *summary; /* one line */
    const char *details; /* paragraph for --help, may be NULL */
    int (*run)(int argc, char **argv);
    bool hidden;
} command;

/** Above any sensible number: the OpenMP run time ends the program when it cannot start so many
 * threads. */
enum { MOST_THREADS = 1024 };

/** Exit codes. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NUMERIC = 3 };

/**
 * Parses argv[1..] of a command. positional[] gets the arguments that are not options. Returns
 * EXIT_OK, or EXIT_USAGE after a message on stderr. Where --help was given, prints the help and
 * sets *help.
 */
int options_parse(const command *c, const option *options, int argc, char **argv,
                  const char **positional, bool *help);

/** The i-th name that the library knows for an option of this kind, and what it means; NULL past
 * the last, and for other kinds. */
const char *option_known_name(option_kind kind, int i, const char **meaning);

/** The commands in order, NULL past the last, and the option table of a command; for completion. */
const command *command_at(int i);
const option *command_options(const char *name);

#endif
