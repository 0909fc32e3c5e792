/* The cells of a sweep: one narrowing each, in an order in which neighbours share work. */
#ifndef GRAIL_STUDY_RECIPE_CELLS_H
#define GRAIL_STUDY_RECIPE_CELLS_H

#include "study/recipe/recipe.h"
#include "study/results/line.h"

enum { SWEEP_MOST_CELLS = 100000 };

typedef struct sweep_cell {
    int checkpoint;         /* of the recipe */
    int selector;           /* index of grail_selector_at */
    int calibration;        /* of the recipe */
    int choice;             /* of the recipe's combinations */
    line_settings settings; /* of its results line; the names are borrowed from the recipe */
} sweep_cell;

/**
 * All cells of all grids, each once. They are sorted by checkpoint, loop, calibration, sample count
 * and seed, so that statistics of the dense network serve all selectors, ratios and variants that
 * follow. A checkpoint of a grid for which none of its calibrations is, is GRAIL_ERROR_FORMAT. *out
 * is owned; *count is at most SWEEP_MOST_CELLS.
 */
grail_status sweep_cells(const sweep_recipe *recipe, sweep_cell **out,
                         int64_t *count) GRAIL_MUST_CHECK;

/** Whether two cells run on the same checkpoint and calibration samples. */
bool sweep_cells_share(const sweep_cell *a, const sweep_cell *b);

/** Finds the index of the cell with these settings among sorted ones. `where` is used in
 * messages. */
grail_status sweep_cell_of_settings(const char *where, const line_settings *settings,
                                    const sweep_recipe *recipe, const sweep_cell *cells,
                                    int64_t count, int64_t *index) GRAIL_MUST_CHECK;

/** "resnet18, wanda, 30 %, full + heal model, 128 samples, seed 0" into text; returns text. */
enum { SWEEP_CELL_TEXT = 500 };
const char *sweep_cell_text(const sweep_cell *cell, char text[SWEEP_CELL_TEXT]);

#endif
