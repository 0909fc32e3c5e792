/* The kernels of the cpu backend: cpu_NAME for each row OPERATION of operation_list.h, in f32, and
 * those that another precision has of its own. */
#ifndef GRAIL_BACKEND_CPU_KERNELS_H
#define GRAIL_BACKEND_CPU_KERNELS_H

#include "backend/host/host.h"

#define OPERATION(name, ...) grail_status cpu_##name(const operation *o) GRAIL_MUST_CHECK;
#define HOST_OPERATION(...)
#include "backend/operation_list.h"

/** Prepares the calling thread for products, and for those of bf16. */
grail_status cpu_start(void) GRAIL_MUST_CHECK;
grail_status cpu_start_bf16(void) GRAIL_MUST_CHECK;

/* Products of values rounded to bf16, with f32 sums. */
extern const weight_order cpu_bf16_weights;
grail_status cpu_bf16_linear(const operation *o) GRAIL_MUST_CHECK;
grail_status cpu_parts_linear(const operation *o) GRAIL_MUST_CHECK;
grail_status cpu_parts_product(const operation *o) GRAIL_MUST_CHECK;
grail_status cpu_bf16_conv2d(const operation *o) GRAIL_MUST_CHECK;
grail_status cpu_bf16_attention(const operation *o) GRAIL_MUST_CHECK;
grail_status cpu_bf16_attention_gradient(const operation *o) GRAIL_MUST_CHECK;
grail_status cpu_bf16_product(const operation *o) GRAIL_MUST_CHECK;

/* Statistics from two parts of bf16 for each value, at any size; of values rounded to bf16; and
 * from parts where that is faster. */
grail_status cpu_split_gram(const operation *o) GRAIL_MUST_CHECK;
grail_status cpu_split_cross(const operation *o) GRAIL_MUST_CHECK;
grail_status cpu_rounded_gram(const operation *o) GRAIL_MUST_CHECK;
grail_status cpu_rounded_cross(const operation *o) GRAIL_MUST_CHECK;
grail_status cpu_rounded_column_sums(const operation *o) GRAIL_MUST_CHECK;
grail_status cpu_bf16_gram(const operation *o) GRAIL_MUST_CHECK;
grail_status cpu_bf16_cross(const operation *o) GRAIL_MUST_CHECK;

/** y = min(max(y, 0), ceiling); NaN stays. On one thread. */
void cpu_limit(int64_t count, float ceiling, float *y);

/** Y = conv(X, weight) + bias, then + what Y held before when `accumulate`, then
 * min(max(., 0), ceiling) where that is not 0, of operands rounded to bf16; bias may be NULL. */
grail_status cpu_bf16_convolve(const conv_shape *shape, const float *x, const float *weight,
                               const float *bias, bool accumulate, double ceiling,
                               float *y) GRAIL_MUST_CHECK;
/** Uses the patches of output positions from `first` on. */
typedef grail_status (*patches_use)(const operation *o, int64_t first, matrix patches);
/** Makes the patches of an operation's X, m[0], some output rows at a time so that they stay in
 * cache. */
grail_status cpu_over_patches(const operation *o, patches_use use) GRAIL_MUST_CHECK;

#endif
