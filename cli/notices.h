/* What had to be assumed of a model, on standard error. */
#ifndef GRAIL_CLI_NOTICES_H
#define GRAIL_CLI_NOTICES_H

#include <grail/eval.h>
#include <grail/images.h>

#include <jansson.h>

#include <stdbool.h>

/** Prints a notice on the checkpoint at `path`, which `option` is about; either may be NULL: no
 * notice, no option. */
void print_notice(const char *path, const char *notice, const char *option);

/** Those of a model and two more, which may be NULL or "", as an array; those on how images are
 * prepared only if it prepares images, and no preset was chosen for them. */
json_t *notices_json(const grail_model *model, bool prepares_images, const char *second,
                     const char *third);
/** Prints those of the model opened from `path`. */
void print_notices(const char *path, const grail_model *model, bool prepares_images);

/** Warns where the classes of `data`, which the accuracy was measured on, are hardly those of the
 * network: fewer, or in another order. `by_csv`: a file gave them. */
void print_class_warnings(const char *data, const grail_accuracy *a, bool by_csv);

#endif
