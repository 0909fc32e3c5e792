/* A text as token ids, in the form that a protocol prescribes. */
#ifndef GRAIL_FORMAT_TEXT_TEXT_ENCODE_H
#define GRAIL_FORMAT_TEXT_TEXT_ENCODE_H

#include "format/text/corpus.h"
#include "format/text/tokenizer.h"
#include "format/text/windows.h"

/**
 * Appends the ids of the text, or of an .npy file, to *out; for an .npy file `t` may be NULL. For a
 * text of more than TEXT_ENCODED_WHOLE bytes it appends at least the first `wanted` ids (0: all),
 * and encodes no more of the text than they need. *complete is false when some ids were left out;
 * then the corpus may not have been read to its end.
 *
 * Where windows are documents, `wanted` counts these, and windows->starts and windows->count get
 * those that were added, of at most windows->length ids each.
 */
grail_status text_encode(corpus *c, const window_options *options, const tokenizer *t,
                         int64_t wanted, token_list *out, token_windows *windows,
                         bool *complete) GRAIL_MUST_CHECK;

#endif
