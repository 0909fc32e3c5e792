#ifndef GRAIL_RUNNER_H
#define GRAIL_RUNNER_H

#include <grail/images.h>
#include <grail/machine.h>
#include <grail/model.h>
#include <grail/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A network that is ready to run on samples in memory, again and again. Only one thread may use it
 * at a time. */
typedef struct grail_runner grail_runner;

/** `compute` may be NULL. The model is used until grail_runner_close. *out is owned. */
GRAIL_API grail_status grail_runner_open(const grail_model *model, const grail_compute *compute,
                                         grail_runner **out) GRAIL_MUST_CHECK;
GRAIL_API void grail_runner_close(grail_runner *runner); /* NULL is allowed */

/** What the network gives for a position or an image: logits of the vocabulary or the classes, or
 * features. */
GRAIL_API int64_t grail_runner_outputs(const grail_runner *runner);

/** out[windows, length, outputs]: of every position; zeros behind the end of a shorter window. With
 * `last` out[windows, outputs] of the last position of each window alone. */
GRAIL_API grail_status grail_runner_tokens(grail_runner *runner, const grail_tokens *tokens,
                                           int last, float *out) GRAIL_MUST_CHECK;

/**
 * losses[windows, length - 1]: -log p(token i + 1 | tokens 0 .. i) in each window, natural
 * logarithm; NaN behind the end of a shorter one. The network does not read the last token of a
 * window, so a window may have one more than the context. largest[windows, length - 1], which may
 * be NULL, becomes 1 where no other token was more likely, else 0. Logits are made in panels of the
 * vocabulary, never as a whole.
 */
GRAIL_API grail_status grail_runner_losses(grail_runner *runner, const grail_tokens *tokens,
                                           double *losses, unsigned char *largest) GRAIL_MUST_CHECK;

/** out[count, outputs]. */
GRAIL_API grail_status grail_runner_pixels(grail_runner *runner, const grail_pixels *pixels,
                                           float *out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
