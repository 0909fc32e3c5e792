/* Compensation: one ridge regression of the target on the reduced consumer input.
 *
 *   min over W'[O,K], d[O]  || Y - Z W'^T - 1 d^T ||_F^2 + lambda || (W' - P) S^1/2 ||_F^2
 *
 * P is 0 (`zero`, the paper) or the data-free narrowed consumer W0 (`prior`). It is solved for the
 * change D = W' - W0 of the data-free consumer, from the residual sums
 *
 *   E[O,K] = (Y - Z W0^T)^T Z = R - W0 A,   A = Z^T Z,   R = Y^T Z
 *   prior:  D = E (A + lambda S)^-1          zero:  D = (E - lambda W0 S) (A + lambda S)^-1
 *
 * which is the same W' and loses no digits when W0 is already good: E = 0 gives W' = W0 exactly.
 * lambda = alpha * mean(diag A). S = I (the paper), or S = diag(A) / mean(diag A), which makes
 * lambda S = alpha diag(A), so that the scale of a feature does not matter. With a bias all sums
 * are centred first (A - s s^T / T, ...), and d = mean(Y) - W' mean(Z); a feature that is constant
 * up to the rounding of its sums then has zeros in A and E. For pruning on a local
 * target E = W_R G[R,P] with the removed features R, so only the removed columns are multiplied.
 * Source: GRAIL paper, section 3.1; derivations in docs/numerics.md. */
#ifndef GRAIL_SOLVE_RIDGE_H
#define GRAIL_SOLVE_RIDGE_H

#include "comm/comm.h"
#include "reduce/reducer.h"
#include "reduce/ridge_kind.h"
#include "stats/statistics.h"

/** Sums of one regression, in residual form with respect to W0. The matrices are f64 and owned, of
 * the instance of the statistics; the vectors are owned arrays on the host. */
typedef struct regression {
    int64_t width;           /* K features */
    int64_t outputs;         /* O */
    int64_t count;           /* the number of rows */
    double weight;           /* T: that number, or the sum of the rows' weights */
    double full_diagonal;    /* mean diagonal of the Gram matrix of all features, before the cut */
    matrix gram;             /* A[K,K], both triangles */
    matrix cross;            /* E[O,K] */
    double *sum;             /* s[K] = Z^T 1 */
    double *residual_sum;    /* [O] = (Y - Z W0^T)^T 1 */
    double *residual_square; /* [O], valid where output o is measured */
    double *target_square;   /* [O], sum_t Y_to^2, valid where output o is measured */
} regression;

/** Errors are measured on all outputs up to twice REGRESSION_MEASURED, and else on every stride-th,
 * at most REGRESSION_MEASURED of them. Outputs of a convolution may lie by tap, so that the stride
 * is no multiple of 3. */
enum { REGRESSION_MEASURED = 128 };
int64_t regression_measured_stride(int64_t outputs);

/**
 * Turns statistics of the full-width input X into the regression of Z = X M, with the map M of a
 * reducer (algebra/projection.h). A folding whose merged units emit something else than the means
 * has statistics of Z itself, and no reducer (NULL). s->outputs == 0: Y = X W^T, with the consumer
 * W[O, n u]; of a selection E = W_R G[R,P]. s->outputs == O: a target in the sums; the consumer may
 * be missing. E = C M - W0 A, with the narrowed consumer W0[O, K u] as `prior`. Both weights
 * are f32 on the instance of the statistics: other parts of the rows take the same ones. Takes over
 * the memory of `s` (its arrays are moved or freed, *s is left empty), so that a selection needs no
 * second Gram. The ranks of `comm` (NULL: one) call it with the same sums and share out the
 * outputs; all have the regression. After GRAIL_ERROR_ARGUMENT or GRAIL_ERROR_SHAPE *s is
 * unchanged, after other errors it is empty too. *out is owned: regression_fini.
 */
grail_status regression_derive(const grail_comm *comm, grail_statistics *s,
                               const grail_reducer *reducer, int64_t features_per_unit,
                               matrix consumer, matrix prior, regression *out) GRAIL_MUST_CHECK;

/**
 * The regression of sums of Z alone whose target is what it lacks already, Y - Z W0^T: the sums are
 * those of the residual. W0[O, K] as above. Takes over the memory of `s`, which is left empty, also
 * after an error other than GRAIL_ERROR_SHAPE. *out is owned: regression_fini.
 */
