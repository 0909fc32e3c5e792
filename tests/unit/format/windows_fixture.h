/* A text in a file, a tokenizer of single characters, and the windows that both make. */
#ifndef GRAIL_TESTS_WINDOWS_FIXTURE_H
#define GRAIL_TESTS_WINDOWS_FIXTURE_H

#include "format/text/windows.h"

/** One id per character: '^' is BOS, then these in order. */
#define WINDOWS_CHARACTERS "^abcdef \n"

enum { VOCABULARY = 9 };

typedef struct fixture {
    char *directory;
    char path[512];
    tokenizer *t;
    window_options options;
    token_windows windows;
} fixture;

/** A tokenizer.json of these characters, which puts BOS before a text. */
extern const char windows_tokenizer[];

/** A directory with `text` in the file `name`. */
void windows_setup(fixture *f, const char *name, const char *text);
void windows_teardown(fixture *f);

/** Reads the file again, into windows of `length`. */
void read_windows(fixture *f, text_protocol protocol, int64_t length);

#endif
