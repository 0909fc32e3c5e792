/* The recipe of a sweep: a JSON document (grail-recipe(5)) with every value checked. */
#ifndef GRAIL_STUDY_RECIPE_RECIPE_H
#define GRAIL_STUDY_RECIPE_RECIPE_H

#include "study/recipe/images.h"
#include "study/recipe/lists.h"

#include <grail/compress.h>

enum { SWEEP_MOST_KINDS = 16 };

typedef struct sweep_recipe {
    json_t *document; /* owned reference */
    sweep_checkpoints checkpoints;
    sweep_grid *grids;
    int grid_count;
    const char *kinds[SWEEP_MOST_KINDS]; /* of sites that a ratio applies to; static */
    int kind_count;
    bool repeats_calibration; /* further seeds for every cell, not only where the selector draws */
    grail_compress_options run; /* what all cells have in common; words are static */
    sweep_images calibration, evaluation;
} sweep_recipe;

/** The keys of a recipe and of a grid, up to NULL. recipe.schema.json has the same. */
extern const char *const sweep_recipe_keys[];
extern const char *const sweep_grid_keys[];

/** The precisions that a sweep may have, up to NULL. */
extern const char *const sweep_precisions[];

/** Whether a ratio applies to sites of that kind. */
bool sweep_recipe_cuts(const sweep_recipe *recipe, const char *kind);

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
