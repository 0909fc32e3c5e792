#include "solve/system.h"

#include "base/random.h"
#include "solve/quadratic.h"
#include "stats/constant_features.h"

#include <float.h>
#include <math.h>

enum { MOST_RAISES = 6, POWER_STEPS = 8, INVERSE_STEPS = 4 };

static const double raise_floor = 1e-8;        /* of the mean diagonal */
static const double negligible_share = 1e-12;  /* of the mean diagonal */
static const double eigenvalue_cutoff = 1e-10; /* of the largest */

double regression_inverse_weight(const regression *r)
{
    return r->weight > 0.0 ? 1.0 / r->weight : 0.0;
}

void ridge_system_fini(ridge_system *s)
{
    memory_free(s->diagonal);
    memory_free(s->share);
    memory_free(s->constant);
    matrix_free(&s->eigenvectors);
    memory_free(s->eigenvalues);
    *s = (ridge_system){0};
}

/* s_i^2 / T */
static double square_of_mean(const ridge_system *s, int64_t i)
{
    return s->centred ? s->r->sum[i] * s->r->sum[i] * regression_inverse_weight(s->r) : 0.0;
}

static grail_status find_constant_features(ridge_system *s)
{
    const regression *r = s->r;
    const double rounding = sums_rounding(r->gram.owner, r->count);
    const grail_status status =
        memory_new_unset(&s->constant, (size_t)r->width, sizeof *s->constant);
    for (int64_t i = 0; status == GRAIL_OK && i < r->width; i++) {
        s->constant[i] = feature_is_constant(s->diagonal[i], square_of_mean(s, i), rounding);
    }
    return status;
}

/* A_c[i, i] */
static double centred_diagonal(const ridge_system *s, int64_t i)
{
    return s->constant[i] ? 0.0 : s->diagonal[i] - square_of_mean(s, i);
}

/* Whether feature i is constant or next to nothing beside the others. */
static bool is_dead(const ridge_system *s, int64_t i)
{
    return centred_diagonal(s, i) <= negligible_share * s->scale;
}

static void measure_diagonal(ridge_system *s)
{
    const int64_t n = s->r->width;
    s->scale = 0.0;
    for (int64_t i = 0; i < n; i++) {
        s->scale += centred_diagonal(s, i) / (double)n;
    }
    s->dead = false;
    for (int64_t i = 0; i < n; i++) {
        s->dead = s->dead || is_dead(s, i);
    }
}

/* S = diag(A_c) / scale. A variance of next to nothing says little about a feature's scale, so its
 * share is 1. */
static grail_status measure_shares(ridge_system *s)
{
    const int64_t n = s->r->width;
    const grail_status status = memory_new_unset(&s->share, (size_t)n, sizeof *s->share);
    for (int64_t i = 0; status == GRAIL_OK && i < n; i++) {
        s->share[i] = is_dead(s, i) ? 1.0 : centred_diagonal(s, i) / s->scale;
    }
    return status;
}

grail_status ridge_system_init(ridge_system *s, regression *r, bool centred, ridge_scale penalty)
{
    grail_status status = GRAIL_OK;
    double *diagonal = NULL;
    TRY(memory_new_unset(&diagonal, (size_t)r->width, sizeof *diagonal));
    TRY(matrix_download_diagonal(r->gram, diagonal));
    TRY(matrix_fill_upper(r->gram));
    *s = (ridge_system){.r = r, .centred = centred, .diagonal = diagonal};
    diagonal = NULL;
    TRY(find_constant_features(s));
    measure_diagonal(s);
    if (penalty == RIDGE_SCALE_DIAGONAL) {
        TRY(measure_shares(s));
    }
out:
    memory_free(diagonal);
    return status;
}

grail_status ridge_system_restore(ridge_system *s)
{
    grail_status status = GRAIL_OK;
    matrix diagonal = no_matrix;
    const matrix gram = s->r->gram;
    TRY(import_row(gram.owner, gram.rows, s->diagonal, &diagonal));
    TRY(matrix_fill_lower(gram));
    TRY(matrix_set_diagonal(diagonal, gram));
out:
    matrix_free(&diagonal);
    return status;
}

