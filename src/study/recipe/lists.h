/* The lists of a recipe, and the grids that they form: all combinations of their entries are
 * run. */
#ifndef GRAIL_STUDY_RECIPE_LISTS_H
#define GRAIL_STUDY_RECIPE_LISTS_H

#include "study/recipe/data.h"

/** Indices, enum values or numbers, each once, in the order of the document. */
typedef struct sweep_list {
    double *values;
    int count;
} sweep_list;

/** A grid: every entry of one list is combined with every entry of the others. */
typedef enum sweep_axis {
    SWEEP_CHECKPOINTS,  /* indices */
    SWEEP_CALIBRATIONS, /* indices; those that serve a checkpoint are combined with it */
    SWEEP_SELECTORS,    /* indices of grail_selector_at */
    SWEEP_SPARSITIES,
    SWEEP_COMPENSATE, /* variant, of those that are not healed */
    SWEEP_HEAL,       /* heal_kind */
    SWEEP_SAMPLES,
    SWEEP_SEEDS,
    SWEEP_CHOICES, /* indices of combinations, which have keys of their own */
    SWEEP_AXES
} sweep_axis;

typedef struct sweep_grid {
    sweep_list axes[SWEEP_AXES];
    bool open_loop;
} sweep_grid;

/** Index in grail_selector_at of the selector with this name. `where` is used in messages. */
grail_status sweep_find_selector(const char *where, const char *name, int *out) GRAIL_MUST_CHECK;

/** What lists name entries of. */
typedef struct sweep_names {
    const sweep_checkpoints *checkpoints;
    const sweep_data_list *calibrations;
} sweep_names;

/**
 * Reads a grid's lists, without its choices, and its loop from an object. What the object lacks is
 * copied from `base` (may be NULL) or takes its default. With `complete`, a list that has no
 * default and is in neither is refused.
 */
grail_status sweep_grid_read(const char *where, const json_t *object, sweep_names names,
                             const sweep_grid *base, bool complete,
                             sweep_grid *out) GRAIL_MUST_CHECK;
void sweep_grid_fini(sweep_grid *grid); /* works on a zeroed one */

#endif
