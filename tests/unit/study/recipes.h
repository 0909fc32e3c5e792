/* Recipes for the tests of sweeps. */
#ifndef GRAIL_TESTS_STUDY_RECIPES_H
#define GRAIL_TESTS_STUDY_RECIPES_H

#include "support/support.h"

#include "study/recipe/cells.h"

/* A recipe in the shortest form, with `more` put in. */
#define RECIPE(checkpoints, lists, more)                                                           \
    "{\"checkpoints\": " checkpoints ", " lists ", \"sites\": [\"conv\"],"                         \
    " \"calibration\": {\"path\": \"c\"}, \"evaluation\": {\"path\": \"e\"}" more "}"
#define ONE "[{\"name\": \"a\", \"path\": \"a.pth\"}]"
#define LISTS "\"selectors\": [\"wanda\"], \"sparsities\": [0.5], \"compensate\": [\"none\"]"

/** Parses a recipe that lies in "dir"; sweep_recipe_fini. */
grail_status recipe_parse(const char *text, sweep_recipe *out) GRAIL_MUST_CHECK;
/** The same for one that is right. */
sweep_recipe recipe_parsed(const char *text);

/** The cells of a recipe, owned; returns their number. */
int64_t recipe_cells(const sweep_recipe *r, sweep_cell **cells);

#endif
