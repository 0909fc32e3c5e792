/* Reads windows of tokens for a model. Opens the tokenizer if the text needs one, and fills in
 * defaults. */
#ifndef GRAIL_ARCH_MODEL_TEXT_H
#define GRAIL_ARCH_MODEL_TEXT_H

#include "arch/model.h"
#include "format/text/chat.h"
#include "format/text/chat_template.h"

#include <grail/text.h>

/**
 * *out is filled; token_windows_fini. source->context 0 means the row length of two-dimensional
 * ids, else 2048 or the model's context, whichever is less. A longer context than the model's is
 * GRAIL_ERROR_ARGUMENT. `hash` gets the tokenizer's SHA-256, or "" for token ids.
 */
grail_status model_read_windows(const grail_model *model, const grail_text_source *source,
                                token_windows *out, char hash[65]) GRAIL_MUST_CHECK;

/** Does the same when only the first `windows` windows are needed (0: all). *out may hold more or
 * fewer. */
grail_status model_read_first_windows(const grail_model *model, const grail_text_source *source,
                                      int64_t windows, token_windows *out,
                                      char hash[65]) GRAIL_MUST_CHECK;

/** Windows of token ids in memory, checked against the model's vocabulary and context; the last
 * `unread` tokens of each are not read by the network. Those with lengths of their own are
 * documents. token_windows_fini frees *out. */
grail_status model_read_tokens(const grail_model *model, const grail_tokens *tokens, int64_t unread,
                               token_windows *out) GRAIL_MUST_CHECK;

/** Whether a source names samples at all; it may be NULL. */
bool text_source_is_given(const grail_text_source *source);
/** Where they lie, for records and messages: the path, or "memory". */
const char *text_source_place(const grail_text_source *source);

/** Whether the fields that are described have values of their ranges. */
grail_status text_source_check(const grail_text_source *source) GRAIL_MUST_CHECK;

/** Opens the tokenizer of the directory, or of the GGUF file. *out is owned: tokenizer_close. */
grail_status model_tokenizer_open(const grail_model *model, tokenizer **out) GRAIL_MUST_CHECK;

/** The same, but *out is NULL where it cannot be read, without a failure. */
grail_status model_tokenizer_if_read(const grail_model *model, tokenizer **out) GRAIL_MUST_CHECK;

/** What the model's chat template stands in: *place is owned (memory_free), even after a failure,
 * and NULL where the model has none or its files are damaged. */
grail_status model_find_template(const grail_model *model, char **place) GRAIL_MUST_CHECK;
/** What writes the model's conversations with its tokenizer, which is borrowed. *out is owned:
 * chat_close; NULL where the model has no template, or its files are damaged. */
grail_status model_chat_open(const grail_model *model, const tokenizer *t,
                             const grail_text_source *source, chat_writer **out) GRAIL_MUST_CHECK;
/** Whether windows that were read for the model hold a conversation. */
grail_status model_find_turns(const grail_model *model, const token_windows *w,
                              turns_found *out) GRAIL_MUST_CHECK;

/** The SHA-256 of the model's tokenizer, "" where its directory has none. */
grail_status model_tokenizer_hash(const grail_model *model, char hash[65]) GRAIL_MUST_CHECK;

enum { MODEL_MOST_ENDS = 64 };

/** Tokens at which texts begin and end. */
typedef struct text_ends {
    int32_t begin; /* -1: no file says one */
    int32_t ends[MODEL_MOST_ENDS];
    int end_count;
} text_ends;

/** By config.json and generation_config.json, which often names more than the first. */
grail_status model_text_ends(const grail_model *model, text_ends *out) GRAIL_MUST_CHECK;
bool text_ends_with(const text_ends *e, int32_t id);

/** GRAIL_ERROR_ARGUMENT for an encoder, which has no logits of a next token; `what` needs them. */
grail_status model_check_next_token(const grail_model *model, const char *what) GRAIL_MUST_CHECK;

#endif
