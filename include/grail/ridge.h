#ifndef GRAIL_RIDGE_H
#define GRAIL_RIDGE_H

#include <grail/reducer.h>
#include <grail/statistics.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Options of grail_compensate; fill with grail_compensate_options_init first. */
typedef struct grail_compensate_options {
    int prior;    /* 0: shrink W' to 0 (the paper); 1: shrink W' to the plainly narrowed consumer */
    int bias;     /* 1: centre the sums and compute the change of the bias */
    double alpha; /* lambda = alpha * mean diag(A); 1e-3 */
    int diagonal; /* 1: the penalty of feature j is alpha * A_jj instead of lambda */
} grail_compensate_options;

/** What the fit did, for a report. Errors are squared errors divided by the squared target. */
typedef struct grail_compensate_result {
    double lambda;
    double condition; /* estimate of cond_2 of the matrix that was solved */
    double error_before, error_after;
    int fallback; /* 0 none, 1 lambda raised, 2 eigenvalues */
} grail_compensate_result;

/** The paper's choices: prior 0, bias 0, alpha 1e-3. */
GRAIL_API void grail_compensate_options_init(grail_compensate_options *options);

/**
 * Fits the narrowed consumer: W'[O, K*u] (f32) and, with options->bias, the change of its bias
 * d[O] (NULL otherwise), from statistics and the dense consumer W[O, n*u]. The fit minimises
 *
 *     || Y - Z W'^T - 1 d^T ||^2 + lambda || W' - prior ||^2
 *
 * or, with options->diagonal, with sum_oj alpha A_jj (W'_oj - prior_oj)^2 as its second term.
 * For a selection, `statistics` are those of the full-width input (H = n*u). If they have no
 * target, the target is the dense consumer's own output Y = X W^T. For a folding, `statistics` are
 * those of the folded producer's output (H = K*u) and must have a target. Statistics are not
 * changed. Source: GRAIL paper, section 3.1.
 */
GRAIL_API grail_status grail_compensate(const grail_statistics *statistics,
                                        const grail_reducer *reducer, int64_t features_per_unit,
                                        int64_t outputs, const float *consumer,
                                        const grail_compensate_options *options, float *weight,
                                        double *bias_change,
                                        grail_compensate_result *result) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
