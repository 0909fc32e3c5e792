/* The kernels of the cpu backend, by file; operations.h says what each computes. */
#ifndef GRAIL_BACKEND_CPU_CPU_H
#define GRAIL_BACKEND_CPU_CPU_H

#include "backend/host/kernels.h"

/* start.c */
grail_status cpu_start(void);

/* product.c */
grail_status cpu_linear(int64_t rows, int64_t in, int64_t out, const void *x, const void *weight,
                        const void *bias, void *y);
grail_status cpu_product(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                         const void *a, const void *b, double beta, void *c);
void cpu_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
              const double *a, int64_t a_stride, const double *b, int64_t b_stride, double beta,
              double *c, int64_t c_stride);

/* bf16.c */
grail_status cpu_start_bf16(void);
grail_status cpu_bf16_linear(int64_t rows, int64_t in, int64_t out, const void *x,
                             const void *weight, const void *bias, void *y);
grail_status cpu_bf16_weight_linear(int64_t rows, int64_t in, int64_t out, const void *x,
                                    const void *weight, const void *bias, void *y);
grail_status cpu_bf16_convolve(const conv_shape *shape, const float *x, const float *weight,
                               const float *bias, bool accumulate, bool relu, float *y);

/* symmetric.c */
void cpu_add_symmetric(int64_t n, int64_t k, double alpha, const double *a, int64_t a_stride,
                       const double *b, int64_t b_stride, double *c, int64_t c_stride);
void cpu_cholesky_invert(int64_t n, double *l, int64_t stride);

/* elementwise.c */
void cpu_activation(activation_kind kind, int64_t count, const void *x, void *y);
void cpu_multiply(int64_t count, const void *a, const void *b, void *y);
void cpu_add(int64_t count, const void *a, const void *b, void *y);
void cpu_subtract(int64_t count, const void *a, const void *b, void *y);
int64_t cpu_find_non_finite(int64_t count, const void *x);

/* norms.c */
void cpu_rms_norm(int64_t rows, int64_t width, int64_t group, double epsilon, const void *x,
                  const void *weight, void *y);
void cpu_batch_norm(int64_t rows, int64_t width, double epsilon, const void *x, const void *mean,
                    const void *variance, const void *weight, const void *bias, void *y);
void cpu_layer_norm(int64_t rows, int64_t width, double epsilon, const void *x, const void *weight,
                    const void *bias, void *y);
void cpu_unit_length(int64_t rows, int64_t width, const void *x, void *y);

/* images.c */
grail_status cpu_conv2d(const conv_shape *shape, const void *x, const void *weight,
                        const void *bias, const conv_epilogue *epilogue, void *y);
grail_status cpu_bf16_conv2d(const conv_shape *shape, const void *x, const void *weight,
                             const void *bias, const conv_epilogue *epilogue, void *y);
void cpu_patches(const conv_shape *shape, const void *x, int64_t begin, int64_t end, void *p);
/* Output rows, of those that there are, whose patches stay in cache together; at least one. */
int64_t cpu_patch_step(const conv_shape *shape);
grail_status cpu_max_pool(const conv_shape *shape, const void *x, void *y);
void cpu_mean_positions(int64_t samples, int64_t positions, int64_t width, const void *x, void *y);

/* image_gradients.c */
grail_status cpu_conv2d_gradient(const conv_shape *shape, const void *x, const void *weight,
                                 const void *dy, void *dx, void *dweight, void *dbias);
grail_status cpu_max_pool_gradient(const conv_shape *shape, const void *x, const void *dy,
                                   void *dx);

/* rows.c */
void cpu_rope(const rope_shape *shape, int64_t heads, void *x);
void cpu_cross_entropy(int64_t rows, int64_t classes, const void *logits, int64_t first,
                       const int32_t *target, entropy_sums *sums);
void cpu_column_sums(int64_t rows, int64_t width, const void *x, int64_t stride, double *sum,
                     double *square);
void cpu_rounded_column_sums(int64_t rows, int64_t width, const void *x, int64_t stride,
                             double *sum, double *square);

/* attention.c */
grail_status cpu_attention(const attention_shape *shape, const void *q, const void *k,
                           const void *v, void *out);

/* attention_bf16.c */
grail_status cpu_bf16_attention(const attention_shape *shape, const void *q, const void *k,
                                const void *v, void *out);

/* attention_gradient.c */
grail_status cpu_attention_gradient(const attention_shape *shape, const void *q, const void *k,
                                    const void *v, const void *out, const void *dout, void *dq,
                                    void *dk, void *dv);

/* gradients_norms.c */
grail_status cpu_rms_norm_gradient(int64_t rows, int64_t width, int64_t group, double epsilon,
                                   const void *x, const void *weight, const void *dy, void *dx,
                                   void *dweight);
grail_status cpu_layer_norm_gradient(int64_t rows, int64_t width, double epsilon, const void *x,
                                     const void *weight, const void *dy, void *dx, void *dweight,
                                     void *dbias);
grail_status cpu_batch_norm_gradient(int64_t rows, int64_t width, double epsilon, const void *x,
                                     const void *mean, const void *variance, const void *weight,
                                     const void *dy, void *dx, void *dweight, void *dbias);
void cpu_unit_length_gradient(int64_t rows, int64_t width, const void *x, const void *dy, void *dx);

/* gradients_elementwise.c */
void cpu_activation_gradient(activation_kind kind, int64_t count, const void *x, const void *dy,
                             void *dx);
void cpu_descend(const descent *step, int64_t count, const void *gradient, void *first,
                 void *second, void *weight);

/* divergence.c */
void cpu_divergence(int64_t rows, int64_t classes, const void *target, const void *logits,
                    double scale, void *gradient, double *divergence);

/* gram.c */
grail_status cpu_gram(int64_t rows, int64_t width, const void *x, int64_t stride, double *g);
grail_status cpu_cross(int64_t rows, int64_t m, const void *y, int64_t y_stride, int64_t n,
                       const void *x, int64_t x_stride, double *c);

/* gram_split.c; split and rounded ones at any size and on any processor that multiplies bf16 */
grail_status cpu_split_gram(int64_t rows, int64_t width, const void *x, int64_t stride, double *g);
grail_status cpu_split_cross(int64_t rows, int64_t m, const void *y, int64_t y_stride, int64_t n,
                             const void *x, int64_t x_stride, double *c);
grail_status cpu_rounded_gram(int64_t rows, int64_t width, const void *x, int64_t stride,
                              double *g);
grail_status cpu_rounded_cross(int64_t rows, int64_t m, const void *y, int64_t y_stride, int64_t n,
                               const void *x, int64_t x_stride, double *c);
grail_status cpu_bf16_gram(int64_t rows, int64_t width, const void *x, int64_t stride, double *g);
grail_status cpu_bf16_cross(int64_t rows, int64_t m, const void *y, int64_t y_stride, int64_t n,
                            const void *x, int64_t x_stride, double *c);

/* dense.c */
pivot_index cpu_cholesky(int64_t n, double *a, int64_t stride);
void cpu_cholesky_solve(int64_t rows, int64_t n, const double *l, int64_t l_stride, double *b,
                        int64_t b_stride);
grail_status cpu_eigen(int64_t n, double *a, double *values);

#endif
