/* What the backends on the host have in common: memory, copies, and the passage from matrices to
 * kernels. A kernel works on row-major arrays of the backend's values (float for cpu, double for
 * ref), which it takes as void pointers; `stride` is the distance between rows in elements. What a
 * kernel computes is said at the operation of its name in operations.h. */
#ifndef GRAIL_BACKEND_HOST_KERNELS_H
#define GRAIL_BACKEND_HOST_KERNELS_H

#include "backend/kind.h"

/** Operations that follow a convolution in the same pass over its output; unused for statistics. */
typedef struct conv_epilogue {
    const void *residual; /* Y[...] to be added, or NULL; may be the output itself */
    bool relu;
} conv_epilogue;

/** Result of a factorisation: index of the first pivot that is not positive, or -1. */
typedef int64_t pivot_index;

/** Kernels of gradients.h, named after the operation whose gradient they make. */
typedef struct gradient_kernels {
    grail_status (*product)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                            const void *a, const void *b, double beta, void *c);
    grail_status (*rms_norm)(int64_t rows, int64_t width, int64_t group, double epsilon,
                             const void *x, const void *weight, const void *dy, void *dx,
                             void *dweight);
    grail_status (*layer_norm)(int64_t rows, int64_t width, double epsilon, const void *x,
                               const void *weight, const void *dy, void *dx, void *dweight,
                               void *dbias);
    grail_status (*batch_norm)(int64_t rows, int64_t width, double epsilon, const void *x,
                               const void *mean, const void *variance, const void *weight,
                               const void *dy, void *dx, void *dweight, void *dbias);
    void (*unit_length)(int64_t rows, int64_t width, const void *x, const void *dy, void *dx);
    grail_status (*attention)(const attention_shape *shape, const void *q, const void *k,
                              const void *v, const void *out, const void *dout, void *dq, void *dk,
                              void *dv);
    void (*activation)(activation_kind kind, int64_t count, const void *x, const void *dy,
                       void *dx);
    grail_status (*conv2d)(const conv_shape *shape, const void *x, const void *weight,
                           const void *dy, void *dx, void *dweight, void *dbias);
    grail_status (*max_pool)(const conv_shape *shape, const void *x, const void *dy, void *dx);
    void (*divergence)(int64_t rows, int64_t classes, const void *target, const void *logits,
                       double scale, void *gradient, double *divergence);
    void (*descend)(const descent *step, int64_t count, const void *gradient, void *first,
                    void *second, void *weight);
} gradient_kernels;

/** For a backend whose weights of products have a type of their own and lie in an order of its own
 * (kind.h); else unused. */
typedef struct weight_kernels {
    /** From packed values[out, in] of the weights' type to that order, and back. */
    grail_status (*order)(int64_t out, int64_t in, const void *values, void *weight);
    grail_status (*restore)(int64_t out, int64_t in, const void *weight, void *values);
    grail_status (*linear)(int64_t rows, int64_t in, int64_t out, const void *x, const void *weight,
                           const void *bias, void *y);
} weight_kernels;

typedef struct host_kernels {
    weight_kernels weights;
    grail_status (*linear)(int64_t rows, int64_t in, int64_t out, const void *x, const void *weight,
                           const void *bias, void *y);
    void (*rms_norm)(int64_t rows, int64_t width, int64_t group, double epsilon, const void *x,
                     const void *weight, void *y);
    void (*rope)(const rope_shape *shape, int64_t heads, void *x);
    grail_status (*attention)(const attention_shape *shape, const void *q, const void *k,
                              const void *v, void *out);
    void (*activation)(activation_kind kind, int64_t count, const void *x, void *y);
    void (*multiply)(int64_t count, const void *a, const void *b, void *y);
    void (*add)(int64_t count, const void *a, const void *b, void *y);
    void (*subtract)(int64_t count, const void *a, const void *b, void *y);
    void (*cross_entropy)(int64_t rows, int64_t classes, const void *logits, int64_t first,
                          const int32_t *target, entropy_sums *sums);
    int64_t (*find_non_finite)(int64_t count, const void *x);
    grail_status (*conv2d)(const conv_shape *shape, const void *x, const void *weight,
                           const void *bias, const conv_epilogue *epilogue, void *y);
    void (*patches)(const conv_shape *shape, const void *x, int64_t begin, int64_t end, void *p);
    grail_status (*max_pool)(const conv_shape *shape, const void *x, void *y);
    void (*mean_positions)(int64_t samples, int64_t positions, int64_t width, const void *x,
                           void *y);
    void (*batch_norm)(int64_t rows, int64_t width, double epsilon, const void *x, const void *mean,
                       const void *variance, const void *weight, const void *bias, void *y);
    void (*layer_norm)(int64_t rows, int64_t width, double epsilon, const void *x,
                       const void *weight, const void *bias, void *y);
    void (*unit_length)(int64_t rows, int64_t width, const void *x, void *y);
    grail_status (*gram)(int64_t rows, int64_t width, const void *x, int64_t stride, double *g);
    grail_status (*cross)(int64_t rows, int64_t m, const void *y, int64_t y_stride, int64_t n,
                          const void *x, int64_t x_stride, double *c);
    void (*column_sums)(int64_t rows, int64_t width, const void *x, int64_t stride, double *sum,
                        double *square);
    void (*gemm)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
                 const double *a, int64_t a_stride, const double *b, int64_t b_stride, double beta,
                 double *c, int64_t c_stride);
    void (*add_symmetric)(int64_t n, int64_t k, double alpha, const double *a, int64_t a_stride,
                          const double *b, int64_t b_stride, double *c, int64_t c_stride);
    pivot_index (*cholesky)(int64_t n, double *a, int64_t stride);
    void (*cholesky_solve)(int64_t rows, int64_t n, const double *l, int64_t l_stride, double *b,
                           int64_t b_stride);
    void (*cholesky_invert)(int64_t n, double *l, int64_t stride);
    grail_status (*eigen)(int64_t n, double *a, double *values);
    gradient_kernels gradients;
} host_kernels;

