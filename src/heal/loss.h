/* What healing lowers: how far a narrowed network's values are from the dense network's. */
#ifndef GRAIL_HEAL_LOSS_H
#define GRAIL_HEAL_LOSS_H

#include "backend/operations.h"

/** Adds sum_r |y_r - t_r|^2 / |t_r|^2 over the rows of Y and T[rows, width] to sum[1, 1] in f64,
 * which may be missing; nothing goes to the host. Rows of T that
 * are much shorter or longer than its others (|t_r|^2 below 1e-4 or above 256 times the median)
 * count as of that length. With
 * a gradient, dY[rows, width] = scale times the gradient of the sum; it may be Y. */
grail_status distance_add(matrix y, matrix target, double scale, matrix gradient,
                          matrix sum) GRAIL_MUST_CHECK;

/** Adds sum_r KL(softmax(target_r) || softmax(y_r)) to the sum; the gradient likewise. */
grail_status divergence_add(matrix y, matrix target, double scale, matrix gradient,
                            matrix sum) GRAIL_MUST_CHECK;

#endif
