/* Accuracy of a network on labelled images. */
#ifndef GRAIL_EVAL_ACCURACY_H
#define GRAIL_EVAL_ACCURACY_H

#include "base/hash_set.h"
#include "exec/parameters.h"
#include "format/images/image_set.h"

#include <grail/eval.h>

/** Counts and sums over images. */
typedef struct accuracy_sums {
    int64_t images, top1, top5;
    double nll;
} accuracy_sums;

/** GRAIL_ERROR_ARGUMENT where the network does not read images or does not tell classes apart. */
grail_status accuracy_check_model(const grail_model *model) GRAIL_MUST_CHECK;

/**
 * Runs the network as `store` has it, which may be narrow, over `images` of the set (0 = all) in
 * batches of `batch` (0 = a size that works well) and fills *out. Looks for images whose digest is
 * in `calibrated` (NULL: nothing is looked for). A label that the network has no output for is
 * GRAIL_ERROR_ARGUMENT naming the image.
 */
grail_status accuracy_measure(const grail_model *model, parameter_store *store,
                              const image_set *set, int64_t images, int64_t batch,
                              const hash_set *calibrated, grail_eval_observer observer, void *user,
                              grail_accuracy *out) GRAIL_MUST_CHECK;

/** Adds the outputs logits[rows, classes] of images with labels[rows], each in 0 .. classes-1. Of
 * equal outputs the first counts as the largest, and hits[rows] become 1 where that is the label's,
 * else 0; NaN and infinity are GRAIL_ERROR_NUMERIC. */
grail_status accuracy_add(matrix logits, const int32_t *labels, accuracy_sums *sums,
                          double *hits) GRAIL_MUST_CHECK;

#endif