/* memory.c */
grail_status host_allocate(backend *b, size_t bytes, bool zeroed, void **out);
grail_status host_resize(backend *b, void **memory, size_t bytes);
void host_release(backend *b, void *memory, size_t bytes);
grail_status host_upload(matrix m, const void *values);
grail_status host_download(matrix m, void *values);
/** The address of a row, which only a backend on the host may follow. */
void *host_row(matrix m, int64_t row);
/** Rows that make some 32768 elements: the piece of work that is worth handing to a thread. */
int64_t host_rows_grain(int64_t columns);

/* copies.c */
grail_status host_copy(backend *b, const operation *o);
grail_status host_zero(backend *b, const operation *o);
grail_status host_gather(backend *b, const operation *o);
grail_status host_fold_columns(backend *b, const operation *o);
grail_status host_fold_rows(backend *b, const operation *o);

/* positions.c */
grail_status host_shortcut(backend *b, const operation *o);
grail_status host_windows(backend *b, const operation *o);
grail_status host_shortcut_gradient(backend *b, const operation *o);

/* algebra.c */
grail_status host_add_scaled(backend *b, const operation *o);
grail_status host_add_outer(backend *b, const operation *o);
grail_status host_diagonal(backend *b, const operation *o);
grail_status host_set_diagonal(backend *b, const operation *o);
grail_status host_shift_diagonal(backend *b, const operation *o);
grail_status host_row_dots(backend *b, const operation *o);
grail_status host_divide_columns(backend *b, const operation *o);
grail_status host_scale_rows(backend *b, const operation *o);
grail_status host_cholesky_multiply(backend *b, const operation *o);

/* triangles.c */
grail_status host_fill_upper(backend *b, const operation *o);
grail_status host_fill_lower(backend *b, const operation *o);

/* search.c */
grail_status host_find_non_finite(backend *b, const operation *o);

/* slots.c: operations that are kernels */
grail_status host_linear(backend *b, const operation *o);
grail_status host_rms_norm(backend *b, const operation *o);
grail_status host_rope(backend *b, const operation *o);
grail_status host_attention(backend *b, const operation *o);
grail_status host_activate(backend *b, const operation *o);
grail_status host_combine(backend *b, const operation *o);
grail_status host_cross_entropy(backend *b, const operation *o);
grail_status host_conv2d(backend *b, const operation *o);
grail_status host_patches(backend *b, const operation *o);
grail_status host_max_pool(backend *b, const operation *o);
grail_status host_mean_positions(backend *b, const operation *o);
grail_status host_batch_norm(backend *b, const operation *o);
grail_status host_layer_norm(backend *b, const operation *o);
grail_status host_unit_length(backend *b, const operation *o);
grail_status host_gram(backend *b, const operation *o);
grail_status host_cross(backend *b, const operation *o);
grail_status host_column_sums(backend *b, const operation *o);
grail_status host_gemm(backend *b, const operation *o);
grail_status host_add_symmetric(backend *b, const operation *o);
grail_status host_cholesky(backend *b, const operation *o);
grail_status host_cholesky_solve(backend *b, const operation *o);
grail_status host_cholesky_invert(backend *b, const operation *o);
grail_status host_eigen(backend *b, const operation *o);

