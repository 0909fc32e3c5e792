/* A Gram matrix with a damped diagonal, A_c + lambda S, factored inside the memory of A.
 *
 * A lives in the strict upper triangle and in `diagonal`, the factor in the lower triangle, so that
 * A can be restored for another lambda without a second matrix. With the sums s of the features A
 * is centred as it is copied down: A_c = A - s s^T / T, with zeros in the rows and columns of
 * features that do not vary (stats/constant_features.h). S is diagonal.
 *
 * A pivot that is not above 10 n 2^-52 of its own diagonal element counts as failed. Then lambda is
 * raised to max(10 lambda, 1e-8 mean diag A_c), up to six times. */
#ifndef GRAIL_ALGEBRA_DAMPED_H
#define GRAIL_ALGEBRA_DAMPED_H

#include "stats/statistics.h"

typedef struct damped_gram {
    matrix gram;           /* [n, n], of the caller */
    const double *sum;     /* s[n], of the caller; NULL: A_c = A */
    double inverse_weight; /* 1 / T */
    const double *share;   /* [n] diagonal of S, of the caller; NULL: S = I */
    double *diagonal;      /* [n] of A */
    double *varying;       /* [n] of A_c */
    bool *constant;        /* [n] always 0, or with `sum` constant up to the rounding of the sums */
    double scale;          /* mean diag A_c */
    double lambda;         /* of the last factorisation */
    int raises;            /* how often it was raised then */
    bool is_changed;       /* the lower triangle and the diagonal are no longer those of A */
} damped_gram;

/** Takes over A, with both triangles. `rounding` is that of the sums, and with `sum` the rows weigh
 * T = `weight`. damped_fini works on a zeroed or initialised one. */
grail_status damped_init(damped_gram *d, matrix gram, const double *sum, double weight,
                         double rounding) GRAIL_MUST_CHECK;
void damped_fini(damped_gram *d);

/** Lower triangle <- A_c + lambda S */
grail_status damped_load(damped_gram *d, double lambda) GRAIL_MUST_CHECK;
/** Lower triangle <- the factor of A_c + lambda S, with lambda or as it had to be raised. *failing
 * is -1, or the feature at which the last attempt failed. */
grail_status damped_factor(damped_gram *d, double lambda, int64_t *failing) GRAIL_MUST_CHECK;
/** Both triangles <- A, not centred. */
grail_status damped_restore(damped_gram *d) GRAIL_MUST_CHECK;

#endif
