/* Windows of tokens for a model: the tokenizer opened where the text needs one, defaults filled. */
#ifndef GRAIL_ARCH_MODEL_TEXT_H
#define GRAIL_ARCH_MODEL_TEXT_H

#include "arch/model.h"
#include "format/text/windows.h"

#include <grail/text.h>

/**
 * *out is filled; token_windows_fini. source->context 0 means the rows of two-dimensional ids,
 * else 2048, or what the model promises if that is less; more than it promises is
 * GRAIL_ERROR_ARGUMENT. `hash` gets the tokenizer's SHA-256, or "" for token ids.
 */
grail_status model_read_windows(const grail_model *model, const grail_text_source *source,
                                token_windows *out, char hash[65]) GRAIL_MUST_CHECK;

/** The same where only the first `windows` are needed; 0: all. There may be more in *out, and
 * fewer.
 */
grail_status model_read_first_windows(const grail_model *model, const grail_text_source *source,
                                      int64_t windows, token_windows *out,
                                      char hash[65]) GRAIL_MUST_CHECK;

#endif
