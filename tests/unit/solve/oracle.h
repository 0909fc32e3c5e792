/* One small regression on explicit rows, and its answer by Gaussian elimination: nothing here uses
 * the code under test but the accumulation of statistics. */
#ifndef GRAIL_TESTS_UNIT_SOLVE_ORACLE_H
#define GRAIL_TESTS_UNIT_SOLVE_ORACLE_H

#include "solve/ridge.h"
#include "support/matrices.h"

/** T rows of an input of H features, of which K are kept, and a target of O outputs. */
enum { ORACLE_ROWS = 60, ORACLE_WIDTH = 12, ORACLE_KEPT = 7, ORACLE_OUTPUTS = 5 };

extern const int64_t oracle_kept[ORACLE_KEPT];

typedef struct oracle {
    float x[ORACLE_ROWS * ORACLE_WIDTH];           /* X[T, H] */
    float consumer[ORACLE_OUTPUTS * ORACLE_WIDTH]; /* W[O, H] */
    float prior[ORACLE_OUTPUTS * ORACLE_KEPT];     /* W[:, P] */
    float z[ORACLE_ROWS * ORACLE_KEPT];            /* X[:, P] */
    float given[ORACLE_ROWS * ORACLE_OUTPUTS];     /* a target of its own, beside X W^T */
    double own[ORACLE_ROWS * ORACLE_OUTPUTS];      /* X W^T */
    double other[ORACLE_ROWS * ORACLE_OUTPUTS];    /* `given` in f64 */
} oracle;

/** Random rows with means that are not 0. Fixed by `seed`. */
void oracle_fill(oracle *o, uint64_t seed);
/** Sets prior, z and own from x and consumer, after a test changed them. */
void oracle_derive(oracle *o);

grail_reducer *oracle_reducer(void);

/** Statistics of rows begin .. end-1 of X, with the given target or without; owned. */
grail_statistics *oracle_statistics(backend *b, const oracle *o, int64_t begin, int64_t end,
                                    bool target);
/** The regression of the kept features on those rows. */
regression oracle_regression(backend *b, const oracle *o, int64_t begin, int64_t end, bool target);

/** regression_derive with weights on the host; the consumer may be NULL. */
grail_status oracle_regress(const grail_comm *comm, grail_statistics *s,
                            const grail_reducer *reducer, int64_t features_per_unit,
                            int64_t outputs, const float *consumer, const float *prior,
                            regression *out) GRAIL_MUST_CHECK;
/** The same of a selection, with W0 = W[:, P]. */
grail_status oracle_select(grail_statistics *s, const grail_reducer *reducer,
                           int64_t features_per_unit, int64_t outputs, const float *consumer,
                           regression *out) GRAIL_MUST_CHECK;

/** Sums of a regression in arrays. */
typedef struct regression_sums {
    int64_t width, outputs;
    double weight;
    const double *gram, *cross, *sum, *residual_sum, *residual_square, *target_square;
} regression_sums;

/** The regression of these sums on an instance; regression_fini. */
grail_status oracle_load(backend *b, const regression_sums *sums, regression *out) GRAIL_MUST_CHECK;

/** ridge_solve with W0 in an array. */
grail_status oracle_ridge(regression *fit, regression *held, const float *prior,
                          const ridge_options *options, matrix weight, double *bias,
                          ridge_result *result) GRAIL_MUST_CHECK;
/** The same with its weight[O, K] in an array. */
grail_status oracle_fit(regression *fit, regression *held, const float *prior,
                        const ridge_options *options, double *weight, double *bias,
                        ridge_result *result) GRAIL_MUST_CHECK;

/** out[count] in f64 */
void oracle_widen(int64_t count, const float *in, double *out);

void assert_all_near(int64_t count, const double *a, const double *b, double tolerance);

/** X[m, n] <- X A^-1 by Gaussian elimination with pivoting on a copy of A[n, n]. */
void oracle_divide(int64_t n, const double *a, int64_t m, double *x);

/** out[K] = diag(Z^T Z), centred when asked, over rows begin .. end-1. */
void oracle_diagonal(const oracle *o, int64_t begin, int64_t end, bool centred, double *out);

/** alpha times the mean of oracle_diagonal. */
double oracle_lambda(const oracle *o, int64_t begin, int64_t end, double alpha, bool centred);

/**
 * min over W'[O, K] and, when bias != NULL, bias[O] of
 *   || target - Z W'^T - 1 bias^T ||^2 + lambda || W' - prior ||^2
 * by the normal equations of Z with a column of ones; prior counts only for RIDGE_PRIOR.
 */
void oracle_solve(const oracle *o, int64_t begin, int64_t end, const double *target, double lambda,
                  ridge_kind kind, double *weight, double *bias);

/** The same with a penalty of its own for each feature: sum_k penalty[k] || W'_k - prior_k ||^2. */
void oracle_solve_penalised(const oracle *o, int64_t begin, int64_t end, const double *target,
                            const double penalty[ORACLE_KEPT], ridge_kind kind, double *weight,
                            double *bias);

/** || target - Z W'^T - 1 bias^T ||^2 / || target ||^2 over rows begin .. end-1. */
double oracle_error(const oracle *o, int64_t begin, int64_t end, const double *target,
                    const double *weight, const double *bias);

/** Runs ridge_solve on fresh regressions of [0, split) and, unless split is T, [split, T). */
ridge_result oracle_run(backend *b, const oracle *o, int64_t split, bool target,
                        const ridge_options *options, double *weight, double *bias);

#endif