/* Lower triangle: A -= s s^T / T, of which constant features leave nothing. */
static grail_status centre(const ridge_system *s)
{
    grail_status status = GRAIL_OK;
    const regression *r = s->r;
    double *mean = NULL;
    TRY(memory_new_unset(&mean, (size_t)r->width, sizeof *mean));
    for (int64_t i = 0; i < r->width; i++) {
        mean[i] = r->sum[i] * regression_inverse_weight(r);
    }
    TRY(subtract_outer(true, mean, r->sum, r->gram));
    TRY(clear_constant_pairs(s->constant, r->gram));
out:
    memory_free(mean);
    return status;
}

/* diagonal += lambda S */
static grail_status add_penalty(const ridge_system *s, double lambda)
{
    grail_status status = GRAIL_OK;
    matrix share = no_matrix;
    matrix diagonal = no_matrix;
    const matrix gram = s->r->gram;
    if (s->share == NULL) {
        return matrix_shift_diagonal(lambda, gram);
    }
    TRY(import_row(gram.owner, gram.rows, s->share, &share));
    TRY(matrix_new(gram.owner, GRAIL_DTYPE_F64, 1, gram.rows, &diagonal));
    TRY(matrix_diagonal(gram, diagonal));
    TRY(matrix_add_scaled(lambda, share, diagonal));
    TRY(matrix_set_diagonal(diagonal, gram));
out:
    matrix_free(&share);
    matrix_free(&diagonal);
    return status;
}

/* Lower triangle <- A_c + lambda S */
static grail_status load_system(ridge_system *s, double lambda)
{
    grail_status status = GRAIL_OK;
    TRY(ridge_system_restore(s));
    if (s->centred) {
        TRY(centre(s));
    }
    TRY(add_penalty(s, lambda));
out:
    return status;
}

/* Whether the pivots of the factor in the lower triangle all exceed rounding errors. */
static grail_status check_pivots(const ridge_system *s, double lambda, bool *sound)
{
    grail_status status = GRAIL_OK;
    double *pivots = NULL;
    const int64_t n = s->r->width;
    const double rounding = 10.0 * (double)n * DBL_EPSILON;
    TRY(memory_new_unset(&pivots, (size_t)n, sizeof *pivots));
    TRY(matrix_download_diagonal(s->r->gram, pivots));
    *sound = true;
    for (int64_t i = 0; i < n && *sound; i++) {
        const double penalty = s->share == NULL ? lambda : lambda * s->share[i];
        *sound = pivots[i] * pivots[i] > rounding * (centred_diagonal(s, i) + penalty);
    }
out:
    memory_free(pivots);
    return status;
}

/* *factored: whether the lower triangle holds a sound factor now. */
static grail_status factor_in_place(const ridge_system *s, double lambda, bool *factored)
{
    int64_t failing = -1;
    const grail_status status = matrix_cholesky(s->r->gram, &failing);
    *factored = false;
    return status == GRAIL_OK && failing < 0 ? check_pivots(s, lambda, factored) : status;
}

/* A_c = V^T diag(v) V, in a matrix of its own; the lower triangle is free to be overwritten. */
static grail_status decompose(ridge_system *s, double lambda)
{
    grail_status status = GRAIL_OK;
    matrix values = no_matrix;
    const matrix gram = s->r->gram;
    TRY(matrix_new(gram.owner, GRAIL_DTYPE_F64, gram.rows, gram.rows, &s->eigenvectors));
    TRY(matrix_new(gram.owner, GRAIL_DTYPE_F64, 1, gram.rows, &values));
    TRY(memory_new_unset(&s->eigenvalues, (size_t)gram.rows, sizeof *s->eigenvalues));
    TRY(load_system(s, 0.0));
    TRY(matrix_copy(gram, s->eigenvectors));
    TRY(matrix_eigen(s->eigenvectors, values));
    TRY(matrix_download(values, s->eigenvalues));
    s->lambda = lambda;
    s->fallback = RIDGE_FALLBACK_EIGEN;
out:
    matrix_free(&values);
    return status;
}

