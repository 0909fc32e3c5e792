/* Images to calibrate on or to evaluate with, as a recipe names them. */
#ifndef GRAIL_STUDY_RECIPE_IMAGES_H
#define GRAIL_STUDY_RECIPE_IMAGES_H

#include "base/json.h"

#include <grail/images.h>

/** An image source with what its pointers point to; a preset is borrowed from the document. */
typedef struct sweep_images {
    grail_image_source source;
    char *path, *labels;
    int64_t images; /* of an evaluation; 0 = all */
} sweep_images;

/** The keys of one, up to NULL. */
extern const char *const sweep_images_keys[];

/** Reads the object `key` of a document; `source` names it in messages, relative paths begin at
 * `directory`. *out, which is zeroed, is released with sweep_images_fini also after a failure. */
grail_status sweep_images_read(const char *source, const json_t *document, const char *key,
                               const char *directory, sweep_images *out) GRAIL_MUST_CHECK;
void sweep_images_fini(sweep_images *images); /* works on a zeroed one */

#endif
