/* A text as token ids, in the form that a protocol prescribes. */
#ifndef GRAIL_FORMAT_TEXT_TEXT_ENCODE_H
#define GRAIL_FORMAT_TEXT_TEXT_ENCODE_H

#include "format/text/corpus.h"
#include "format/text/tokenizer.h"
#include "format/text/windows.h"

/**
 * Appends the ids of the text to *out, or those of an .npy file, for which `t` may be NULL. Of a
 * text of more than TEXT_ENCODED_WHOLE bytes at least the first `wanted` ids, and no more of the
 * text is encoded than they need; 0 wants all. *whole is false where some were left out. The corpus
 * may have more to read then.
 */
grail_status text_encode(corpus *c, const window_options *options, const tokenizer *t,
                         int64_t wanted, token_list *out, bool *whole) GRAIL_MUST_CHECK;

#endif
