/* The kernels of the reference backend, by file; operations.h says what each computes. */
#ifndef GRAIL_BACKEND_REF_REFERENCE_H
#define GRAIL_BACKEND_REF_REFERENCE_H

#include "backend/host/kernels.h"

/* reference_dense.c */
void ref_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
              const double *a, int64_t a_stride, const double *b, int64_t b_stride, double beta,
              double *c, int64_t c_stride);
void ref_add_symmetric(int64_t n, int64_t k, double alpha, const double *a, int64_t a_stride,
                       const double *b, int64_t b_stride, double *c, int64_t c_stride);
pivot_index ref_cholesky(int64_t n, double *a, int64_t stride);
void ref_cholesky_solve(int64_t rows, int64_t n, const double *l, int64_t l_stride, double *b,
                        int64_t b_stride);
void ref_cholesky_invert(int64_t n, double *l, int64_t stride);
grail_status ref_eigen(int64_t n, double *a, double *values);

/* reference_attention.c */
grail_status ref_attention(const attention_shape *shape, const void *q, const void *k,
                           const void *v, void *out);
grail_status ref_attention_gradient(const attention_shape *shape, const void *q, const void *k,
                                    const void *v, const void *out, const void *dout, void *dq,
                                    void *dk, void *dv);

/* reference_gradients.c */
grail_status ref_product(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                         const void *a, const void *b, double beta, void *c);
grail_status ref_rms_norm_gradient(int64_t rows, int64_t width, int64_t group, double epsilon,
                                   const void *x, const void *weight, const void *dy, void *dx,
                                   void *dweight);
grail_status ref_layer_norm_gradient(int64_t rows, int64_t width, double epsilon, const void *x,
                                     const void *weight, const void *dy, void *dx, void *dweight,
                                     void *dbias);
grail_status ref_batch_norm_gradient(int64_t rows, int64_t width, double epsilon, const void *x,
                                     const void *mean, const void *variance, const void *weight,
                                     const void *dy, void *dx, void *dweight, void *dbias);
void ref_unit_length_gradient(int64_t rows, int64_t width, const void *x, const void *dy, void *dx);
void ref_activation_gradient(activation_kind kind, int64_t count, const void *x, const void *dy,
                             void *dx);
void ref_divergence(int64_t rows, int64_t classes, const void *target, const void *logits,
                    double scale, void *gradient, double *divergence);
void ref_descend(const descent *step, int64_t count, const void *gradient, void *first,
                 void *second, void *weight);

/* reference_image.c */
grail_status ref_conv2d_gradient(const conv_shape *shape, const void *x, const void *weight,
                                 const void *dy, void *dx, void *dweight, void *dbias);
grail_status ref_max_pool_gradient(const conv_shape *shape, const void *x, const void *dy,
                                   void *dx);
grail_status ref_conv2d(const conv_shape *shape, const void *x, const void *weight,
                        const void *bias, const conv_epilogue *epilogue, void *y);
void ref_patches(const conv_shape *shape, const void *x, int64_t begin, int64_t end, void *p);
grail_status ref_max_pool(const conv_shape *shape, const void *x, void *y);
void ref_mean_positions(int64_t samples, int64_t positions, int64_t width, const void *x, void *y);
void ref_batch_norm(int64_t rows, int64_t width, double epsilon, const void *x, const void *mean,
                    const void *variance, const void *weight, const void *bias, void *y);
void ref_layer_norm(int64_t rows, int64_t width, double epsilon, const void *x, const void *weight,
                    const void *bias, void *y);
void ref_unit_length(int64_t rows, int64_t width, const void *x, void *y);

#endif
