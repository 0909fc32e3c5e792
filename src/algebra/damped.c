#include "algebra/damped.h"

#include "algebra/products.h"
#include "base/memory.h"
#include "stats/constant_features.h"

#include <float.h>
#include <math.h>

enum { MOST_RAISES = 6 };

static const double raise_floor = 1e-8; /* of the mean diagonal */

void damped_fini(damped_gram *d)
{
    memory_free(d->diagonal);
    memory_free(d->varying);
    memory_free(d->constant);
    *d = (damped_gram){0};
}

/* The diagonals of A and A_c, and which features are constant. */
static grail_status read_diagonal(damped_gram *d, double rounding)
{
    const int64_t n = d->gram.rows;
    CHECK(memory_new_unset(&d->diagonal, (size_t)n, sizeof d->diagonal[0]));
    CHECK(memory_new_unset(&d->varying, (size_t)n, sizeof d->varying[0]));
    CHECK(memory_new_unset(&d->constant, (size_t)n, sizeof d->constant[0]));
    CHECK(matrix_download_diagonal(d->gram, d->diagonal));
    for (int64_t i = 0; i < n; i++) {
        d->varying[i] = d->sum == NULL ? 0.0 : d->sum[i] * d->sum[i] * d->inverse_weight;
    }
    centre_diagonal(n, d->diagonal, rounding, d->varying, d->constant);
    d->scale = mean_of(n, d->varying);
    return GRAIL_OK;
}

grail_status damped_init(damped_gram *d, matrix gram, const double *sum, double weight,
                         double rounding)
{
    *d = (damped_gram){
        .gram = gram, .sum = sum, .inverse_weight = weight > 0.0 ? 1.0 / weight : 0.0};
    return read_diagonal(d, rounding);
}

grail_status damped_restore(damped_gram *d)
{
    grail_status status = GRAIL_OK;
    matrix diagonal = no_matrix;
    if (!d->is_changed) {
        return GRAIL_OK;
    }
    d->is_changed = false;
    TRY(import_row(d->gram.owner, d->gram.rows, d->diagonal, &diagonal));
    TRY(matrix_fill_lower(d->gram));
    TRY(matrix_set_diagonal(diagonal, d->gram));
out:
    matrix_free(&diagonal);
    return status;
}

/* Lower triangle: A -= s s^T / T, of which constant features leave nothing. */
static grail_status centre(const damped_gram *d)
{
    grail_status status = GRAIL_OK;
    double *mean = NULL;
    const int64_t n = d->gram.rows;
    TRY(memory_new_unset(&mean, (size_t)n, sizeof *mean));
    for (int64_t i = 0; i < n; i++) {
        mean[i] = d->sum[i] * d->inverse_weight;
    }
    TRY(subtract_outer(true, 1.0, mean, d->sum, d->gram));
    TRY(clear_constant_pairs(d->constant, d->gram));
out:
    memory_free(mean);
    return status;
}

/* diagonal += lambda S */
static grail_status add_penalty(const damped_gram *d, double lambda)
{
    grail_status status = GRAIL_OK;
    matrix share = no_matrix;
    matrix diagonal = no_matrix;
    if (d->share == NULL) {
        return matrix_shift_diagonal(lambda, d->gram);
    }
    TRY(import_row(d->gram.owner, d->gram.rows, d->share, &share));
    TRY(matrix_new(d->gram.owner, GRAIL_DTYPE_F64, 1, d->gram.rows, &diagonal));
    TRY(matrix_diagonal(d->gram, diagonal));
    TRY(matrix_add_scaled(lambda, share, diagonal));
    TRY(matrix_set_diagonal(diagonal, d->gram));
out:
    matrix_free(&share);
    matrix_free(&diagonal);
    return status;
}

grail_status damped_load(damped_gram *d, double lambda)
{
    CHECK(damped_restore(d));
    d->is_changed = true;
    if (d->sum != NULL) {
        CHECK(centre(d));
    }
    return add_penalty(d, lambda);
}

/* *failing: the first pivot of the factor that does not exceed rounding errors, or -1. */
static grail_status check_pivots(const damped_gram *d, int64_t *failing)
{
    grail_status status = GRAIL_OK;
    double *pivots = NULL;
    const int64_t n = d->gram.rows;
    const double rounding = 10.0 * (double)n * DBL_EPSILON;
    TRY(memory_new_unset(&pivots, (size_t)n, sizeof *pivots));
    TRY(matrix_download_diagonal(d->gram, pivots));
    for (int64_t i = 0; i < n && *failing < 0; i++) {
        const double penalty = d->share == NULL ? d->lambda : d->lambda * d->share[i];
        const bool sound = pivots[i] * pivots[i] > rounding * (d->varying[i] + penalty);
        *failing = sound ? -1 : i;
    }
out:
    memory_free(pivots);
    return status;
}

/* Tries d->lambda. */
static grail_status factor_once(damped_gram *d, int64_t *failing)
{
    CHECK(damped_load(d, d->lambda));
    CHECK(matrix_cholesky(d->gram, failing));
    if (*failing < 0) {
        CHECK(check_pivots(d, failing));
    }
    return GRAIL_OK;
}

grail_status damped_factor(damped_gram *d, double lambda, int64_t *failing)
{
    d->lambda = lambda;
    d->raises = 0;
    CHECK(factor_once(d, failing));
    while (*failing >= 0 && d->raises < MOST_RAISES) {
        d->lambda = fmax(10.0 * d->lambda, raise_floor * d->scale);
        d->raises++;
        CHECK(factor_once(d, failing));
    }
    return GRAIL_OK;
}
