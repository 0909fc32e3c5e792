/* What the commands print: text, failures, numbers for people, JSON. */
#ifndef GRAIL_CLI_PRINT_H
#define GRAIL_CLI_PRINT_H

#include <grail/status.h>

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/**
 * printf for text that somebody else may have written: names, paths, arguments. Control characters,
 * marks of direction and bytes that are not UTF-8 are escaped (GRAIL_ESCAPE_LINE), and so are ends
 * of lines that are not the format's own. All that the commands print goes through print.c.
 */
void print_out(const char *format, ...) GRAIL_PRINTF(1, 2);
/** The same on standard error. */
void print_error(const char *format, ...) GRAIL_PRINTF(1, 2);

/** Writes the line of standard error that the cursor is in anew. */
void print_progress(const char *format, ...) GRAIL_PRINTF(1, 2);
/** Takes it away. */
void print_progress_end(void);

/** Prints "grail: message" on stderr and returns the exit code for the status. */
int print_failure(grail_status status);

/** "6.74 G" and the like into text (at least 16 bytes); returns text. */
const char *human_count(double value, char *text);
/** "13.5 GB" and the like. */
const char *human_bytes(double value, char *text);
/** "1 h 02 min", "3 min 20 s", "4.1 s". */
const char *human_seconds(double seconds, char *text);

enum { HUMAN_SIZE = 24 };

/** Writes a JSON value on stdout with a newline and releases it; an exit code. Control characters
 * and marks of direction in strings are escaped as JSON has it. */
int print_json(json_t *value);

/** A string of any bytes, such as a path: what is not UTF-8 is escaped (GRAIL_ESCAPE_NAME). NULL
 * when memory runs out. */
json_t *json_text(const char *bytes);
/** The same, or null for NULL. */
json_t *json_text_or_null(const char *bytes);

/** A number, or null when it is NaN or infinite. */
json_t *json_number_or_null(double value);

#endif
