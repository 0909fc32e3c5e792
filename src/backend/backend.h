/* Backends: the arithmetic of a run. A backend is one table of functions over row-major matrices of
 * its own element type: `cpu` works in f32 (BLIS products, our kernels), `ref` in f64 with plain
 * loops (the oracle).
 *
 * Shapes are written X[rows, width]. "Element" is float for cpu and double for ref; matrices are
 * passed as void pointers so that one executor serves all. `stride` is the distance between rows in
 * elements. Outputs may not overlap inputs unless a slot says so. Statistics and solves are f64 in
 * every backend. */
#ifndef GRAIL_BACKEND_BACKEND_H
#define GRAIL_BACKEND_BACKEND_H

#include "graph/operator.h"
#include "tensor/tensor.h"

/** Attention over sequences of equal length laid one after the other. */
typedef struct attention_shape {
    int64_t sequences;
    int64_t length;      /* rows = sequences * length */
    int64_t query_heads; /* query head h reads key/value head h / (query_heads / kv_heads) */
    int64_t kv_heads;
    int64_t head_dim;
    int64_t window;     /* row i sees rows j with i - window < j <= i; 0 = no window */
    bool bidirectional; /* row i sees all rows of its sequence; window is 0 */
    double scale;       /* of the scores, head_dim^-0.5 for most */
} attention_shape;

/** Images X[samples, height, width, in], channel last, and the output of a window that moves over
 * them. */
typedef struct conv_shape {
    int64_t samples;
    extent in, out; /* positions; out as window_positions says */
    int64_t channels_in, channels_out;
    window2d window;
} conv_shape;

/** Operations that follow a convolution in the same pass over its output; unused for statistics. */
typedef struct conv_epilogue {
    const void *residual; /* Y[...] to be added, or NULL; may be the output itself */
    bool relu;
} conv_epilogue;

/** Result of a factorisation: index of the first pivot that is not positive, or -1. */
typedef int64_t pivot_index;

