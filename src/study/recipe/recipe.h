/* The recipe of a sweep: a JSON document (grail-recipe(5)) with every value checked. */
#ifndef GRAIL_STUDY_RECIPE_RECIPE_H
#define GRAIL_STUDY_RECIPE_RECIPE_H

#include "study/recipe/choices.h"
#include "study/recipe/lists.h"

typedef struct sweep_recipe {
    json_t *document; /* owned reference */
    sweep_checkpoints checkpoints;
    sweep_data_list calibration, evaluation;
    sweep_choices choices; /* that the grids combine */
    sweep_grid *grids;
    int grid_count;
    bool repeats_calibration; /* further seeds for every cell, not only where the selector draws */
    bool keeps_outcomes;      /* results have the outcome of each image and window */
    const char *latency;      /* what runs networks whose latency is measured; NULL: none is */
    const char *precision;    /* of the dense networks; borrowed from the document or static */
} sweep_recipe;

/** The keys of a recipe and of a grid, beside those of sweep_choice_key_at, up to NULL.
 * recipe.schema.json has the same. */
extern const char *const sweep_recipe_keys[];
extern const char *const sweep_grid_keys[];

/** Reads a document; `source` names it in messages, relative paths begin at `directory`. *out keeps
 * a reference of its own to the document and is released with sweep_recipe_fini. */
grail_status sweep_recipe_parse(const char *source, json_t *document, const char *directory,
                                sweep_recipe *out) GRAIL_MUST_CHECK;
/** Reads a file; relative paths begin at its directory. A precision that is not NULL takes the
 * place of the document's. */
grail_status sweep_recipe_read(const char *path, const char *precision,
                               sweep_recipe *out) GRAIL_MUST_CHECK;
void sweep_recipe_fini(sweep_recipe *recipe); /* works on a zeroed one */

#endif
