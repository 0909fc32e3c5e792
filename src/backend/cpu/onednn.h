/* Convolution with its gradients and maximum pooling over f32 images, channel last, by oneDNN. */
#ifndef GRAIL_BACKEND_CPU_ONEDNN_H
#define GRAIL_BACKEND_CPU_ONEDNN_H

#include "backend/operations.h"

/** Y = conv(X, weight) + bias, then + what Y held before when `accumulate`, then max(., 0) when
 * `relu`; bias may be NULL. */
grail_status onednn_convolve(const conv_shape *shape, const float *x, const float *weight,
                             const float *bias, bool accumulate, bool relu,
                             float *y) GRAIL_MUST_CHECK;

/** dX of that convolution. */
grail_status onednn_input_gradient(const conv_shape *shape, const float *weight, const float *dy,
                                   float *dx) GRAIL_MUST_CHECK;
/** dweight += the gradient of its weight. */
grail_status onednn_add_weight_gradient(const conv_shape *shape, const float *x, const float *dy,
                                        float *dweight) GRAIL_MUST_CHECK;

grail_status onednn_maximum(const conv_shape *shape, const float *x, float *y) GRAIL_MUST_CHECK;

/** Version of the library that is loaded, such as "2.6.3"; static. */
const char *onednn_version(void);

#endif