typedef struct backend {
    const char *name;
    size_t element_size; /* 4 or 8 */

    /** Allocates what the calling thread needs before its first product, or fails. NULL where
     * nothing is needed. Called by backend_find. */
    grail_status (*start)(void);

    /* -- conversion ------------------------------------------------------------------------- */
    /** out[count] (elements) from f32, exact. */
    void (*from_f32)(int64_t count, const float *in, void *out);
    /** f32 from elements, rounded to nearest. */
    void (*to_f32)(int64_t count, const void *in, float *out);

    /* -- network ---------------------------------------------------------------------------- */
    /** Y[rows, out] = X[rows, in] W[out, in]^T + 1 b[out]^T; bias may be NULL. */
    void (*linear)(int64_t rows, int64_t in, int64_t out, const void *x, const void *weight,
                   const void *bias, void *y);
    /** Y = weight * x / sqrt(mean(x^2) + epsilon) over groups of `group` features; weight[group]
     * is shared by all groups of a row. Y may be X. */
    void (*rms_norm)(int64_t rows, int64_t width, int64_t group, double epsilon, const void *x,
                     const void *weight, void *y);
    /** Rotates pairs (k, k + head_dim/2) of every head of X[sequences*length, heads*head_dim] in
     * place by position * frequency[k]; positions count from 0 in each sequence.
     * frequency[head_dim/2] is f64. */
    void (*rope)(int64_t sequences, int64_t length, int64_t heads, int64_t head_dim,
                 const double *frequency, void *x);
    /** OUT[rows, query_heads*head_dim] = softmax(scale Q K^T + mask) V per head, without a
     * length x length matrix. Q[rows, query_heads*head_dim], K and V[rows, kv_heads*head_dim]. */
    grail_status (*attention)(const attention_shape *shape, const void *q, const void *k,
                              const void *v, void *out);
    /** Y = f(X), `count` elements; Y may be X. */
    void (*activation)(activation_kind kind, int64_t count, const void *x, void *y);
    /** Y = A * B elementwise; Y may be A or B. */
    void (*multiply)(int64_t count, const void *a, const void *b, void *y);
    /** Y = A + B elementwise; Y may be A or B. */
    void (*add)(int64_t count, const void *a, const void *b, void *y);
    /** Y = A - B elementwise; Y may be A or B. */
    void (*subtract)(int64_t count, const void *a, const void *b, void *y);
    /** nll[i] = log(sum_v exp(X[i, v])) - X[i, target[i]] in f64, one per row. */
    void (*cross_entropy)(int64_t rows, int64_t vocabulary, const void *logits,
                          const int32_t *target, double *nll);
    /** Index (row * width + column) of the first NaN or infinity, or -1. */
    int64_t (*find_non_finite)(int64_t count, const void *x);

    /* -- images: channel last ------------------------------------------------------------------ */
    /** Y[samples, out.height, out.width, channels_out] = conv(X, weight[channels_out, channels_in,
     * kernel_height, kernel_width]) + bias (may be NULL), then the epilogue (may be NULL). */
    grail_status (*conv2d)(const conv_shape *shape, const void *x, const void *weight,
                           const void *bias, const conv_epilogue *epilogue, void *y);
    /** The patches that the window reads: P[samples * out positions, channels_in * taps], features
     * in the order of a weight's row: channel, then tap row, then tap column; 0 outside. Only
     * output rows [begin, end) of all samples * out.height are made. */
    void (*patches)(const conv_shape *shape, const void *x, int64_t begin, int64_t end, void *p);
    /** Maximum over the window, per channel (channels_out == channels_in). */
    grail_status (*max_pool)(const conv_shape *shape, const void *x, void *y);
    /** Y[samples, width] = mean over `positions` rows of every sample. */
    void (*mean_positions)(int64_t samples, int64_t positions, int64_t width, const void *x,
                           void *y);
    /** Y = (x - mean) / sqrt(variance + epsilon) * weight + bias per column; weight and bias may be
     * NULL; Y may be X. */
    void (*batch_norm)(int64_t rows, int64_t width, double epsilon, const void *x, const void *mean,
                       const void *variance, const void *weight, const void *bias, void *y);
    /** The same with each row's own mean and variance (biased). */
    void (*layer_norm)(int64_t rows, int64_t width, double epsilon, const void *x,
                       const void *weight, const void *bias, void *y);
    /** Y = x / max(||x||_2, 1e-12) per row; Y may be X. */
    void (*unit_length)(int64_t rows, int64_t width, const void *x, void *y);

    /* -- statistics: f64 sums of products of elements --------------------------------------------
     */
    /** Lower triangle of G[width, width] += X^T X; the upper one is left alone. Products of a panel
     * of rows may be formed in the element type, their sum over panels is f64. */
    grail_status (*gram)(int64_t rows, int64_t width, const void *x, int64_t stride, double *g);
    /** C[m, n] += Y[rows, m]^T X[rows, n]. */
    grail_status (*cross)(int64_t rows, int64_t m, const void *y, int64_t y_stride, int64_t n,
                          const void *x, int64_t x_stride, double *c);
    /** sum[width] += column sums; square[width] += column sums of squares (either may be NULL). */
    void (*column_sums)(int64_t rows, int64_t width, const void *x, int64_t stride, double *sum,
                        double *square);

    /* -- dense f64 algebra for the solve ------------------------------------------------------- */
    /** C[m, n] = alpha op(A) op(B) + beta C; op is transposition when the flag is set. Row-major
     * with row strides. */
    void (*gemm)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
                 const double *a, int64_t a_stride, const double *b, int64_t b_stride, double beta,
                 double *c, int64_t c_stride);
    /** Cholesky: reads the lower triangle of A[n, n] (row-major) and overwrites it with L,
     * A = L L^T. The strict upper triangle is not touched. -1, or the failing pivot. */
    pivot_index (*cholesky)(int64_t n, double *a, int64_t stride);
    /** B[rows, n] <- B (L L^T)^-1 with the lower triangle L of `l`. */
    void (*cholesky_solve)(int64_t rows, int64_t n, const double *l, int64_t l_stride, double *b,
                           int64_t b_stride);
    /** Symmetric eigendecomposition of A[n, n] (lower triangle read): values[n] ascending, row i of
     * A becomes the eigenvector of values[i]. */
    grail_status (*eigen)(int64_t n, double *a, double *values);
} backend;

/** "cpu" or "ref", started for the calling thread; GRAIL_ERROR_ARGUMENT names the known ones,
 * GRAIL_ERROR_MEMORY tells that there are not enough threads or memory. The table is static. */
grail_status backend_find(const char *name, const backend **out) GRAIL_MUST_CHECK;

/** i-th backend, NULL beyond the last: for the conformance suite and for listings. */
const backend *backend_at(int i);

extern const backend backend_cpu;
extern const backend backend_ref;

#endif
