/* One cell of a sweep: narrowed in memory, evaluated, and its line of the results. */
#ifndef GRAIL_STUDY_SWEEP_CELL_RUN_H
#define GRAIL_STUDY_SWEEP_CELL_RUN_H

#include "study/recipe/cells.h"

#include <grail/compress.h>
#include <grail/eval.h>

/** A checkpoint and its data, opened before the first cell runs. Texts are read when they are
 * measured. */
typedef struct sweep_checkpoint_data {
    grail_model *model;
    grail_images **images;       /* [evaluations] of the recipe; NULL: text, or not for it */
    int image_sets;              /* how many of these there are */
    int64_t *calibration_images; /* [calibrations] how many there are; -1: text, or not for it */
    bool has_kind[SWEEP_MOST_KINDS]; /* of sites, by grail_site_kind_at */
} sweep_checkpoint_data;

/** The options for reading the model; they borrow from the recipe. */
grail_model_options sweep_reading(const sweep_checkpoint *c);

/** Opens and checks checkpoint `index` and the data for it, and notes in the recipe what it reads;
 * sweep_checkpoint_close frees. */
grail_status sweep_checkpoint_open(sweep_recipe *recipe, int index,
                                   sweep_checkpoint_data *out) GRAIL_MUST_CHECK;
void sweep_checkpoint_close(sweep_checkpoint_data *data); /* works on a zeroed one */

/** Refuses a cell that cuts no site of its network, or asks for more images than there are. */
grail_status sweep_cell_check(const sweep_recipe *recipe, const sweep_checkpoint_data *data,
                              const sweep_cell *cell) GRAIL_MUST_CHECK;

/** Estimates the memory for running and evaluating the cell; see grail_compress_estimate. */
grail_status sweep_cell_bytes(const sweep_recipe *recipe, const grail_model *model,
                              const sweep_cell *cell, int64_t *out) GRAIL_MUST_CHECK;

/** The outcome of a cell, or of a dense network. */
typedef struct sweep_outcome {
    const sweep_cell *cell; /* NULL: a dense network */
    grail_status status;
    char error[1000];   /* "" when it was measured */
    result_line line;   /* what was measured; released with sweep_outcome_fini */
    char (*hashes)[65]; /* [evaluations] of the data; the line borrows them */
} sweep_outcome;

/** What all cells of a checkpoint share. */
typedef struct sweep_context {
    const sweep_recipe *recipe;
    const sweep_checkpoint_data *data;
    int checkpoint;
    int64_t memory;                 /* for kept activations */
    int (*should_stop)(void *user); /* asked often */
    void *user;
} sweep_context;

/** Evaluates the dense checkpoint; outcome->line is its line of the results and borrows from the
 * recipe and the data. */
grail_status sweep_dense_measure(const sweep_context *context,
                                 sweep_outcome *outcome) GRAIL_MUST_CHECK;

/** Runs outcome->cell on its checkpoint's session and fills the outcome, also when it fails. */
void sweep_cell_run(sweep_context *context, grail_session *session, sweep_outcome *outcome);

/** The line of the results; borrows from the outcome and its cell. */
result_line sweep_outcome_line(const sweep_outcome *outcome);

/** "top-1 81.20 %", "perplexity 14.39 on stories, 196.31 on PTB" into text; returns text. */
enum { SWEEP_RESULT_TEXT = 300 };
const char *sweep_result_text(const result_line *line, char text[SWEEP_RESULT_TEXT]);

void sweep_outcome_fini(sweep_outcome *outcome); /* works on a zeroed one */

#endif
