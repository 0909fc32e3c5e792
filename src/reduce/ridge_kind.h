/* How the fit of a consumer is shrunk (solve/ridge.h). */
#ifndef GRAIL_REDUCE_RIDGE_KIND_H
#define GRAIL_REDUCE_RIDGE_KIND_H

/** What the fit is shrunk towards: zero, or a prior, the plainly narrowed weights. */
typedef enum ridge_kind { RIDGE_ZERO, RIDGE_PRIOR } ridge_kind;
/** Whether features share one penalty or each is penalised by its own variance. */
typedef enum ridge_scale {
    RIDGE_SCALE_MEAN,    /* S = I */
    RIDGE_SCALE_DIAGONAL /* S = diag(A) / mean(diag A) */
} ridge_scale;

#endif
