#ifndef GRAIL_RIDGE_H
#define GRAIL_RIDGE_H

#include <grail/reducer.h>
#include <grail/statistics.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a fit aims at. */
typedef enum grail_fit_target {
    GRAIL_FIT_USUAL, /* the target of the statistics; the local one where they have none */
    GRAIL_FIT_LOCAL, /* the dense consumer's own output, Y = X W^T, whatever they have */
    GRAIL_FIT_DENSE, /* the target of the statistics, which they must have */
    GRAIL_FIT_MIXED  /* between it and the local one, by how far both agree (docs/numerics.md) */
} grail_fit_target;

/** Options of grail_compensate; fill with grail_compensate_options_init or _named first. */
typedef struct grail_compensate_options {
    grail_fit_target target;
    int prior;    /* 0: shrink W' to 0 (the paper); 1: shrink W' to the plainly narrowed consumer */
    int diagonal; /* 1: the penalty of feature j is alpha * A_jj instead of lambda */
    int of_all;   /* 1: lambda = alpha * mean diag G of all features, before the cut */
    int bias;     /* 1: centre the sums and compute the change of the bias */
    int bias_only;      /* 1: W' is the plainly narrowed consumer; only the bias is fitted */
    int reduced;        /* 1: the statistics are of what the reduced producer emits */
    int exchangeable;   /* 1: a unit's features are blocks that the reducer reorders (reducer.h) */
    double alpha;       /* lambda = alpha * mean diag(A); 1e-3 */
    int cross_validate; /* 1: alpha is the candidate that does best on the held-out part */
    const double *alphas; /* [alpha_count] candidates; NULL: 1e-5, 1e-4, ... 1e-1 */
    int alpha_count;
    const unsigned char *judged; /* [O] 1: the errors of this output count, for alpha and in the
                                    result; NULL: all do */
    GRAIL_ROOM(8);
} grail_compensate_options;

/** How a fit ended. */
typedef enum grail_fit_fallback {
    GRAIL_FALLBACK_NONE,
    GRAIL_FALLBACK_RAISED,      /* lambda was raised until the factorisation succeeded */
    GRAIL_FALLBACK_EIGENVALUES, /* the smallest eigenvalues were dropped */
    GRAIL_FALLBACK_BIAS,        /* W' is the plain cut, which the held-out part prefers; the bias is
                                   fitted */
    GRAIL_FALLBACK_PLAIN        /* nothing did better there than the plain cut */
} grail_fit_fallback;

/** What the fit did, for a report. Errors are squared errors divided by the squared target, of the
 * plain cut and of the fit; NaN where there is no held-out part. */
typedef struct grail_compensate_result {
    double alpha, lambda;
    double condition; /* estimate of cond_2 of the matrix that was solved */
    double error_before, error_after;
    double held_before, held_after;
    double dense_share; /* of the target of the statistics in what was aimed at: 0 local, 1 dense */
    int fallback;       /* grail_fit_fallback */
    GRAIL_ROOM(4);
} grail_compensate_result;

/** The paper's choices: the usual target, prior 0, bias 0, alpha 1e-3. */
GRAIL_API void grail_compensate_options_init(grail_compensate_options *options);
/** Those of a run with `compensate` "grail", "full", or "own", the update that the authors of the
 * selector make themselves (NULL with others). A bias is fitted where it is always, or where
 * `has_bias_slot` says that the consumer can store one. GRAIL_ERROR_ARGUMENT for other names, and
 * for "own" of a selector that has none. */
GRAIL_API grail_status
grail_compensate_options_named(const char *compensate, const char *selector, int has_bias_slot,
                               grail_compensate_options *options) GRAIL_MUST_CHECK;

/**
 * Fits the narrowed consumer: W'[O, K*u] (f32) and, with options->bias, the change of its bias
 * d[O] (NULL otherwise), from statistics and the dense consumer W[O, n*u]. The fit minimises
 *
 *     || Y - Z W'^T - 1 d^T ||^2 + lambda || W' - prior ||^2
 *
 * or, with options->diagonal, with sum_oj alpha A_jj (W'_oj - prior_oj)^2 as its second term.
 *
 * `fit` are statistics of the full-width input X (H = n*u), of which the reduced producer emits
 * Z = X M: kept features, or means of merged ones. What does not emit these means, as merged
 * neurons before an activation, needs statistics of Z itself (H = K*u): options->reduced, and a
 * target in them (which grail_mix_target mixes row by row).
 * `held` are those of rows that were held out, or NULL: the fit is judged on them, and refitted on
 * both parts. Without rows W' is the plain cut.
 * `reducer` NULL refits a map that was not cut, W[O, H] and W'[O, H] with u = 1, to the target of
 * the statistics.
 *
 * In a convolution that has one map for all kernel positions, each position is an output of its
 * own: W[O * positions, n]; the change of a bias is the sum of those of its positions. Else X are
 * unfolded patches, and u is the number of positions.
 *
 * Statistics are not changed. `weight` may be `consumer`. Source: GRAIL paper, section 3.1;
 * docs/numerics.md.
 */
GRAIL_API grail_status grail_compensate(const grail_statistics *fit, const grail_statistics *held,
                                        const grail_reducer *reducer, int64_t features_per_unit,
                                        int64_t outputs, const float *consumer,
                                        const grail_compensate_options *options, float *weight,
                                        double *bias_change,
                                        grail_compensate_result *result) GRAIL_MUST_CHECK;

/** The mixed target of rows, where statistics cannot have it made from sums (options->reduced):
 * y[rows, outputs], the dense target with its own row stride, becomes the mixed one; local[rows,
 * outputs] is X W^T of the same rows, roots[rows] as in grail_statistics_accumulate_weighted, or
 * NULL. *dense_share says how much of the dense target is left; may be NULL. */
GRAIL_API grail_status grail_mix_target(int64_t rows, int64_t outputs, const double *roots,
                                        const float *local, int64_t local_stride, float *y,
                                        int64_t y_stride, double *dense_share) GRAIL_MUST_CHECK;

/**
 * A value in two streams: X[T, H] in the dense network, Z[T, H] the same in the narrowed one. From
 * its sums every map W[O, H] that reads the value and was not cut is refitted to what the dense
 * network has at its output, Y = X W^T, without sums of its own.
 */
typedef struct grail_drift grail_drift;

/** *out is owned: grail_drift_free. */
GRAIL_API grail_status grail_drift_create(int64_t width, grail_drift **out) GRAIL_MUST_CHECK;
GRAIL_API void grail_drift_free(grail_drift *drift); /* NULL is allowed */
/** Adds rows of both, as grail_statistics_accumulate does. */
GRAIL_API grail_status grail_drift_accumulate(grail_drift *drift, int64_t rows, const float *z,
                                              int64_t z_stride, const float *x,
                                              int64_t x_stride) GRAIL_MUST_CHECK;
/** drift += other; widths must agree. */
GRAIL_API grail_status grail_drift_add(grail_drift *drift,
                                       const grail_drift *other) GRAIL_MUST_CHECK;
GRAIL_API int64_t grail_drift_width(const grail_drift *drift);
GRAIL_API int64_t grail_drift_count(const grail_drift *drift);
/** Refits W[O, H] as grail_compensate does without a reducer; the target is dense, or mixed. `held`
 * may be NULL. */
GRAIL_API grail_status grail_drift_compensate(const grail_drift *fit, const grail_drift *held,
                                              int64_t outputs, const float *consumer,
                                              const grail_compensate_options *options,
                                              float *weight, double *bias_change,
                                              grail_compensate_result *result) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
