#ifndef GRAIL_STATISTICS_H
#define GRAIL_STATISTICS_H

#include <grail/status.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Second-order sums of activations at a consumer's input: all that selection and compensation need.
 * They are sums over rows, so those of several files or machines can be added.
 *
 * Z[T, H]: rows of the consumer's input. Y[T, O]: rows of the target, when there is one.
 *   G = Z^T Z, s = Z^T 1, and with a target C = Y^T Z, t = Y^T 1, q_o = sum_t Y_to^2.
 * Products of a panel of rows are formed in f32, their sum over panels in f64.
 * Source: GRAIL paper, section 3.2 "Where to sample activations": G = sum_{n,t} x x^T.
 */
typedef struct grail_statistics grail_statistics;

/** H = width > 0; O = outputs >= 0, 0 for no target. *out is owned: grail_statistics_free. */
GRAIL_API grail_status grail_statistics_create(int64_t width, int64_t outputs,
                                               grail_statistics **out) GRAIL_MUST_CHECK;
GRAIL_API void grail_statistics_free(grail_statistics *statistics); /* NULL is allowed */

/**
 * Adds `rows` rows: z[rows, H] with row stride z_stride (in floats, >= H), y[rows, O] likewise
 * (NULL exactly when O = 0). A NaN or infinity in the rows is GRAIL_ERROR_NUMERIC naming row and
 * feature; then nothing is added. After GRAIL_ERROR_MEMORY a part may have been added: start again
 * with new statistics. No rows are no error.
 *
 * A part of the rows that is held out, for grail_compensate to choose by, is summed in statistics
 * of its own.
 */
GRAIL_API grail_status grail_statistics_accumulate(grail_statistics *statistics, int64_t rows,
                                                   const float *z, int64_t z_stride, const float *y,
                                                   int64_t y_stride) GRAIL_MUST_CHECK;

/**
 * The same, with row t counted as w_t = roots[t]^2 rows: G = sum_t w_t z_t z_t^T and so on.
 * roots[rows] are finite and at least 0; NULL: all are 1. grail_row_roots makes those that a run
 * gives to the rows of a residual stream.
 */
GRAIL_API grail_status grail_statistics_accumulate_weighted(grail_statistics *statistics,
                                                            int64_t rows, const double *roots,
                                                            const float *z, int64_t z_stride,
                                                            const float *y,
                                                            int64_t y_stride) GRAIL_MUST_CHECK;

/**
 * roots[rows] <- 1 / |x_t| of x[rows, width]: what reads a residual stream begins with a norm, so
 * that an error matters relative to its row's length. Lengths count within bounds around the usual
 * one: *median_square is the median of |x_t|^2, which the first call takes where it is negative,
 * and later calls use.
 */
GRAIL_API grail_status grail_row_roots(int64_t rows, int64_t width, const float *x, int64_t stride,
                                       double *median_square, double *roots) GRAIL_MUST_CHECK;

/** Takes bias[O] from the target of all rows, as a fit of weights wants it where the target is the
 * output of a map that has this bias. */
GRAIL_API grail_status grail_statistics_shift_target(grail_statistics *statistics,
                                                     const double *bias) GRAIL_MUST_CHECK;

/** statistics += other; shapes must agree. */
GRAIL_API grail_status grail_statistics_add(grail_statistics *statistics,
                                            const grail_statistics *other) GRAIL_MUST_CHECK;

GRAIL_API int64_t grail_statistics_width(const grail_statistics *statistics);
GRAIL_API int64_t grail_statistics_outputs(const grail_statistics *statistics);
GRAIL_API int64_t grail_statistics_count(const grail_statistics *statistics); /* T */
/** sum_t w_t, which is T where no row was weighted; means are sums divided by it. */
GRAIL_API double grail_statistics_weight(const grail_statistics *statistics);
/** G[i, j], symmetric. */
GRAIL_API double grail_statistics_gram(const grail_statistics *statistics, int64_t i, int64_t j);
/** Mean of feature i (0 without rows). */
GRAIL_API double grail_statistics_mean(const grail_statistics *statistics, int64_t i);

/** All sums at once, as arrays of the caller. What is NULL is left out; `cross`, `target_sum` and
 * `target_square` must be NULL without a target. */
typedef struct grail_sums {
    double *gram;          /* [H, H], both triangles */
    double *sum;           /* [H] */
    double *cross;         /* [O, H] */
    double *target_sum;    /* [O] */
    double *target_square; /* [O] */
    GRAIL_ROOM(4);
} grail_sums;

/** Copies sums to the arrays. */
GRAIL_API grail_status grail_statistics_get(const grail_statistics *statistics,
                                            const grail_sums *out) GRAIL_MUST_CHECK;
/** Adds sums that were made elsewhere, over `count` rows of the weight `weight`. All arrays must be
 * there, and are only read; of `gram` the lower triangle is. A NaN or infinity, or a negative
 * diagonal element, is GRAIL_ERROR_NUMERIC, and nothing is added. */
GRAIL_API grail_status grail_statistics_add_sums(grail_statistics *statistics, int64_t count,
                                                 double weight,
                                                 const grail_sums *sums) GRAIL_MUST_CHECK;

/** Saves to / loads from a file (safetensors layout, f64). *out is owned. */
GRAIL_API grail_status grail_statistics_save(const grail_statistics *statistics,
                                             const char *path) GRAIL_MUST_CHECK;
GRAIL_API grail_status grail_statistics_load(const char *path,
                                             grail_statistics **out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
