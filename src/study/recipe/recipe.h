/* The recipe of a sweep: a JSON document (grail-recipe(5)) with every value checked. */
#ifndef GRAIL_STUDY_RECIPE_RECIPE_H
#define GRAIL_STUDY_RECIPE_RECIPE_H

#include "base/json.h"
#include "study/results/variant.h"

#include <grail/compress.h>
#include <grail/model.h>

typedef struct sweep_checkpoint {
    char *name, *path;
    char **settings; /* "key=value" */
    int setting_count;
} sweep_checkpoint;

/** An image source with what its pointers point to. */
typedef struct sweep_images {
    grail_image_source source;
    char *path, *preset, *split, *labels;
    double *mean, *deviation; /* [3] or NULL */
    int64_t images;           /* of an evaluation; 0 = all */
} sweep_images;

/** Indices, enum values or numbers, each once, in the order of the document. */
typedef struct sweep_list {
    double *values;
    int count;
} sweep_list;

/** What is combined with what: all entries of one list with all of the others. */
typedef enum sweep_axis {
    SWEEP_CHECKPOINTS, /* indices */
    SWEEP_SELECTORS, /* indices of grail_selector_at */
    SWEEP_SPARSITIES,
    SWEEP_COMPENSATE, /* variant */
    SWEEP_SAMPLES,
    SWEEP_SEEDS,
    SWEEP_AXES
} sweep_axis;

typedef struct sweep_grid {
    sweep_list axes[SWEEP_AXES];
    bool open_loop;
} sweep_grid;

enum { SWEEP_MOST_KINDS = 16 };

typedef struct sweep_recipe {
    json_t *document; /* owned reference */
    sweep_checkpoint *checkpoints;
    int checkpoint_count;
    sweep_grid *grids;
    int grid_count;
    const char *kinds[SWEEP_MOST_KINDS]; /* of sites that a ratio applies to; static */
    int kind_count;
    int64_t align;            /* as grail_compress_options has it */
    char *stream_score;       /* NULL: the default */
    bool repeats_calibration; /* further seeds for every cell, not only where the selector draws */
    sweep_images calibration, evaluation;
} sweep_recipe;

/** Index of a checkpoint by its name, or -1. */
int sweep_recipe_find(const sweep_recipe *recipe, const char *name);
/** Whether a ratio applies to sites of that kind. */
bool sweep_recipe_cuts(const sweep_recipe *recipe, const char *kind);

/** Reads a document; `source` names it in messages, relative paths begin at `directory`. *out is
 * filled, with a reference of its own to the document; sweep_recipe_fini. */
grail_status sweep_recipe_parse(const char *source, json_t *document, const char *directory,
                                sweep_recipe *out) GRAIL_MUST_CHECK;
/** Reads a file; relative paths begin at its directory. */
grail_status sweep_recipe_read(const char *path, sweep_recipe *out) GRAIL_MUST_CHECK;
void sweep_recipe_fini(sweep_recipe *recipe); /* works on a zeroed one */

/* -- lists.c, the lists of a recipe -------------------------------------------------------
 */

/** By name: its index of grail_selector_at. `where` is used in messages. */
grail_status sweep_find_selector(const char *where, const char *name, int *out) GRAIL_MUST_CHECK;

/**
 * A grid's lists and loop from an object; what it lacks is copied from `base` (may be NULL), or is
 * the default. With `complete` a list without default that neither has is refused.
 */
grail_status sweep_grid_read(const char *where, const json_t *object, const sweep_recipe *recipe,
                             const sweep_grid *base, bool complete,
                             sweep_grid *out) GRAIL_MUST_CHECK;
void sweep_grid_fini(sweep_grid *grid); /* works on a zeroed one */

#endif
