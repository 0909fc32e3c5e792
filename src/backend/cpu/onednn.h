/* What oneDNN computes: convolutions with their gradients and maximum pooling over f32 images,
 * channel last, and products of bf16. */
#ifndef GRAIL_BACKEND_CPU_ONEDNN_H
#define GRAIL_BACKEND_CPU_ONEDNN_H

#include "backend/operations.h"

/** Y = conv(X, weight) + bias, then + what Y held before when `accumulate`, then
 * min(max(., 0), ceiling) where that is not 0; bias may be NULL. */
grail_status onednn_convolve(const conv_shape *shape, const float *x, const float *weight,
                             const float *bias, bool accumulate, double ceiling,
                             float *y) GRAIL_MUST_CHECK;

/** The same of bf16 X and weight, with f32 sums. */
grail_status onednn_convolve_bf16(const conv_shape *shape, const void *x, const void *weight,
                                  const float *bias, bool accumulate, double ceiling,
                                  float *y) GRAIL_MUST_CHECK;

/** dX of the first. */
grail_status onednn_input_gradient(const conv_shape *shape, const float *weight, const float *dy,
                                   float *dx) GRAIL_MUST_CHECK;
/** dweight += the gradient of its weight. */
grail_status onednn_add_weight_gradient(const conv_shape *shape, const float *x, const float *dy,
                                        float *dweight) GRAIL_MUST_CHECK;

grail_status onednn_maximum(const conv_shape *shape, const float *x, float *y) GRAIL_MUST_CHECK;

/* -- products of bf16 with f32 sums --------------------------------------------------------------
 *
 * A weight W[out, in] lies in an order that the library chooses by its shape. */

/** How the library multiplies bf16 on this processor, each faster than the one before. */
typedef enum bf16_support { BF16_NONE, BF16_EMULATED, BF16_VECTORS, BF16_TILES } bf16_support;
bf16_support onednn_bf16_support(void);
grail_status onednn_weight_bytes(int64_t out, int64_t in, size_t *bytes) GRAIL_MUST_CHECK;
/** From row-major bf16 values[out, in] to that order, and back. */
grail_status onednn_weight_order(int64_t out, int64_t in, const void *values,
                                 void *weight) GRAIL_MUST_CHECK;
grail_status onednn_weight_restore(int64_t out, int64_t in, const void *weight,
                                   void *values) GRAIL_MUST_CHECK;
/** Y[rows, out] = X W^T + 1 bias, with bf16 X[rows, in]; bias may be NULL. */
grail_status onednn_product(int64_t rows, int64_t in, int64_t out, const void *x,
                            const void *weight, const float *bias, float *y) GRAIL_MUST_CHECK;

/** C[m, n] = A[m, k] B[k, n] of row-major bf16, or with `accumulate` C += A B. */
grail_status onednn_multiply(int64_t m, int64_t n, int64_t k, const void *a, const void *b,
                             bool accumulate, float *c) GRAIL_MUST_CHECK;

/* -- products of bf16 tiles of one shape, many times ---------------------------------------------
 *
 * C[m, n] = A[m, k] B[k, n] with f32 sums, called by workers of tasks.h side by side. B lies in an
 * order that the library chooses. */

typedef struct tile_kernel tile_kernel;
/** B is given as row-major values[n, k] when `transposed`, else [k, n]. *out is owned, even
 * after a failure. */
grail_status onednn_tiles_new(int64_t m, int64_t n, int64_t k, bool transposed,
                              tile_kernel **out) GRAIL_MUST_CHECK;
void onednn_tiles_free(tile_kernel *t);
/** Bytes of an ordered B. */
size_t onednn_tile_bytes(const tile_kernel *t);
void onednn_tile_order(tile_kernel *t, int64_t worker, const void *b, void *ordered);
void onednn_tile_multiply(tile_kernel *t, int64_t worker, const void *a, const void *ordered,
                          float *c);
/** The first failure of an order or a product. */
grail_status onednn_tiles_status(const tile_kernel *t) GRAIL_MUST_CHECK;

/** Version of the library that is loaded, such as "2.6.3"; static. */
const char *onednn_version(void);

#endif
