/* The recipe of a sweep: a JSON document (grail-recipe(5)) with every value checked. */
#ifndef GRAIL_PIPELINE_SWEEP_RECIPE_H
#define GRAIL_PIPELINE_SWEEP_RECIPE_H

#include "base/json.h"
#include "graph/site.h"
#include "reduce/select.h"

#include <grail/images.h>
#include <grail/model.h>

/** What follows the cut: a compensation, and whether REPAIR follows that. */
typedef enum sweep_variant {
    SWEEP_NONE,
    SWEEP_REPAIR,
    SWEEP_GRAIL,
    SWEEP_GRAIL_REPAIR,
    SWEEP_FULL,
    SWEEP_FULL_REPAIR,
    SWEEP_VARIANTS
} sweep_variant;

/** "none", "repair", "grail", "grail+repair", "full", "full+repair". */
const char *sweep_variant_name(sweep_variant variant);
/** Its two parts: the compensation's name, static, and whether there is REPAIR. */
const char *sweep_variant_compensation(sweep_variant variant);
bool sweep_variant_repairs(sweep_variant variant);
/** The variant of two such parts; false when there is none. */
bool sweep_variant_find(const char *compensation, bool repairs, sweep_variant *out);

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
    SWEEP_SELECTORS,
    SWEEP_SPARSITIES,
    SWEEP_COMPENSATE, /* sweep_variant */
    SWEEP_SAMPLES,
    SWEEP_SEEDS,
    SWEEP_AXES
} sweep_axis;

typedef struct sweep_grid {
    sweep_list axes[SWEEP_AXES];
    bool open_loop;
} sweep_grid;

typedef struct sweep_recipe {
    json_t *document; /* owned reference */
    sweep_checkpoint *checkpoints;
    int checkpoint_count;
    sweep_grid *grids;
    int grid_count;
    bool cuts[SITE_KINDS];    /* kinds of sites that a ratio applies to */
    int64_t align;            /* as grail_compress_options has it */
    char *stream_score;       /* NULL: the default */
    bool repeats_calibration; /* further seeds for every cell, not only where the selector draws */
    sweep_images calibration, evaluation;
} sweep_recipe;

/** Reads a document; `source` names it in messages, relative paths begin at `directory`. *out is
 * filled, with a reference of its own to the document; sweep_recipe_fini. */
grail_status sweep_recipe_parse(const char *source, json_t *document, const char *directory,
                                sweep_recipe *out) GRAIL_MUST_CHECK;
/** Reads a file; relative paths begin at its directory. */
grail_status sweep_recipe_read(const char *path, sweep_recipe *out) GRAIL_MUST_CHECK;
void sweep_recipe_fini(sweep_recipe *recipe); /* works on a zeroed one */

/** A ratio as results are written with it: 12 digits, so that text and number are the same. */
double sweep_round_ratio(double value);

/* -- sweep_lists.c, the lists of a recipe -------------------------------------------------------
 */

/** A string that must be there and not be empty; *out is owned. */
grail_status sweep_read_text(const char *where, const json_t *object, const char *key,
                             char **out) GRAIL_MUST_CHECK;
/**
 * A grid's lists and loop from an object; what it lacks is copied from `base` (may be NULL), or is
 * the default. With `complete` a list without default that neither has is refused.
 */
grail_status sweep_grid_read(const char *where, const json_t *object, const sweep_recipe *recipe,
                             const sweep_grid *base, bool complete,
                             sweep_grid *out) GRAIL_MUST_CHECK;
void sweep_grid_fini(sweep_grid *grid); /* works on a zeroed one */

#endif
