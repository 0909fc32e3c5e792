/* The tokenizers under tests/golden/tokenizers: a directory's, or one in a file vocab.gguf. */
#ifndef GRAIL_TESTS_GOLDEN_TOKENIZER_H
#define GRAIL_TESTS_GOLDEN_TOKENIZER_H

#include "support/support.h"

#include "format/text/tokenizer.h"

#include <stdio.h>
#include <unistd.h>

/** Owned: tokenizer_close. */
static inline tokenizer *golden_tokenizer(const char *family)
{
    char directory[2048];
    char file[4096];
    tokenizer *t = NULL;
    tensor_file *opened = NULL;
    snprintf(directory, sizeof directory, "%s/tests/golden/tokenizers/%s", GRAIL_SOURCE_DIR,
             family);
    snprintf(file, sizeof file, "%s/vocab.gguf", directory);
    if (access(file, R_OK) != 0) {
        assert_ok(tokenizer_open(directory, &t));
        return t;
    }
    assert_ok(gguf_open(file, &opened));
    assert_ok(tokenizer_from_gguf(file, gguf_metadata_of(opened), NULL, &t));
    tensor_file_close(opened);
    return t;
}

#endif
