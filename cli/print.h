/* Small helpers of the commands: failure messages, numbers for people, JSON output. */
#ifndef GRAIL_CLI_PRINT_H
#define GRAIL_CLI_PRINT_H

#include <grail/status.h>

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/** Prints "grail: message" on stderr and returns the exit code for the status. */
int print_failure(grail_status status);

/** "6.74 G" and the like into text (at least 16 bytes); returns text. */
const char *human_count(double value, char *text);
/** "13.5 GB" and the like. */
const char *human_bytes(double value, char *text);
/** "1 h 02 min", "3 min 20 s", "4.1 s". */
const char *human_seconds(double seconds, char *text);

enum { HUMAN_SIZE = 24 };

/** Writes a JSON value on stdout with a newline and releases it; an exit code. */
int print_json(json_t *value);

/** A number, or null when it is NaN or infinite. */
json_t *json_number_or_null(double value);

#endif
