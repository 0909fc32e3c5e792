#ifndef GRAIL_OPTIONS_H
#define GRAIL_OPTIONS_H

#include <grail/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What is known of the fields of the option structs: a list of descriptions for each struct, such
 * as grail_compress_option_at. The library initialises and checks the structs by these lists;
 * command lines and bindings of other languages take names, help and the reading of texts from
 * them.
 */

/** A number that need not be given. */
typedef enum grail_number_choice {
    GRAIL_NUMBER_USUAL,          /* what the library or another option has chosen */
    GRAIL_NUMBER_GIVEN,          /* `value` */
    GRAIL_NUMBER_CROSS_VALIDATED /* found by cross-validation, where its description has a word */
} grail_number_choice;
typedef struct grail_number {
    grail_number_choice choice;
    double value; /* 0 unless it is given */
} grail_number;

/** A number for red, green and blue each, which need not be given. */
typedef struct grail_colour {
    int given; /* 1: the values count */
    double values[3];
} grail_colour;

/** The C type of a field, and what a text for it looks like. */
typedef enum grail_option_type {
    GRAIL_OPTION_FLAG,     /* int or bool: 0 or 1; no text */
    GRAIL_OPTION_CHOICE,   /* int or an enum: the place of a word in `words` */
    GRAIL_OPTION_INTEGER,  /* int or int64_t; the first of `words` stands for 0, others are
                              examples */
    GRAIL_OPTION_SIZE,     /* int64_t, bytes; a text may end with K, M or G, powers of 1024 */
    GRAIL_OPTION_SEED,     /* uint64_t */
    GRAIL_OPTION_REAL,     /* double */
    GRAIL_OPTION_SPARSITY, /* double: a removed fraction, 0 to below 1 */
    GRAIL_OPTION_SECONDS,  /* double; a text may end with s, m or h */
    GRAIL_OPTION_NUMBER,   /* grail_number; the first of `words` is cross-validation */
    GRAIL_OPTION_COLOUR,   /* grail_colour; a text has three numbers separated by commas */
    GRAIL_OPTION_TEXT,     /* const char *; `words` are examples */
    GRAIL_OPTION_WORD,     /* const char *: one of `words` */
    GRAIL_OPTION_SELECTOR, /* const char *: a name of grail_selector_at */
    GRAIL_OPTION_BACKEND,  /* const char *: a name of grail_backend_describe */
    GRAIL_OPTION_ROOM      /* GRAIL_ROOM of the struct that `what` names; no text, no name */
} grail_option_type;

typedef enum grail_option_subject {
    GRAIL_SUBJECT_READ, /* what is read */
    GRAIL_SUBJECT_CUT,
    GRAIL_SUBJECT_AMOUNT, /* how much is cut */
    GRAIL_SUBJECT_FIT,
    GRAIL_SUBJECT_HEAL,
    GRAIL_SUBJECT_MEASURE,
    GRAIL_SUBJECT_RUN, /* with which means */
    GRAIL_SUBJECT_OUTPUT,
    GRAIL_SUBJECT_EFFORT /* efforts and times, which choose others */
} grail_option_subject;

/** A field of an option struct. What does not apply is NULL or 0. */
typedef struct grail_option {
    const char *field; /* its name in the struct, as grail_error_fields has it */
    size_t offset, size;
    grail_option_type type;
    grail_option_subject subject;
    const char *what; /* it is, for messages: "the number of samples", "ridge scale"; NULL for flags
                         and choices, which messages call by their field */
    double least;     /* of numbers */
    double below;     /* all numbers are; 0: no limit */
    int zero_is_usual; /* 1: 0 stands for a value that the library chooses; no text means it */
    const char *const *words; /* up to NULL */
    const char *usual;        /* text of the value after initialisation; NULL: 0 or NULL */
    int decides;              /* 1: another value can change the bytes of a result, so that an
                                 interrupted run is not continued with it */
    const char *key;          /* in plan documents, recipes and reports */
    const char *name;         /* of the option of the command line, without dashes; NULL: it has no
                                 option of its own */
    const char *argument;     /* the word for its value in help; NULL for flags */
    const char *help;
    const char *only_with;  /* names of options, or "name=value", separated by spaces: without one
                               of them this one has no effect */
    const char *never_with; /* likewise: with one of them it has none */
    int unrecorded; /* 1: the command of a model card leaves it out, as it is of one machine or one
                       start alone */
    GRAIL_ROOM(4);
} grail_option;

/** i-th description of a struct, NULL beyond the last. */
typedef const grail_option *(*grail_option_at)(int i);

/** The description of the option of the command line with this name; NULL where there is none. */
GRAIL_API const grail_option *grail_option_find(grail_option_at at, const char *name);

/**
 * Sets the field of *options from a text; the field keeps `text` itself where it is a const char *.
 * A flag becomes 1. What cannot be read, or is outside the range, is GRAIL_ERROR_ARGUMENT about the
 * field; words and names that the field keeps are checked where the struct is used.
 */
GRAIL_API grail_status grail_option_set(const grail_option *option, void *options,
                                        const char *text) GRAIL_MUST_CHECK;

/** Writes which texts grail_option_set takes, such as "an integer of at least 1". */
GRAIL_API void grail_option_expected(const grail_option *option, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
