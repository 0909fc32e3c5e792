/* How the images of an open model are prepared: what the files of the checkpoint say, or else what
 * is usual in its family. */
#ifndef GRAIL_ARCH_MODEL_PREPARATION_H
#define GRAIL_ARCH_MODEL_PREPARATION_H

#include "arch/model.h"
#include "format/images/image_preset.h"

#define PREPARATION_BY_SETTING "the setting preset"

/** How the images of a network are prepared where the caller names no preset. */
typedef struct model_preparation {
    image_preparation what;
    const char *origin;       /* base name of the file that says it, or the setting; static. NULL:
                                 assumed */
    const char *file;         /* that file, if it is not the configuration; static */
    grail_status failure;     /* why `what` is not set: what the file says cannot be followed */
    char *failure_text;       /* owned */
    char notice[NOTICE_SIZE]; /* what was assumed; "" for nothing */
} model_preparation;

/**
 * Makes model->preparation. In this order: a preset that a setting names, timm's config.json, the
 * files preprocessor_config.json and open_clip_config.json of `directory` (may be NULL), a preset
 * that the configuration names, the usual preset of the family. `preset` is
 * PREPARATION_BY_SETTING, or the configuration's name when it names a preset, or NULL. What a file
 * says and cannot be followed is kept as a failure, because a caller may name a preset.
 */
grail_status model_preparation_find(grail_model *model, const char *directory, bool is_recognised,
                                    const char *preset) GRAIL_MUST_CHECK;

void model_preparation_free(model_preparation *p); /* NULL is allowed */

/** *out <- the preparation, borrowed, NULL if the model has none; or the failure, with the remedy.
 */
grail_status model_preparation_use(const grail_model *model,
                                   const image_preparation **out) GRAIL_MUST_CHECK;

#endif
