/* Tokenizers whose pieces have scores (SentencePiece), as llama.cpp's kind "llama" wants them. */
#ifndef GRAIL_FORMAT_TEXT_TOKENIZER_GGUF_PIECES_H
#define GRAIL_FORMAT_TEXT_TOKENIZER_GGUF_PIECES_H

#include "format/text/tokenizer_internal.h"

/** *prefix <- whether a space is put before a text. GRAIL_ERROR_UNSUPPORTED where the steps before
 * the merges, or what becomes of unknown characters, are other than that kind's. */
grail_status pieces_check_steps(const tokenizer *t, bool *prefix) GRAIL_MUST_CHECK;

/** Marks the unknown piece and those of bytes: types[count]. */
void pieces_mark(const tokenizer *t, int types[], int64_t count);

/** scores[count] <- such that merging the neighbours whose piece has the highest score is what the
 * merges of `t` say; texts[i] may be NULL for tokens that are not used. GRAIL_ERROR_UNSUPPORTED
 * where there are no such scores. */
grail_status pieces_score(const tokenizer *t, const char *const texts[], const int types[],
                          int64_t count, float scores[]) GRAIL_MUST_CHECK;

#endif