static void forget_factor(ridge_system *s)
{
    matrix_free(&s->eigenvectors);
    memory_free(s->eigenvalues);
    s->eigenvalues = NULL;
    s->fallback = RIDGE_FALLBACK_NONE;
    s->raises = 0;
}

/* Raises lambda until a factorisation succeeds; *factored is false when none does. */
static grail_status raise_lambda(ridge_system *s, bool *factored)
{
    grail_status status = GRAIL_OK;
    for (s->raises = 0; s->raises <= MOST_RAISES; s->raises++) {
        TRY(load_system(s, s->lambda));
        TRY(factor_in_place(s, s->lambda, factored));
        if (*factored) {
            s->fallback = s->raises > 0 ? RIDGE_FALLBACK_RAISED : RIDGE_FALLBACK_NONE;
            return GRAIL_OK;
        }
        s->lambda = fmax(10.0 * s->lambda, raise_floor * s->scale);
    }
    s->raises = MOST_RAISES;
out:
    return status;
}

grail_status ridge_system_factor(ridge_system *s, double alpha)
{
    forget_factor(s);
    const double wanted = alpha * s->scale;
    const double floor = s->dead ? raise_floor * s->scale : 0.0;
    const double lambda = wanted > floor ? wanted : floor;
    bool factored = false;
    s->lambda = lambda;
    if (s->scale == 0.0) {
        return GRAIL_OK;
    }
    const grail_status status = raise_lambda(s, &factored);
    return status == GRAIL_OK && !factored ? decompose(s, lambda) : status;
}

/* Index of the first eigenvalue that is used. */
static int64_t first_used(const ridge_system *s)
{
    const int64_t n = s->r->width;
    const double least = eigenvalue_cutoff * s->eigenvalues[n - 1];
    int64_t i = 0;
    while (i < n && !(s->eigenvalues[i] > 0.0 && s->eigenvalues[i] >= least)) {
        i++;
    }
    return i;
}

/* X[:, j] /= divisors[j] */
static grail_status divide_columns(const double *divisors, matrix x)
{
    grail_status status = GRAIL_OK;
    matrix row = no_matrix;
    TRY(import_row(x.owner, x.columns, divisors, &row));
    TRY(matrix_divide_columns(row, x));
out:
    matrix_free(&row);
    return status;
}

/* PARTS /= v + lambda, over the used eigenvalues. */
static grail_status divide_by_eigenvalues(const ridge_system *s, matrix parts)
{
    grail_status status = GRAIL_OK;
    double *values = NULL;
    const int64_t first = first_used(s);
    TRY(memory_new_unset(&values, (size_t)parts.columns, sizeof *values));
    for (int64_t i = 0; i < parts.columns; i++) {
        values[i] = s->eigenvalues[first + i] + s->lambda;
    }
    TRY(divide_columns(values, parts));
out:
    memory_free(values);
    return status;
}

/* X <- X V^T diag(1 / (v + lambda)) V over the used eigenvalues, a panel of rows at a time. */
static grail_status solve_by_eigenvalues(const ridge_system *s, matrix x)
{
    grail_status status = GRAIL_OK;
    matrix parts = no_matrix; /* [panel, used] */
    const int64_t first = first_used(s);
    const int64_t used = s->r->width - first;
    const matrix vectors = matrix_rows(s->eigenvectors, first, used);
    const int64_t panel = x.rows < SOLVE_PANEL ? x.rows : SOLVE_PANEL;
    TRY(matrix_new(x.owner, GRAIL_DTYPE_F64, panel, used, &parts));
    for (int64_t begin = 0; begin < x.rows; begin += panel) {
        const int64_t count = begin + panel < x.rows ? panel : x.rows - begin;
        const matrix block = matrix_rows(x, begin, count);
        const matrix part = matrix_rows(parts, 0, count);
        TRY(matrix_gemm(false, true, 1.0, block, vectors, 0.0, part));
        TRY(divide_by_eigenvalues(s, part));
        TRY(matrix_gemm(false, false, 1.0, part, vectors, 0.0, block));
    }
out:
    matrix_free(&parts);
    return status;
}

