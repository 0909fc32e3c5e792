/* Images and texts to calibrate on or to measure with, as a recipe names them. */
#ifndef GRAIL_STUDY_RECIPE_DATA_H
#define GRAIL_STUDY_RECIPE_DATA_H

#include "study/recipe/checkpoints.h"

#include <grail/images.h>
#include <grail/text.h>

typedef enum data_kind { DATA_IMAGES, DATA_TEXT } data_kind;

/** A source with what its pointers point to; words are borrowed from the document. */
typedef struct sweep_data {
    char *name; /* NULL: the only one, which needs none */
    data_kind kind;
    char *path, *labels;
    grail_image_source images;
    grail_text_source text;
    int64_t count; /* images or windows of an evaluation; 0 = all */
    bool *serves;  /* [checkpoints] */
} sweep_data;

typedef struct sweep_data_list {
    sweep_data *list;
    int count;
} sweep_data_list;

/** The keys that images and texts have beside those of grail_image_option_at and
 * grail_text_option_at, up to NULL. */
extern const char *const sweep_images_keys[];
extern const char *const sweep_text_keys[];

/** Reads `key` of a document, an object or an array of objects with names; `source` names it in
 * messages, relative paths begin at `directory`. *out, which is zeroed, is released with
 * sweep_data_fini also after a failure. */
grail_status sweep_data_read(const char *source, const json_t *document, const char *key,
                             const char *directory, const sweep_checkpoints *checkpoints,
                             sweep_data_list *out) GRAIL_MUST_CHECK;
void sweep_data_fini(sweep_data_list *data); /* works on a zeroed one */

/** Whether the network of this checkpoint reads it, as far as that is known. */
bool sweep_data_serves(const sweep_data *data, const sweep_checkpoints *checkpoints,
                       int checkpoint);

/** Index of one by its name, NULL for that without a name; -1 where there is none. */
int sweep_data_find(const sweep_data_list *data, const char *name);

#endif
