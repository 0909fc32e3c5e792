/* Status returns and the thread-local error text.
 *
 * A fallible function that owns something declares `grail_status status = GRAIL_OK;`, keeps every
 * owned pointer NULL until it is filled, and has one `out:` label. TRY and FAIL jump there; they
 * are the only way out on failure. A function that has nothing to free returns at once: CHECK
 * passes a failure on, and `return error_set(...)` is one of its own. */
#ifndef GRAIL_BASE_STATUS_H
#define GRAIL_BASE_STATUS_H

#include <grail/status.h>

#include <stdbool.h>
#include <stddef.h>

/** Records the error text and returns `status`. */
grail_status error_set(grail_status status, const char *format, ...) GRAIL_PRINTF(2, 3);

/** Adds fields of option structs to those that the recorded error is about, "samples context" for
 * example (grail_error_fields). Messages speak of them in words, never by an option of the command
 * line, which adds these itself. Returns `status`. */
grail_status error_about(grail_status status, const char *fields);

/** Puts "text: " before the recorded error; the way a caller adds the file, tensor or site. */
void error_prefix(const char *format, ...) GRAIL_PRINTF(1, 2);
/** The same only if `status` is a failure; returns `status`. */
grail_status error_in(grail_status status, const char *format, ...) GRAIL_PRINTF(2, 3);

/** Adds text after the recorded error, e.g. the remedy. */
void error_append(const char *format, ...) GRAIL_PRINTF(1, 2);

/** Copies the recorded error, cut between characters where it is longer; size > 8. */
void error_copy(char *text, size_t size);

/** Notes of the recorded error, until another one is set, that all ranks of a run know it. */
void error_mark_told(void);
bool error_is_told(void);

#define TRY(expression)                                                                            \
    do {                                                                                           \
        status = (expression);                                                                     \
        if (status != GRAIL_OK) {                                                                  \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

/** As TRY, for functions that have nothing to free: returns the failure. */
#define CHECK(expression)                                                                          \
    do {                                                                                           \
        const grail_status check_status = (expression);                                            \
        if (check_status != GRAIL_OK) {                                                            \
            return check_status;                                                                   \
        }                                                                                          \
    } while (0)

#define FAIL(code, ...)                                                                            \
    do {                                                                                           \
        status = error_set((code), __VA_ARGS__);                                                   \
        goto out;                                                                                  \
    } while (0)

/** FAIL with error_about. */
#define FAIL_ABOUT(fields, code, ...)                                                              \
    do {                                                                                           \
        status = error_about(error_set((code), __VA_ARGS__), (fields));                            \
        goto out;                                                                                  \
    } while (0)

#endif
