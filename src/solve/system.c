#include "solve/system.h"

#include "algebra/products.h"
#include "base/random.h"
#include "stats/constant_features.h"
#include "stats/shared_rows.h"

#include <math.h>

enum { POWER_STEPS = 8, INVERSE_STEPS = 4 };

static const double dead_floor = 1e-8;         /* of the mean diagonal */
static const double negligible_share = 1e-12;  /* of the mean diagonal */
static const double eigenvalue_cutoff = 1e-10; /* of the largest */

double regression_inverse_weight(const regression *r)
{
    return r->weight > 0.0 ? 1.0 / r->weight : 0.0;
}

void ridge_system_fini(ridge_system *s)
{
    damped_fini(&s->damped);
    memory_free(s->share);
    matrix_free(&s->eigenvectors);
    memory_free(s->eigenvalues);
    *s = (ridge_system){0};
}

/* Whether feature i is constant or next to nothing beside the others. */
static bool is_dead(const damped_gram *d, int64_t i)
{
    return d->varying[i] <= negligible_share * d->scale;
}

grail_status ridge_system_init(ridge_system *s, regression *r, bool centred, ridge_scale penalty)
{
    *s = (ridge_system){.r = r};
    CHECK(damped_init(&s->damped, r->gram, centred ? r->sum : NULL, r->weight,
                      sums_rounding(r->gram.owner, r->count)));
    for (int64_t i = 0; i < r->width; i++) {
        s->dead = s->dead || is_dead(&s->damped, i);
    }
    if (penalty == RIDGE_SCALE_DIAGONAL) {
        /* S = diag(A_c) / scale. A variance of next to nothing says little about a feature's scale,
         * so its share is 1. */
        const damped_gram *d = &s->damped;
        const int64_t n = s->r->width;
        const grail_status status = memory_new_unset(&s->share, (size_t)n, sizeof *s->share);
        for (int64_t i = 0; status == GRAIL_OK && i < n; i++) {
            s->share[i] = is_dead(d, i) ? 1.0 : d->varying[i] / d->scale;
        }
        CHECK(status);
        s->damped.share = s->share;
    }
    return GRAIL_OK;
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
    TRY(damped_load(&s->damped, 0.0));
    TRY(matrix_copy(gram, s->eigenvectors));
    TRY(matrix_eigen(s->eigenvectors, values));
    TRY(matrix_download(values, s->eigenvalues));
    s->damped.lambda = lambda;
    s->fallback = RIDGE_FALLBACK_EIGEN;
out:
    matrix_free(&values);
    return status;
}

grail_status ridge_system_factor(ridge_system *s, double alpha)
{
    damped_gram *d = &s->damped;
    const double wanted = alpha * d->scale;
    const double floor = s->dead ? dead_floor * d->scale : 0.0;
    const double lambda = wanted > floor ? wanted : floor;
    int64_t failing = -1;
    matrix_free(&s->eigenvectors);
    memory_free(s->eigenvalues);
    s->eigenvalues = NULL;
    s->fallback = RIDGE_FALLBACK_NONE;
    d->lambda = lambda;
    d->raises = 0;
    if (d->scale == 0.0) {
        return GRAIL_OK;
    }
    CHECK(damped_factor(d, lambda, &failing));
    if (failing >= 0) {
        CHECK(decompose(s, lambda));
    } else if (d->raises > 0) {
        s->fallback = RIDGE_FALLBACK_RAISED;
    }
    return GRAIL_OK;
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
        values[i] = s->eigenvalues[first + i] + s->damped.lambda;
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
    const int64_t panel = shared_panel(x.owner, x.rows);
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
    TRY(matrix_add_scaled(-s->damped.lambda, w, x));
    TRY(divide_columns(inverse, x));
out:
    memory_free(inverse);
    return status;
}

grail_status ridge_system_subtract_penalty(const ridge_system *s, matrix w, matrix x)
{
    return s->share == NULL || s->fallback == RIDGE_FALLBACK_EIGEN
               ? matrix_add_scaled(-s->damped.lambda, w, x)
               : subtract_shares(s, w, x);
}

grail_status ridge_system_solve(const ridge_system *s, matrix x)
{
    if (s->damped.scale == 0.0) {
        return matrix_zero(x);
    }
    return s->fallback == RIDGE_FALLBACK_EIGEN ? solve_by_eigenvalues(s, x)
                                               : matrix_cholesky_solve(s->r->gram, x);
}

/* norm[1, 1] = ||M x|| of the last step, where every step is x <- M x / ||M x|| from `start`:
 * M = A_c + lambda S, or its inverse. x[1, n] is scratch. */
static grail_status iterate(const ridge_system *s, bool inverse, int steps, matrix start, matrix x,
                            matrix norm)
{
    const matrix factor = s->r->gram;
    CHECK(matrix_copy(start, x));
    CHECK(matrix_normalise(x, norm));
    for (int i = 0; i < steps; i++) {
        CHECK(inverse ? matrix_cholesky_solve(factor, x) : matrix_cholesky_multiply(factor, x));
        CHECK(matrix_normalise(x, norm));
    }
    return GRAIL_OK;
}

static grail_status draw_direction(matrix out)
{
    grail_status status = GRAIL_OK;
    double *x = NULL;
    random_state random;
    random_seed(&random, 1, 0);
    TRY(memory_new_unset(&x, (size_t)out.columns, sizeof *x));
    for (int64_t i = 0; i < out.columns; i++) {
        x[i] = random_normal(&random);
    }
    TRY(matrix_upload(out, x));
out:
    memory_free(x);
    return status;
}

static double condition_of_eigenvalues(const ridge_system *s)
{
    const int64_t n = s->r->width;
    const int64_t first = first_used(s);
    return first == n ? 1.0
                      : (s->eigenvalues[n - 1] + s->damped.lambda) /
                            (s->eigenvalues[first] + s->damped.lambda);
}

grail_status ridge_system_condition(const ridge_system *s, double *out)
{
    grail_status status = GRAIL_OK;
    matrix rows = no_matrix; /* where to begin, and scratch */
    matrix found = no_matrix;
    double norms[2] = {1.0, 1.0}; /* of the system and its inverse */
    const int64_t n = s->r->width;
    backend *b = s->r->gram.owner;
    if (s->damped.scale == 0.0 || s->fallback == RIDGE_FALLBACK_EIGEN) {
        *out = s->damped.scale == 0.0 ? 1.0 : condition_of_eigenvalues(s);
        return GRAIL_OK;
    }
    TRY(matrix_new(b, GRAIL_DTYPE_F64, 2, n, &rows));
    TRY(matrix_new(b, GRAIL_DTYPE_F64, 1, 2, &found));
    const matrix start = matrix_rows(rows, 0, 1);
    const matrix x = matrix_rows(rows, 1, 1);
    TRY(draw_direction(start));
    TRY(iterate(s, false, POWER_STEPS, start, x, matrix_columns(found, 0, 1)));
    TRY(iterate(s, true, INVERSE_STEPS, start, x, matrix_columns(found, 1, 1)));
    TRY(matrix_download(found, norms));
    *out = fmax(1.0, norms[0] * norms[1]);
out:
    matrix_free(&rows);
    matrix_free(&found);
    return status;
}
