/* Images for a model. The model supplies the preprocessing that the caller did not choose. */
#ifndef GRAIL_ARCH_MODEL_IMAGES_H
#define GRAIL_ARCH_MODEL_IMAGES_H

#include "arch/model.h"
#include "format/images/image_set.h"

/** Fills in the size if it is not given. GRAIL_ERROR_ARGUMENT when the network does not read
 * images. */
grail_status model_image_source(const grail_model *model,
                                grail_image_source *source) GRAIL_MUST_CHECK;

/** Describes how the images of a source are prepared for the model, such as "224 x 224 pixels, the
 * shorter edge resized to 256 (bilinear), mean 0.5,0.5,0.5, std 0.5,0.5,0.5": equal for two models
 * if they are prepared alike. The source names no preset. *out is owned. */
grail_status model_describe_images(const grail_model *model, const grail_image_source *source,
                                   char **out) GRAIL_MUST_CHECK;

#endif
