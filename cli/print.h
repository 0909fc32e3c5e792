/* What the commands print: text, failures, rounded numbers, JSON. */
#ifndef GRAIL_CLI_PRINT_H
#define GRAIL_CLI_PRINT_H

#include <grail/status.h>

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/**
 * printf that is safe for text of unknown origin: names, paths, arguments. Escapes control
 * characters, marks of direction, bytes that are not UTF-8 (GRAIL_ESCAPE_LINE), and line ends that
 * the format itself does not contain. Everything that the commands print goes through print.c.
 */
void print_out(const char *format, ...) GRAIL_PRINTF(1, 2);
/** Like print_out, but on standard error. */
void print_error(const char *format, ...) GRAIL_PRINTF(1, 2);
/** The name of the command that runs, which the next two begin with: "grail NAME: ". */
void print_as_command(const char *name);
/** print_error of a whole message, without a line end. */
void print_command_error(const char *format, ...) GRAIL_PRINTF(1, 2);
/** Prints what is wrong with the command line, without a line end, and where help is; returns
 * EXIT_USAGE. */
int print_misuse(const char *format, ...) GRAIL_PRINTF(1, 2);

/** Adds to a text, as far as there is room. */
void append_text(char *text, size_t size, const char *format, ...) GRAIL_PRINTF(3, 4);

/** From now on this process prints as one of several: all but the first print nothing with the
 * functions above and print_json. */
void print_as_rank(int rank, int size);
/** print_error on every rank: with its number, and on all but the first after a moment, in which
 * the first one may say the same and end them all. */
void print_error_of_rank(const char *format, ...) GRAIL_PRINTF(1, 2);

/** Starts the clock of print_progress. */
void print_start(void);
/** Says how far a long command is: on a terminal in a line of standard error that is rewritten,
 * elsewhere in a line of its own when a minute has passed without one. The format has no line end.
 * Nothing with --quiet. `share` (0 to 1) of this part of the command is done, from which the time
 * follows that is left; NAN where that is not known, or where the text says it. */
void print_progress(double share, const char *format, ...) GRAIL_PRINTF(2, 3);
/** From now on says by print_progress what the library is at and for how long, where calls have no
 * observer of their own; NULL: no more. `what` is borrowed. */
void print_while(const char *what);
/** Clears the line of print_progress on a terminal, if there is one; print_error does so first. */
void print_progress_end(void);

/** Prints "grail: " and the text of the last error by print_error_of_rank, with the options that it
 * is about; returns the exit code of the status. */
int print_failure(grail_status status);

/** Says of how many documents the rest was cut off; nothing of none. */
void print_full_documents(int64_t count, int64_t context);

/** Formats a count as in "6.74 G" into text (HUMAN_SIZE bytes); returns text. */
const char *human_count(double value, char *text);
/** Formats bytes as in "13.5 GB". */
const char *human_bytes(double value, char *text);
/** Formats a duration as in "1 h 02 min", "3 min 20 s" or "4.1 s". */
const char *human_seconds(double seconds, char *text);

enum { HUMAN_SIZE = 24 };

/** Writes a JSON value and a newline on stdout, and releases the value. Returns an exit code.
 * Control characters and marks of direction in strings become JSON escapes. */
int print_json(json_t *value);

/** A JSON string from any bytes, such as a path; bytes that are not UTF-8 are escaped
 * (GRAIL_ESCAPE_NAME). JSON null for NULL; NULL when memory runs out. */
json_t *json_text(const char *bytes);
/** A number, or null when it is NaN or infinite. */
json_t *json_number(double value);
json_t *json_truth(bool value);
json_t *json_count(int64_t value);

/** A value of JSON, by its type. */
#define J(value)                                                                                   \
    _Generic((value),                                                                              \
             bool: json_truth,                                                                     \
             int: json_count,                                                                      \
             int64_t: json_count,                                                                  \
             double: json_number,                                                                  \
             char *: json_text,                                                                    \
             const char *: json_text)(value)

/** An object of keys and values, which it takes, up to a key that is NULL; NULL when memory runs
 * out. */
json_t *json_of(const char *key, ...);

#endif
