/* Parts of image networks that no known family has, recognised by the names and shapes of tensors.
 */
#ifndef GRAIL_ARCH_FOREIGN_PARTS_H
#define GRAIL_ARCH_FOREIGN_PARTS_H

#include "format/weights/checkpoint.h"

/**
 * If an image network did not open with `status`, and its tensors show why: records this reason
 * instead, and returns GRAIL_ERROR_UNSUPPORTED. Otherwise returns `status` and leaves the message
 * as it is; so with checkpoints without a tensor of four dimensions, which are no image networks.
 */
grail_status foreign_parts_explain(const checkpoint *weights, grail_status status);

#endif
