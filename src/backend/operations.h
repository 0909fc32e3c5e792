/* The operations of a backend, on matrices of one instance. Each returns a status: a kernel may
 * lack memory, and an instance on a device may fail at any time. What an instance leaves out is
 * done on the host (slots.c).
 *
 * Shapes are written X[rows, columns]. `values` have the instance's precision and are packed;
 * statistics and dense algebra are f64, with any row stride. Outputs may not overlap inputs unless
 * an operation says so. A matrix that may be missing is given as no_matrix. */
#ifndef GRAIL_BACKEND_OPERATIONS_H
#define GRAIL_BACKEND_OPERATIONS_H

#include "backend/backend.h"
#include "graph/operator.h"

static const matrix no_matrix = {0};

/* -- network: values --------------------------------------------------------------------------- */

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

/** Images X[samples * height * width, in], channel last, and the output of a window that moves over
 * them. */
typedef struct conv_shape {
    int64_t samples;
    extent in, out; /* positions; out as window_positions says */
    int64_t channels_in, channels_out;
    window2d window;
} conv_shape;

/** Rotary embedding: frequency[head_dim / 2]. */
typedef struct rope_shape {
    int64_t sequences, length;
    int64_t head_dim;
    bool backward; /* rotates by the negative angles, which takes a rotation back and gives the
                      gradient of one */
    const double *frequency;
} rope_shape;

/** Copies of positions: of X[samples * in positions, c] and Y[samples * out positions, .]. */
typedef struct position_shape {
    int64_t samples;
    extent in, out;
    window2d window;
    int64_t pad; /* zeros before and behind a position's channels */
} position_shape;

/** What the logits x of a row add up to, in f64. */
typedef struct entropy_sums {
    double largest; /* max_v x[v] */
    double total;   /* sum_v exp(x[v] - largest) */
    double target;  /* x[target], set by the panel that holds it */
} entropy_sums;

/** Y[rows, out] = X[rows, in] W[out, in]^T + 1 b[1, out]; the bias may be missing. */
grail_status matrix_linear(matrix x, matrix weight, matrix bias, matrix y) GRAIL_MUST_CHECK;
/** Y = weight * x / sqrt(mean(x^2) + epsilon) over groups of as many features as weight[1, .] has,
 * which all groups of a row share. Y may be X. */
grail_status matrix_rms_norm(double epsilon, matrix x, matrix weight, matrix y) GRAIL_MUST_CHECK;
/** Rotates pairs (k, k + head_dim/2) of every head of X[sequences * length, heads * head_dim] in
 * place by position * frequency[k]; positions count from 0 in each sequence. */
grail_status matrix_rope(const rope_shape *shape, matrix x) GRAIL_MUST_CHECK;
/** OUT[rows, query_heads*head_dim] = softmax(scale Q K^T + mask) V per head, without a
 * length x length matrix. Q[rows, query_heads*head_dim], K and V[rows, kv_heads*head_dim]. */
grail_status matrix_attention(const attention_shape *shape, matrix q, matrix k, matrix v,
                              matrix out) GRAIL_MUST_CHECK;
/** Y = f(X); Y may be X. */
grail_status matrix_activate(activation_kind kind, matrix x, matrix y) GRAIL_MUST_CHECK;
/** Y = A * B, A + B, A - B elementwise, with any row strides; Y may be A or B. */
grail_status matrix_multiply(matrix a, matrix b, matrix y) GRAIL_MUST_CHECK;
grail_status matrix_add(matrix a, matrix b, matrix y) GRAIL_MUST_CHECK;
grail_status matrix_subtract(matrix a, matrix b, matrix y) GRAIL_MUST_CHECK;
/** Adds the logits X[rows, .] of classes `first` and on to the sums of their rows, one target and
 * one entropy_sums per row, both on the host. The classes come in panels in ascending order:
 * `first` 0 begins the sums. Logits are finite. */
grail_status matrix_cross_entropy(matrix logits, int64_t first, const int32_t *target,
                                  entropy_sums *sums) GRAIL_MUST_CHECK;
