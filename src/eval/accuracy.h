/* Accuracy of a network on labelled images. */
#ifndef GRAIL_EVAL_ACCURACY_H
#define GRAIL_EVAL_ACCURACY_H

#include "base/hash.h"
#include "comm/comm.h"
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

/** Says which images an accuracy is measured on, by whom, and who is told. */
typedef struct accuracy_task {
    const image_set *set;
    int64_t images;               /* of the set; 0: all */
    int64_t batch;                /* images at once; 0: a number that works well */
    const hash_set *calibrated;   /* digests that are looked for; NULL: none */
    const grail_comm *comm;       /* ranks that take batches in turns, or NULL */
    grail_eval_observer observer; /* may be NULL */
    void *user;
} accuracy_task;

/** Runs the network as `store` has it, which may be narrow, over the images and fills *out. A label
 * that the network has no output for is GRAIL_ERROR_ARGUMENT naming the image. */
grail_status accuracy_measure(const grail_model *model, parameter_store *store,
                              const accuracy_task *task, grail_accuracy *out) GRAIL_MUST_CHECK;

/** Adds the outputs logits[rows, classes] of images with labels[rows], each in 0 .. classes-1, from
 * image `first` on. The first of equal outputs counts as the largest, and hits[rows] become 1 where
 * that is the label's, else 0; NaN and infinity are GRAIL_ERROR_NUMERIC, which names the image. */
grail_status accuracy_add(matrix logits, const int32_t *labels, int64_t first, accuracy_sums *sums,
                          double *hits) GRAIL_MUST_CHECK;

#endif
