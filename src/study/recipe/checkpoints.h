/* The checkpoints of a recipe. */
#ifndef GRAIL_STUDY_RECIPE_CHECKPOINTS_H
#define GRAIL_STUDY_RECIPE_CHECKPOINTS_H

#include "base/json.h"

/** What a network reads; known when it is opened. */
typedef enum checkpoint_input { INPUT_UNKNOWN, INPUT_IS_IMAGES, INPUT_IS_TEXT } checkpoint_input;

typedef struct sweep_checkpoint {
    char *name, *path;
    char *opens; /* where this process opens it: the path, or a copy of what lies there on rank 0 */
    char **settings; /* "key=value" */
    int setting_count;
    checkpoint_input input;
} sweep_checkpoint;

typedef struct sweep_checkpoints {
    sweep_checkpoint *list;
    int count;
} sweep_checkpoints;

/** The keys of one, up to NULL. */
extern const char *const sweep_checkpoint_keys[];

/** Reads the array "checkpoints" of a document; `source` names it in messages, relative paths begin
 * at `directory`. *out is released with sweep_checkpoints_fini. */
grail_status sweep_checkpoints_read(const char *source, const json_t *document,
                                    const char *directory, sweep_checkpoints *out) GRAIL_MUST_CHECK;
void sweep_checkpoints_fini(sweep_checkpoints *checkpoints); /* works on a zeroed one */

/** Index of a checkpoint by its name, or -1. */
int sweep_checkpoints_find(const sweep_checkpoints *checkpoints, const char *name);

#endif
