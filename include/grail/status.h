#ifndef GRAIL_STATUS_H
#define GRAIL_STATUS_H

#include <grail/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Status of every fallible call. The code says what a caller can do about it; the text of
 * grail_error_message() says what happened: the file, the tensor or site, what was expected, what
 * was found, and the remedy if there is one.
 */
#define GRAIL_STATUS_LIST(X)                                                                       \
    X(GRAIL_OK, "ok")                                                                              \
    X(GRAIL_ERROR_MEMORY, "out of memory")                                                         \
    X(GRAIL_ERROR_IO, "input or output failed")                                                    \
    X(GRAIL_ERROR_SPACE, "no space left on device")                                                \
    X(GRAIL_ERROR_FORMAT, "malformed input")                                                       \
    X(GRAIL_ERROR_SHAPE, "shapes do not fit")                                                      \
    X(GRAIL_ERROR_ARGUMENT, "invalid argument")                                                    \
    X(GRAIL_ERROR_UNSUPPORTED, "not supported")                                                    \
    X(GRAIL_ERROR_NUMERIC, "numerical failure")                                                    \
    X(GRAIL_ERROR_EXISTS, "already exists")                                                        \
    X(GRAIL_ERROR_CANCELLED, "cancelled")                                                          \
    X(GRAIL_ERROR_INTERNAL, "internal error")

typedef enum grail_status {
#define GRAIL_STATUS_ENUM(code, text) code,
    GRAIL_STATUS_LIST(GRAIL_STATUS_ENUM)
#undef GRAIL_STATUS_ENUM
} grail_status;

/** Short fixed text of a code, such as "malformed input". Never NULL. */
GRAIL_API const char *grail_status_text(grail_status status);

/**
 * What the last failing call on this thread said; "" before any failure. One line of UTF-8 that is
 * safe to show: names in it are escaped and, where they are very long, shortened (grail/escape.h).
 * Borrowed: valid until the next failing call on the same thread.
 */
GRAIL_API const char *grail_error_message(void);

/**
 * The names of the fields of option structs that the last error of this thread is about, separated
 * by spaces, such as "samples context"; "" for none. The text speaks of them in words; a program
 * whose users know them by other names can add those. Nested fields go by their last name: "path"
 * is that of a grail_text_source or grail_image_source. Borrowed, as grail_error_message().
 */
GRAIL_API const char *grail_error_fields(void);

/** Longest error text, with its terminating zero; longer ones are cut. */
enum { GRAIL_ERROR_TEXT_SIZE = 2048 };

/** Sets the text that grail_error_message() returns on this thread; `text` is copied. For libraries
 * that build on this one and report errors in the same way. */
GRAIL_API void grail_error_record(const char *text);
/** The same for grail_error_fields(). What does not fit into 256 bytes is left out. */
GRAIL_API void grail_error_record_fields(const char *fields);

#ifdef __cplusplus
}
#endif
#endif