/** log(sum_v exp(x[v])) - x[target] of a row whose classes have all been added. */
double entropy_of(const entropy_sums *sums);
/** Y[i, :] = factor[0, i] X[i, :] with f64 factors, any row strides; Y may be X. */
grail_status matrix_scale_rows(matrix factor, matrix x, matrix y) GRAIL_MUST_CHECK;
/** *index = row * columns + column of the first NaN or infinity, or -1; any type and stride. With
 * `lower` only the lower triangle of a square matrix is searched. */
grail_status matrix_find_non_finite(bool lower, matrix x, int64_t *index) GRAIL_MUST_CHECK;

/** Y[samples * out positions, channels_out] = conv(X, weight[channels_out, channels_in * taps]) +
 * bias + residual, then max(., 0) when `relu`; bias and residual may be missing, and the residual
 * may be Y. */
grail_status matrix_conv2d(const conv_shape *shape, bool relu, matrix x, matrix weight, matrix bias,
                           matrix residual, matrix y) GRAIL_MUST_CHECK;
/** The patches that the window reads: P[rows * out.width, channels_in * taps], features in the
 * order of a weight's row: channel, then tap row, then tap column; 0 outside. Only the output rows
 * [begin, end) of all samples * out.height are made. */
grail_status matrix_patches(const conv_shape *shape, int64_t begin, int64_t end, matrix x,
                            matrix p) GRAIL_MUST_CHECK;
/** Maximum over the window, per channel (channels_out == channels_in). */
grail_status matrix_max_pool(const conv_shape *shape, matrix x, matrix y) GRAIL_MUST_CHECK;
/** Y[samples, columns] = mean over the rows of every sample. */
grail_status matrix_mean_positions(matrix x, matrix y) GRAIL_MUST_CHECK;
/** Y = (x - mean) / sqrt(variance + epsilon) * weight + bias per column; weight and bias may be
 * missing; Y may be X. */
grail_status matrix_batch_norm(double epsilon, matrix x, matrix mean, matrix variance,
                               matrix weight, matrix bias, matrix y) GRAIL_MUST_CHECK;
/** The same with each row's own mean and variance (biased). */
grail_status matrix_layer_norm(double epsilon, matrix x, matrix weight, matrix bias,
                               matrix y) GRAIL_MUST_CHECK;
/** Y = x / max(||x||_2, 1e-12) per row; Y may be X. */
grail_status matrix_unit_length(matrix x, matrix y) GRAIL_MUST_CHECK;
/** Every stride-th position in both directions, with `pad` zeros before and behind its channels. */
grail_status matrix_shortcut(const position_shape *shape, matrix x, matrix y) GRAIL_MUST_CHECK;
/** The windows of an image as rows, Y[samples * windows, kernel_height * kernel_width * c]:
 * position after position, each with all its channels. No padding, no dilation. */
grail_status matrix_windows(const position_shape *shape, matrix x, matrix y) GRAIL_MUST_CHECK;

/* -- statistics: f64 sums of products of values ------------------------------------------------ */

/** Lower triangle of G[n, n] += X[rows, n]^T X, X with any row stride; the upper one is left alone.
 * Products of a panel of rows may be formed in the precision of values, their sum over panels is
 * f64. */
grail_status matrix_gram(matrix x, matrix g) GRAIL_MUST_CHECK;
/** C[m, n] += Y[rows, m]^T X[rows, n]. */
grail_status matrix_cross(matrix y, matrix x, matrix c) GRAIL_MUST_CHECK;
/** sum[1, n] += column sums; square[1, n] += column sums of squares (either may be missing). */
grail_status matrix_column_sums(matrix x, matrix sum, matrix square) GRAIL_MUST_CHECK;

/* -- copies: any type and stride, converted to the output's type ------------------------------- */

grail_status matrix_copy(matrix in, matrix out) GRAIL_MUST_CHECK;
/** M = 0 */
grail_status matrix_zero(matrix m) GRAIL_MUST_CHECK;
/** out[i, j] = in[rows[i], columns[j]]; NULL stands for 0, 1, 2, ... Both lists ascend where `out`
 * begins where `in` does, with rows no further apart. */
