/* Calibration text that the network draws itself, for a checkpoint without any text at hand, or
 * beside one. */
#ifndef GRAIL_PIPELINE_REQUEST_DRAWN_TEXT_H
#define GRAIL_PIPELINE_REQUEST_DRAWN_TEXT_H

#include "arch/model.h"
#include "format/text/windows.h"

#include <grail/compress.h>

/** What stands for it in place of a path; a file of this name is "./self". */
#define DRAWN_PLACE "self"

/** Tokens of a prompt. */
enum { DRAWN_PROMPT = 32 };

bool text_is_drawn(const char *path);

/** Tokens of its windows where the options name no number. */
int64_t drawn_length(const grail_model *model, const grail_compress_options *options);

/** What was drawn last, at first and together, for runs that want the same windows, or some. */
typedef struct drawn_windows {
    char origin[HASH_TEXT_SIZE]; /* of all that decides them, but how they begin */
    token_windows windows;
} drawn_windows;

void drawn_windows_fini(drawn_windows *d); /* works on a zeroed one */

/**
 * Draws windows of `length` tokens, each with a temperature of 1 and a sequence of random numbers
 * of its own, from the dense network: the model, or the teacher that it is healed towards. They
 * begin with the first tokens of a window of `prompts` each, one after the other, or without any
 * with the token that begins texts. A model with a chat template draws conversations: in all
 * windows, or beside prompts in every second one. Where its template does not tell how, *notice,
 * owned, says so, and plain text is drawn. A dry run draws nothing: then its windows hold their
 * first tokens alone. text_hash is that of all that decides what is drawn. Those that
 * are drawn first are taken from *kept if it holds them, else it does then; it may be NULL.
 * token_windows_fini frees *out, even after a failure.
 *
 * Source: Self-calibration for language model quantization and pruning (arXiv 2410.17170).
 */
grail_status drawn_text_read(const grail_model *model, const grail_compress_options *options,
                             const token_windows *prompts, int64_t count, int64_t length,
                             drawn_windows *kept, token_windows *out,
                             char **notice) GRAIL_MUST_CHECK;

/** How long drawing takes: windows are drawn in batches, and of each the tokens at one place
 * together. */
typedef struct drawing_times {
    double step;     /* seconds of a place, whatever the number of windows */
    double window;   /* more for each window */
    int64_t at_once; /* windows of a batch */
} drawing_times;

/** Measures a few tokens in the middle of `count` windows, and of few. */
grail_status drawn_text_measure(const grail_model *model, const grail_compress_options *options,
                                int64_t count, int64_t length, drawing_times *out) GRAIL_MUST_CHECK;

/** The seconds of so many windows. */
double drawing_seconds(const drawing_times *times, int64_t count, int64_t length);

#endif
