/* The cells of a sweep: one narrowing each, in an order in which neighbours share work. */
#ifndef GRAIL_STUDY_RECIPE_CELLS_H
#define GRAIL_STUDY_RECIPE_CELLS_H

#include "study/recipe/recipe.h"

enum { SWEEP_MOST_CELLS = 100000 };

typedef struct sweep_cell {
    int checkpoint;
    bool open_loop;
    int64_t samples;
    int64_t seed;
    int selector; /* index of grail_selector_at */
    double sparsity;
    sweep_variant variant;
} sweep_cell;

/** Whether further seeds are run: the selector draws (random, fold, random-fold), or the recipe
 * repeats everything with other calibration images. */
bool sweep_cell_draws(const sweep_recipe *recipe, const sweep_cell *cell);

/**
 * All cells of all grids, each once. They are sorted by checkpoint, loop, sample count and seed, so
 * that what is taken of the dense network serves the selectors, ratios and variants that follow.
 * *out is owned; *count is at most SWEEP_MOST_CELLS.
 */
grail_status sweep_cells(const sweep_recipe *recipe, sweep_cell **out,
                         int64_t *count) GRAIL_MUST_CHECK;

/** Whether two cells run on the same checkpoint and calibration images. */
bool sweep_cells_share(const sweep_cell *a, const sweep_cell *b);

/** Index of the cell in the sorted ones, or -1. */
int64_t sweep_cell_find(const sweep_cell *cells, int64_t count, const sweep_cell *cell);

/** The object "cell" of a results line; *out is owned. */
grail_status sweep_cell_to_json(const sweep_recipe *recipe, const sweep_cell *cell,
                                json_t **out) GRAIL_MUST_CHECK;
/** Reads one back; `where` is used in messages. */
grail_status sweep_cell_from_json(const char *where, json_t *object, const sweep_recipe *recipe,
                                  sweep_cell *out) GRAIL_MUST_CHECK;

/** "resnet18, wanda, 30 %, full, 128 samples, seed 0" into text; returns text. */
enum { SWEEP_CELL_TEXT = 240 };
const char *sweep_cell_text(const sweep_recipe *recipe, const sweep_cell *cell,
                            char text[SWEEP_CELL_TEXT]);

#endif