grail_status matrix_gather(const int64_t *rows, const int64_t *columns, matrix in,
                           matrix out) GRAIL_MUST_CHECK;
/** out[:, labels[j] u + f] += share[labels[j]] in[:, j u + f] for units j = 0 .. units - 1, each of
 * u features; both matrices of one type. */
grail_status matrix_fold_columns(int64_t units, const int64_t *labels, const double *share,
                                 matrix in, matrix out) GRAIL_MUST_CHECK;
/** The same for rows: out[labels[j] u + f, :] += share[labels[j]] in[j u + f, :]. */
grail_status matrix_fold_rows(int64_t units, const int64_t *labels, const double *share, matrix in,
                              matrix out) GRAIL_MUST_CHECK;

/* -- dense f64 algebra --------------------------------------------------------------------------
 */

/** C[m, n] = alpha op(A) op(B) + beta C; op is transposition when the flag is set. */
grail_status matrix_gemm(bool transpose_a, bool transpose_b, double alpha, matrix a, matrix b,
                         double beta, matrix c) GRAIL_MUST_CHECK;
/** Lower triangle of C[n, n] += alpha A[k, n]^T B[k, n], where the product is symmetric. The strict
 * upper triangle is scratch. */
grail_status matrix_add_symmetric(double alpha, matrix a, matrix b, matrix c) GRAIL_MUST_CHECK;
/** Y += alpha X; X may also be f32. */
grail_status matrix_add_scaled(double alpha, matrix x, matrix y) GRAIL_MUST_CHECK;
/** A[m, n] += alpha x[1, m]^T y[1, n]; with `lower` only in the lower triangle. */
grail_status matrix_add_outer(bool lower, double alpha, matrix x, matrix y,
                              matrix a) GRAIL_MUST_CHECK;
/** d[1, n] = diagonal of A[n, n], and back. */
grail_status matrix_diagonal(matrix a, matrix d) GRAIL_MUST_CHECK;
grail_status matrix_set_diagonal(matrix d, matrix a) GRAIL_MUST_CHECK;
/** diagonal[n] of A[n, n], on the host. */
grail_status matrix_download_diagonal(matrix a, double *diagonal) GRAIL_MUST_CHECK;
/** A[n, n] += value I */
grail_status matrix_shift_diagonal(double value, matrix a) GRAIL_MUST_CHECK;
/** Copies the strict lower triangle of A[n, n] onto the strict upper one, or back. */
grail_status matrix_fill_upper(matrix a) GRAIL_MUST_CHECK;
grail_status matrix_fill_lower(matrix a) GRAIL_MUST_CHECK;
/** out[0, i] = sum_j A[i, j] B[i, j], summed in f64; A and B may also be f32, both. */
grail_status matrix_row_dots(matrix a, matrix b, matrix out) GRAIL_MUST_CHECK;
/** A[:, j] /= divisor[0, j] */
grail_status matrix_divide_columns(matrix divisor, matrix a) GRAIL_MUST_CHECK;
/** Cholesky: reads the lower triangle of A[n, n] and overwrites it with L, A = L L^T. The strict
 * upper triangle is not touched. *pivot is -1, or the index of the first pivot that is not
 * positive. */
grail_status matrix_cholesky(matrix a, int64_t *pivot) GRAIL_MUST_CHECK;
/** B[rows, n] <- B (L L^T)^-1 with the lower triangle of L[n, n]. */
grail_status matrix_cholesky_solve(matrix l, matrix b) GRAIL_MUST_CHECK;
/** B[rows, n] <- B L L^T. */
grail_status matrix_cholesky_multiply(matrix l, matrix b) GRAIL_MUST_CHECK;
/** Both triangles of L[n, n] <- (L L^T)^-1, of which the lower triangle is read. */
grail_status matrix_cholesky_invert(matrix l) GRAIL_MUST_CHECK;
/** Symmetric eigendecomposition of the packed A[n, n] (lower triangle read): values[1, n]
 * ascending, row i of A becomes the eigenvector of values[i]. */
grail_status matrix_eigen(matrix a, matrix values) GRAIL_MUST_CHECK;

#endif
