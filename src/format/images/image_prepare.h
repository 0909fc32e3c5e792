/* From a decoded image to the network's input. */
#ifndef GRAIL_FORMAT_IMAGES_IMAGE_PREPARE_H
#define GRAIL_FORMAT_IMAGES_IMAGE_PREPARE_H

#include "format/images/image_preset.h"

/** out[side, side, 3] <- `picture`, prepared as the rule says; `picture` is overwritten. A size
 * that the rule does not accept is GRAIL_ERROR_SHAPE; messages do not name the file. */
grail_status image_prepare(const image_rule *rule, image *picture, float *out) GRAIL_MUST_CHECK;

#endif
