/* Convolutions of 3 x 3 windows that move by one position, in f32, with a quarter of the products:
 * squares of 4 x 4 outputs from 6 x 6 inputs, F(4 x 4, 3 x 3) of Lavin and Gray, "Fast algorithms
 * for convolutional neural networks", 2015 (docs/numerics.md, Convolutions by squares). */
#ifndef GRAIL_BACKEND_CPU_WINOGRAD_H
#define GRAIL_BACKEND_CPU_WINOGRAD_H

#include "backend/operations.h"
#include "base/status.h"

/** Whether this processor has kernels for the squares, and they are faster than sums over taps. It
 * depends on one sample, so that outputs do not depend on how many are computed at once. */
bool winograd_suits(const conv_shape *shape);

/** Y = conv(X, weight) + bias, then + what Y held before when `accumulate`, then
 * min(max(., 0), ceiling) where that is not 0; bias may be NULL. */
grail_status winograd_convolve(const conv_shape *shape, const float *x, const float *weight,
                               const float *bias, bool accumulate, double ceiling,
                               float *y) GRAIL_MUST_CHECK;

/** Whether the gradient of X is a convolution that winograd_suits. */
bool winograd_suits_gradient(const conv_shape *shape);
/** dX from dY. */
grail_status winograd_input_gradient(const conv_shape *shape, const float *weight, const float *dy,
                                     float *dx) GRAIL_MUST_CHECK;

#endif