grail_status regression_of_residual(grail_statistics *s, matrix prior,
                                    regression *out) GRAIL_MUST_CHECK;

/** into += other (same W0). */
grail_status regression_add(regression *into, const regression *other) GRAIL_MUST_CHECK;
void regression_fini(regression *r); /* works on a zeroed one */

typedef enum ridge_fallback {
    RIDGE_FALLBACK_NONE,
    RIDGE_FALLBACK_RAISED, /* lambda was raised until the factorisation succeeded */
    RIDGE_FALLBACK_EIGEN,  /* eigenvalues below 1e-10 of the largest were dropped; S = I */
    RIDGE_FALLBACK_BIAS,   /* W' = W0, as the held-out part prefers; only the bias is fitted */
    RIDGE_FALLBACK_PLAIN   /* no candidate did better there than W' = W0 and d = 0 */
} ridge_fallback;

/** The usual candidates for alpha. */
enum { RIDGE_ALPHAS = 5 };
extern const double ridge_alphas[RIDGE_ALPHAS];

typedef struct ridge_options {
    ridge_kind ridge;
    ridge_scale scale;
    bool bias;
    bool keeps_weights;   /* W' = W0, only the bias is fitted; alpha does not matter */
    bool moves_prior;     /* where W0 is kept because no fit helps, its bias may be fitted */
    bool of_all;          /* lambda = alpha * full_diagonal instead of alpha * mean diag A */
    double alpha;         /* used when alpha_count == 0 */
    const double *alphas; /* candidates for cross-validation on the held-out part, in any order */
    int alpha_count;
    const bool
        *judged; /* [O] outputs whose errors count, for alpha and in the result; NULL = all */
    const grail_comm *comm; /* ranks that solve this together; NULL: one */
} ridge_options;

typedef struct ridge_result {
    double alpha;
    double lambda;
    double condition; /* estimate of cond_2(A + lambda S) */
    ridge_fallback fallback;
    int raises; /* how often lambda was raised */
    /* Squared errors over the measured outputs relative to their squared target: plain narrowing
     * (W0) and the fit. NaN when there is no held-out part. */
    double fit_before, fit_after;
    double held_before, held_after;
    double fit_target, held_target; /* these squared targets */
} ridge_result;

/** Makes of the results of two problems with other outputs that of both: errors relative to the
 * targets of both, the largest finite alpha and lambda, the largest condition. A fallback of the
 * solution counts where either has it, one that keeps W0 where both do. */
void ridge_result_join(ridge_result *into, const ridge_result *other);

/**
 * Solves. `held` may be NULL or empty (weight 0): then alpha is the candidate closest to 1e-3 when
 * candidates are given, and held_* are NaN. Otherwise candidates are tried on `fit` and judged on
 * `held`, from that one to larger or smaller ones as long as the error falls; errors are those of
 * the fit on `fit` alone, and the answer is refitted on both. With the prior ridge, where W0 does
 * better on the held-out part than all of them, W' = W0: with its limit for alpha = infinity,
 * d = mean(Y) - W0 mean(Z), if moves_prior allows it and this does better there than d = 0.
 * Both regressions serve as workspace; their contents are undefined afterwards. prior W0[O,K]
 * in f32 or f64, and the outputs weight W'[O,K] in f64 are matrices of the same instance; the
 * bias_change d[O] (when options->bias) is on the host. lambda = alpha * mean diag A (with
 * `of_all`: of the uncentred Gram matrix of all features before the cut), at least 1e-8 mean diag A
 * when features are dead. A failing factorisation raises lambda to max(10 lambda, 1e-8 mean diag)
 * up to six times, then eigenvalues are used. With RIDGE_SCALE_DIAGONAL the share of a feature that
 * does not vary is 1. Ranks call it with the same sums, and share out the candidates and the
 * outputs; all have the same answer, on the host of the same bits as one rank alone. NaN in the
 * sums is GRAIL_ERROR_NUMERIC.
 */
grail_status ridge_solve(regression *fit, regression *held, matrix prior,
                         const ridge_options *options, matrix weight, double *bias_change,
                         ridge_result *result) GRAIL_MUST_CHECK;

#endif
