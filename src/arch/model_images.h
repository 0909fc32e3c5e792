/* Images for a model. The model supplies the preprocessing that the caller did not choose. */
#ifndef GRAIL_ARCH_MODEL_IMAGES_H
#define GRAIL_ARCH_MODEL_IMAGES_H

#include "arch/model.h"
#include "format/images/image_set.h"

/** Fills in the size if it is not given. GRAIL_ERROR_ARGUMENT when the network does not read
 * images. */
grail_status model_image_source(const grail_model *model,
                                grail_image_source *source) GRAIL_MUST_CHECK;

#endif