/* X - lambda W S = (X S^-1 - lambda W) S */
static grail_status subtract_shares(const ridge_system *s, matrix w, matrix x)
{
    grail_status status = GRAIL_OK;
    double *inverse = NULL;
    TRY(memory_new_unset(&inverse, (size_t)x.columns, sizeof *inverse));
    for (int64_t i = 0; i < x.columns; i++) {
        inverse[i] = 1.0 / s->share[i];
    }
    TRY(divide_columns(s->share, x));
    TRY(matrix_add_scaled(-s->lambda, w, x));
    TRY(divide_columns(inverse, x));
out:
    memory_free(inverse);
    return status;
}

grail_status ridge_system_subtract_penalty(const ridge_system *s, matrix w, matrix x)
{
    return s->share == NULL || s->fallback == RIDGE_FALLBACK_EIGEN
               ? matrix_add_scaled(-s->lambda, w, x)
               : subtract_shares(s, w, x);
}

grail_status ridge_system_solve(const ridge_system *s, matrix x)
{
    if (s->scale == 0.0) {
        return matrix_zero(x);
    }
    return s->fallback == RIDGE_FALLBACK_EIGEN ? solve_by_eigenvalues(s, x)
                                               : matrix_cholesky_solve(s->r->gram, x);
}

/* x <- x / ||x||, returns ||x|| */
static double normalise(int64_t n, double *x)
{
    double square = 0.0;
    for (int64_t i = 0; i < n; i++) {
        square += x[i] * x[i];
    }
    const double norm = sqrt(square);
    for (int64_t i = 0; i < n; i++) {
        x[i] /= norm;
    }
    return norm;
}

static void random_direction(int64_t n, double *x)
{
    random_state random;
    random_seed(&random, 1, 0);
    for (int64_t i = 0; i < n; i++) {
        x[i] = random_normal(&random);
    }
    normalise(n, x);
}

/* *norm = ||M x|| of the last step, where every step is x <- M x / ||M x|| from a random direction:
 * M = A_c + lambda S, or its inverse. row[1, n] and x[n] are scratch. */
static grail_status iterate(const ridge_system *s, bool inverse, int steps, matrix row, double *x,
                            double *norm)
{
    grail_status status = GRAIL_OK;
    const matrix factor = s->r->gram;
    random_direction(row.columns, x);
    for (int i = 0; i < steps; i++) {
        TRY(matrix_upload(row, x));
        TRY(inverse ? matrix_cholesky_solve(factor, row) : matrix_cholesky_multiply(factor, row));
        TRY(matrix_download(row, x));
        *norm = normalise(row.columns, x);
    }
out:
    return status;
}

static double condition_of_eigenvalues(const ridge_system *s)
{
    const int64_t n = s->r->width;
    const int64_t first = first_used(s);
    return first == n ? 1.0
                      : (s->eigenvalues[n - 1] + s->lambda) / (s->eigenvalues[first] + s->lambda);
}

grail_status ridge_system_condition(const ridge_system *s, double *out)
{
    grail_status status = GRAIL_OK;
    matrix row = no_matrix;
    double *x = NULL;
    double largest = 1.0;
    double inverse_least = 1.0;
    const int64_t n = s->r->width;
    if (s->scale == 0.0 || s->fallback == RIDGE_FALLBACK_EIGEN) {
        *out = s->scale == 0.0 ? 1.0 : condition_of_eigenvalues(s);
        return GRAIL_OK;
    }
    TRY(matrix_new(s->r->gram.owner, GRAIL_DTYPE_F64, 1, n, &row));
    TRY(memory_new_unset(&x, (size_t)n, sizeof *x));
    TRY(iterate(s, false, POWER_STEPS, row, x, &largest));
    TRY(iterate(s, true, INVERSE_STEPS, row, x, &inverse_least));
    *out = fmax(1.0, largest * inverse_least);
out:
    matrix_free(&row);
    memory_free(x);
    return status;
}
