/* The tokenizer inside a GGUF file. */
#ifndef GRAIL_ARCH_GGUF_TOKENIZER_H
#define GRAIL_ARCH_GGUF_TOKENIZER_H

#include "format/text/tokenizer.h"
#include "format/weights/checkpoint.h"

/** Opens the tokenizer of a GGUF file. *out is owned: tokenizer_close. */
grail_status gguf_tokenizer_open(const checkpoint *weights, tokenizer **out) GRAIL_MUST_CHECK;

/** Puts the tokenizer of a directory as keys of a GGUF file with so many tokens. */
grail_status gguf_tokenizer_put(const checkpoint *weights, int64_t vocabulary_size,
                                gguf_pairs *out) GRAIL_MUST_CHECK;

#endif
