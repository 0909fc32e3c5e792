/* Calibration windows of one text, or of several by their shares. */
#ifndef GRAIL_PIPELINE_REQUEST_CALIBRATION_TEXT_H
#define GRAIL_PIPELINE_REQUEST_CALIBRATION_TEXT_H

#include "arch/model.h"
#include "base/json.h"
#include "pipeline/request/drawn_text.h"

#include <grail/compress.h>

/** Checks the shares: each from 0 to 1; those that are given add up to 1, or to less where others
 * are left open. */
grail_status text_parts_check(const grail_read_options *options) GRAIL_MUST_CHECK;

/** Whether the network draws one of the texts. */
bool text_parts_draw(const grail_read_options *options);

/** Appends to `key` what names the texts. */
grail_status text_parts_key(const grail_read_options *options, json_t *key) GRAIL_MUST_CHECK;

/**
 * Reads the texts and draws the windows: of each text as many as its share says, with the same
 * seed, and in its order. Those of several texts follow each other evenly, so that each batch has
 * all of them; documents are sorted by their lengths. *description is what report.json records; the
 * hash is that of the tokenizer, *drawn counts the windows that the network drew, and `hashes` are
 * of runs of tokens that were read, not drawn. `kept` is that of drawn_text_read. The caller frees
 * *out (token_windows_fini), *hashes (hash_set_fini) and *description, even after a failure.
 */
grail_status text_parts_read(const grail_model *model, const grail_compress_options *options,
                             drawn_windows *kept, token_windows *out, int64_t *drawn,
                             hash_set *hashes, char tokenizer_hash[65],
                             json_t **description) GRAIL_MUST_CHECK;

/** Puts a notice into the description where a model with a chat template gets samples without a
 * conversation: those in `w`. */
grail_status text_parts_notice(const grail_model *model, const grail_read_options *options,
                               const token_windows *w, json_t *description) GRAIL_MUST_CHECK;

#endif
