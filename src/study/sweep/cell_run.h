/* One cell of a sweep: narrowed in memory, evaluated, and its line of the results. */
#ifndef GRAIL_STUDY_SWEEP_CELL_RUN_H
#define GRAIL_STUDY_SWEEP_CELL_RUN_H

#include "study/recipe/cells.h"

#include <grail/compress.h>
#include <grail/eval.h>

/** A checkpoint and its images, opened before the first cell runs. */
typedef struct sweep_checkpoint_data {
    grail_model *model;
    grail_images *evaluation;
    int64_t calibration_images; /* how many there are */
} sweep_checkpoint_data;

/** The options for reading the model; they borrow from the recipe. */
grail_model_options sweep_reading(const sweep_checkpoint *c);

/** Opens and checks checkpoint `index` and the images for it; sweep_checkpoint_close frees. */
grail_status sweep_checkpoint_open(const sweep_recipe *recipe, int index,
                                   sweep_checkpoint_data *out) GRAIL_MUST_CHECK;
void sweep_checkpoint_close(sweep_checkpoint_data *data); /* works on a zeroed one */

/** Estimates the memory for running and evaluating the cell; see grail_compress_estimate. */
grail_status sweep_cell_bytes(const sweep_recipe *recipe, const grail_model *model,
                              const sweep_cell *cell, int64_t *out) GRAIL_MUST_CHECK;

/** Evaluates the dense checkpoint. *out is its line of the results and borrows from the recipe and
 * the data. */
grail_status sweep_dense_measure(const sweep_recipe *recipe, int index,
                                 const sweep_checkpoint_data *data, grail_eval_observer observer,
                                 void *user, result_line *out) GRAIL_MUST_CHECK;

/** The outcome of a cell. */
typedef struct sweep_outcome {
    const sweep_cell *cell;
    grail_status status;
    char error[1000]; /* "" when the cell was measured */
    result_line line; /* what was measured; released with line_fini */
} sweep_outcome;

/** The options that all cells of a sweep share. */
typedef struct sweep_context {
    const sweep_recipe *recipe;
    const grail_images *evaluation;
    int64_t memory;                 /* for kept activations */
    int (*should_stop)(void *user); /* asked often */
    void *user;
} sweep_context;

/** Runs outcome->cell on its checkpoint's session and fills the outcome, also when it fails. */
void sweep_cell_run(sweep_context *context, grail_session *session, sweep_outcome *outcome);

/** The line of the results; borrows from the outcome and its cell. */
result_line sweep_outcome_line(const sweep_outcome *outcome);

#endif
