/* Gradients of the operations that networks consist of, and the step of an optimiser.
 *
 * dY stands for the gradient of a loss with respect to the output Y of an operation; each function
 * here makes from it the gradients with respect to that operation's inputs. The gradient of an
 * input, dX, is overwritten; that of a parameter is added to what is there, so that it sums over
 * batches. A gradient that is not wanted is given as no_matrix. All matrices are packed values;
 * sums over the features of a row and over rows are f64 where those of the operation are. */
#ifndef GRAIL_BACKEND_GRADIENTS_H
#define GRAIL_BACKEND_GRADIENTS_H

#include "backend/operations.h"

/** C[m, n] = op(A) op(B) + beta C, op is transposition when the flag is set. For Y = X W^T + 1 b:
 * dX = dY W, dW += dY^T X. */
grail_status matrix_product(bool transpose_a, bool transpose_b, matrix a, matrix b, double beta,
                            matrix c) GRAIL_MUST_CHECK;
/** With s = sqrt(mean(x^2) + epsilon) of each group: dX = weight dy / s - x sum(weight dy x) /
 * (group s^3), dweight += sum over groups of dy x / s. dX may be dY. */
grail_status matrix_rms_norm_gradient(double epsilon, matrix x, matrix weight, matrix dy, matrix dx,
                                      matrix dweight) GRAIL_MUST_CHECK;
/** With xn = (x - mean) / s and g = weight dy of a row: dX = (g - mean(g) - xn mean(g xn)) / s,
 * dweight += sum over rows of dy xn, dbias += sum over rows of dy. weight may be missing; dX may be
 * dY. */
grail_status matrix_layer_norm_gradient(double epsilon, matrix x, matrix weight, matrix dy,
                                        matrix dx, matrix dweight, matrix dbias) GRAIL_MUST_CHECK;
/** With fixed mean and variance, s = sqrt(variance + epsilon): dX = weight dy / s, dweight += sum
 * over rows of dy (x - mean) / s, dbias += sum over rows of dy. weight may be missing; dX may be
 * dY.
 */
grail_status matrix_batch_norm_gradient(double epsilon, matrix x, matrix mean, matrix variance,
                                        matrix weight, matrix dy, matrix dx, matrix dweight,
                                        matrix dbias) GRAIL_MUST_CHECK;
/** Y = x / l, l = max(||x||_2, 1e-12): dX = (dy - y (y . dy)) / l, or dy / l where l is the bound;
 * dX may be dY. */
grail_status matrix_unit_length_gradient(matrix x, matrix dy, matrix dx) GRAIL_MUST_CHECK;
/** Per head, P the weights of the softmax and D = sum(dout out) of each row: dV = P^T dOUT,
 * dS = P (dOUT V^T - D), dQ = scale dS K, dK = scale dS^T Q; dK and dV sum over the query heads
 * that share a key/value head. `out` is what matrix_attention made. */
grail_status matrix_attention_gradient(const attention_shape *shape, matrix q, matrix k, matrix v,
                                       matrix out, matrix dout, matrix dq, matrix dk,
                                       matrix dv) GRAIL_MUST_CHECK;
/** dX = f'(x) dy; that of relu is 0 at 0. dX may be dY. */
grail_status matrix_activate_gradient(activation_kind kind, matrix x, matrix dy,
                                      matrix dx) GRAIL_MUST_CHECK;
/** Of Y = conv(X, weight) + bias. All three gradients may be missing. */
grail_status matrix_conv2d_gradient(const conv_shape *shape, matrix x, matrix weight, matrix dy,
                                    matrix dx, matrix dweight, matrix dbias) GRAIL_MUST_CHECK;
/** dy goes to the first of the largest elements of each window. */
grail_status matrix_max_pool_gradient(const conv_shape *shape, matrix x, matrix dy,
                                      matrix dx) GRAIL_MUST_CHECK;
/** Zero at the positions and channels that matrix_shortcut did not take or make. */
grail_status matrix_shortcut_gradient(const position_shape *shape, matrix dy,
                                      matrix dx) GRAIL_MUST_CHECK;

/** divergence[i] = KL(p || q) of row i in f64, on the host, with p = softmax(target), q =
 * softmax(logits); gradient = scale (q - p), which may be `logits` or missing. */
grail_status matrix_divergence(matrix target, matrix logits, double scale, matrix gradient,
                               double *divergence) GRAIL_MUST_CHECK;

/** One step of gradient descent whose length is adapted to each element: Adam (Kingma and Ba 2015),
 * and without first moments RMSprop. */
typedef struct descent {
    double rate;
    double first_decay, second_decay; /* of the moments; first_decay 0: no first moments */
    double first_share, second_share; /* by which the moments are divided: 1 - decay^step, or 1 */
    double epsilon;
} descent;

/** m = first_decay m + (1 - first_decay) g, v = second_decay v + (1 - second_decay) g^2,
 * w -= rate (m / first_share) / (sqrt(v / second_share) + epsilon). All have one shape. */
grail_status matrix_descend(const descent *step, matrix gradient, matrix first, matrix second,
                            matrix weight) GRAIL_MUST_CHECK;

#endif