/* gradients.c: gradients that are kernels */
grail_status host_product(backend *b, const operation *o);
grail_status host_rms_norm_gradient(backend *b, const operation *o);
grail_status host_layer_norm_gradient(backend *b, const operation *o);
grail_status host_batch_norm_gradient(backend *b, const operation *o);
grail_status host_unit_length_gradient(backend *b, const operation *o);
grail_status host_attention_gradient(backend *b, const operation *o);
grail_status host_activate_gradient(backend *b, const operation *o);
grail_status host_conv2d_gradient(backend *b, const operation *o);
grail_status host_max_pool_gradient(backend *b, const operation *o);
grail_status host_divergence(backend *b, const operation *o);
grail_status host_descend(backend *b, const operation *o);

/** The fields of backend_kind that all backends on the host share. */
#define HOST_BACKEND                                                                               \
    .devices = 1, .is_host = true, .allocate = host_allocate, .resize = host_resize,               \
    .release = host_release, .upload = host_upload, .download = host_download,                     \
    .slots = {                                                                                     \
        [SLOT_linear] = host_linear,                                                               \
        [SLOT_rms_norm] = host_rms_norm,                                                           \
        [SLOT_rope] = host_rope,                                                                   \
        [SLOT_attention] = host_attention,                                                         \
        [SLOT_activate] = host_activate,                                                           \
        [SLOT_multiply] = host_combine,                                                            \
        [SLOT_add] = host_combine,                                                                 \
        [SLOT_subtract] = host_combine,                                                            \
        [SLOT_scale_rows] = host_scale_rows,                                                       \
        [SLOT_cross_entropy] = host_cross_entropy,                                                 \
        [SLOT_find_non_finite] = host_find_non_finite,                                             \
        [SLOT_conv2d] = host_conv2d,                                                               \
        [SLOT_patches] = host_patches,                                                             \
        [SLOT_max_pool] = host_max_pool,                                                           \
        [SLOT_mean_positions] = host_mean_positions,                                               \
        [SLOT_batch_norm] = host_batch_norm,                                                       \
        [SLOT_layer_norm] = host_layer_norm,                                                       \
        [SLOT_unit_length] = host_unit_length,                                                     \
        [SLOT_shortcut] = host_shortcut,                                                           \
        [SLOT_windows] = host_windows,                                                             \
        [SLOT_gram] = host_gram,                                                                   \
        [SLOT_cross] = host_cross,                                                                 \
        [SLOT_column_sums] = host_column_sums,                                                     \
        [SLOT_copy] = host_copy,                                                                   \
        [SLOT_zero] = host_zero,                                                                   \
        [SLOT_gather] = host_gather,                                                               \
        [SLOT_fold_columns] = host_fold_columns,                                                   \
        [SLOT_fold_rows] = host_fold_rows,                                                         \
        [SLOT_gemm] = host_gemm,                                                                   \
        [SLOT_add_symmetric] = host_add_symmetric,                                                 \
        [SLOT_add_scaled] = host_add_scaled,                                                       \
        [SLOT_add_outer] = host_add_outer,                                                         \
        [SLOT_diagonal] = host_diagonal,                                                           \
        [SLOT_set_diagonal] = host_set_diagonal,                                                   \
        [SLOT_shift_diagonal] = host_shift_diagonal,                                               \
        [SLOT_fill_upper] = host_fill_upper,                                                       \
        [SLOT_fill_lower] = host_fill_lower,                                                       \
        [SLOT_row_dots] = host_row_dots,                                                           \
        [SLOT_divide_columns] = host_divide_columns,                                               \
        [SLOT_cholesky] = host_cholesky,                                                           \
        [SLOT_cholesky_solve] = host_cholesky_solve,                                               \
        [SLOT_cholesky_multiply] = host_cholesky_multiply,                                         \
        [SLOT_cholesky_invert] = host_cholesky_invert,                                             \
        [SLOT_eigen] = host_eigen,                                                                 \
        [SLOT_product] = host_product,                                                             \
        [SLOT_rms_norm_gradient] = host_rms_norm_gradient,                                         \
        [SLOT_layer_norm_gradient] = host_layer_norm_gradient,                                     \
        [SLOT_batch_norm_gradient] = host_batch_norm_gradient,                                     \
        [SLOT_unit_length_gradient] = host_unit_length_gradient,                                   \
        [SLOT_attention_gradient] = host_attention_gradient,                                       \
        [SLOT_activate_gradient] = host_activate_gradient,                                         \
        [SLOT_conv2d_gradient] = host_conv2d_gradient,                                             \
        [SLOT_max_pool_gradient] = host_max_pool_gradient,                                         \
        [SLOT_shortcut_gradient] = host_shortcut_gradient,                                         \
        [SLOT_divergence] = host_divergence,                                                       \
        [SLOT_descend] = host_descend,                                                             \
    }

#endif
