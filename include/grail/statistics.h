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
 * with new statistics.
 */
GRAIL_API grail_status grail_statistics_accumulate(grail_statistics *statistics, int64_t rows,
                                                   const float *z, int64_t z_stride, const float *y,
                                                   int64_t y_stride) GRAIL_MUST_CHECK;

/** statistics += other; shapes must agree. */
GRAIL_API grail_status grail_statistics_add(grail_statistics *statistics,
                                            const grail_statistics *other) GRAIL_MUST_CHECK;

GRAIL_API int64_t grail_statistics_width(const grail_statistics *statistics);
GRAIL_API int64_t grail_statistics_outputs(const grail_statistics *statistics);
GRAIL_API int64_t grail_statistics_count(const grail_statistics *statistics);
/** G[i, j], symmetric. */
GRAIL_API double grail_statistics_gram(const grail_statistics *statistics, int64_t i, int64_t j);
/** mean of feature i: s_i / T (0 when T = 0). */
GRAIL_API double grail_statistics_mean(const grail_statistics *statistics, int64_t i);

/** Saves to / loads from a file (safetensors layout, f64). *out is owned. */
GRAIL_API grail_status grail_statistics_save(const grail_statistics *statistics,
                                             const char *path) GRAIL_MUST_CHECK;
GRAIL_API grail_status grail_statistics_load(const char *path,
                                             grail_statistics **out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
