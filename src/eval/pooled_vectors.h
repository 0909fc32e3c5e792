/* Vectors that stand for whole windows in two encoders, and how they differ: their angles, and
 * which window is nearest to each. */
#ifndef GRAIL_EVAL_POOLED_VECTORS_H
#define GRAIL_EVAL_POOLED_VECTORS_H

#include "arch/sentence_modules.h"
#include "backend/matrix.h"
#include "format/text/windows.h"

#include <grail/eval.h>

typedef struct pooled_vectors {
    const grail_model *left_model, *right_model; /* for messages */
    double *left, *right; /* [count, width] sums of the states, or the first; owned */
    int64_t count, width;
    sentence_pooling pooling;
} pooled_vectors;

/** Zeros, pooled as the files of `left` say. pooled_vectors_fini frees *out, also after a failure.
 */
grail_status pooled_vectors_init(const grail_model *left, const grail_model *right, int64_t count,
                                 pooled_vectors *out) GRAIL_MUST_CHECK;
void pooled_vectors_fini(pooled_vectors *p); /* works on a zeroed one */

/** Adds the states of both networks from position `from` of a window on. */
grail_status pooled_vectors_add(matrix left, matrix right, int64_t window, int64_t from,
                                pooled_vectors *p) GRAIL_MUST_CHECK;

/** The most windows whose nearest ones are looked for, since each is compared with each. */
enum { POOLED_MOST_NEIGHBOURS = 1 << 14 };

/**
 * Fills what *out says of vectors. The cosine is 1 where both are zeros, and 0 where one is. The
 * nearest windows are the same where they have the same tokens; they are looked for where
 * `neighbours`, in at least three windows. Vectors become unit vectors. One that is not finite is
 * GRAIL_ERROR_NUMERIC.
 */
grail_status pooled_vectors_compare(pooled_vectors *p, const token_windows *w, bool neighbours,
                                    grail_comparison *out) GRAIL_MUST_CHECK;

#endif
