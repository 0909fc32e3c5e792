/* The pickle of a dictionary of tensors, as torch writes it. */
#ifndef GRAIL_FORMAT_TORCH_TORCH_PICKLE_H
#define GRAIL_FORMAT_TORCH_TORCH_PICKLE_H

#include "base/buffer.h"
#include "tensor/tensor.h"

/** Appends the pickle of {name: tensor}, under the key `wrapper` of another dictionary unless
 * `wrapper` is "". Tensor i takes all of storage i. */
grail_status torch_pickle_append(const char *wrapper, int64_t count, const tensor_view tensors[],
                                 buffer *out) GRAIL_MUST_CHECK;

#endif
