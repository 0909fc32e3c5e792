#include "solve/system.h"

#include "base/parallel.h"
#include "base/random.h"
#include "solve/quadratic.h"
#include "stats/sums.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MOST_RAISES = 6, POWER_STEPS = 8, INVERSE_STEPS = 4 };

static const double raise_floor = 1e-8;        /* of the mean diagonal */
static const double dead_share = 1e-12;        /* of the diagonal before centring, or of its mean */
static const double eigenvalue_cutoff = 1e-10; /* of the largest */

double regression_inverse_count(const regression *r)
{
    return r->count > 0 ? 1.0 / (double)r->count : 0.0;
}

void ridge_system_fini(ridge_system *s)
{
    memory_free(s->diagonal);
    memory_free(s->eigenvectors);
    memory_free(s->eigenvalues);
    *s = (ridge_system){0};
}

/* A_c[i, i] */
static double centred_diagonal(const ridge_system *s, int64_t i)
{
    const double sum = s->centred ? s->r->sum[i] : 0.0;
    return s->diagonal[i] - sum * sum * regression_inverse_count(s->r);
}

/* A diagonal element that centring reduced to a tiny share of its value is only rounding error. */
static void measure_diagonal(ridge_system *s)
{
    const int64_t n = s->r->width;
    double mean = 0.0;
    double centred_mean = 0.0;
    for (int64_t i = 0; i < n; i++) {
        mean += s->diagonal[i] / (double)n;
        centred_mean += centred_diagonal(s, i) / (double)n;
    }
    s->scale = centred_mean > dead_share * mean ? centred_mean : 0.0;
    s->dead = false;
    for (int64_t i = 0; i < n; i++) {
        const double whole = s->diagonal[i] > s->scale ? s->diagonal[i] : s->scale;
        s->dead = s->dead || centred_diagonal(s, i) <= dead_share * whole;
    }
}

grail_status ridge_system_init(ridge_system *s, const backend *b, regression *r, bool centred)
{
    const int64_t n = r->width;
    double *diagonal = NULL;
    const grail_status status = memory_new_unset(&diagonal, (size_t)n, sizeof *diagonal);
    if (status != GRAIL_OK) {
        return status;
    }
    *s = (ridge_system){.b = b, .r = r, .centred = centred, .diagonal = diagonal};
    for (int64_t i = 0; i < n; i++) {
        diagonal[i] = r->gram[i * n + i];
    }
    symmetric_fill_upper(n, r->gram);
    measure_diagonal(s);
    return GRAIL_OK;
}

void ridge_system_restore(ridge_system *s)
{
    const int64_t n = s->r->width;
    symmetric_fill_lower(n, s->r->gram);
    for (int64_t i = 0; i < n; i++) {
        s->r->gram[i * n + i] = s->diagonal[i];
    }
}

static void centre_rows(int64_t first, int64_t last, void *context)
{
    const regression *r = context;
    const double inverse_count = regression_inverse_count(r);
    for (int64_t i = first; i < last; i++) {
        const double factor = r->sum[i] * inverse_count;
        double *row = r->gram + i * r->width;
        for (int64_t j = 0; j <= i; j++) {
            row[j] -= factor * r->sum[j];
        }
    }
}

/* Lower triangle <- A_c + lambda I */
static void load_system(ridge_system *s, double lambda)
{
    const int64_t n = s->r->width;
    ridge_system_restore(s);
    if (s->centred) {
        parallel_for(n, 64, centre_rows, s->r);
    }
    for (int64_t i = 0; i < n; i++) {
        s->r->gram[i * n + i] += lambda;
    }
}

/* Whether the lower triangle holds a factor whose pivots all exceed rounding errors. */
static bool factor_in_place(const ridge_system *s, double lambda)
{
    const int64_t n = s->r->width;
    if (s->b->cholesky(n, s->r->gram, n) >= 0) {
        return false;
    }
    const double rounding = 10.0 * (double)n * DBL_EPSILON;
    for (int64_t i = 0; i < n; i++) {
        const double pivot = s->r->gram[i * n + i];
        if (!(pivot * pivot > rounding * (centred_diagonal(s, i) + lambda))) {
            return false;
        }
    }
    return true;
}

/* A_c = V^T diag(v) V, in a matrix of its own; the lower triangle is free to be overwritten. */
static grail_status decompose(ridge_system *s, double lambda)
{
    grail_status status = GRAIL_OK;
    const int64_t n = s->r->width;
    const size_t size = (size_t)n;
    TRY(memory_new_unset(&s->eigenvectors, size * size, sizeof *s->eigenvectors));
    TRY(memory_new_unset(&s->eigenvalues, size, sizeof *s->eigenvalues));
    load_system(s, 0.0);
    memcpy(s->eigenvectors, s->r->gram, size * size * sizeof *s->eigenvectors);
    TRY(s->b->eigen(n, s->eigenvectors, s->eigenvalues));
    s->lambda = lambda;
    s->fallback = RIDGE_FALLBACK_EIGEN;
out:
    return status;
}

static void forget_factor(ridge_system *s)
{
    memory_free(s->eigenvectors);
    memory_free(s->eigenvalues);
    s->eigenvectors = NULL;
    s->eigenvalues = NULL;
    s->fallback = RIDGE_FALLBACK_NONE;
    s->raises = 0;
}

grail_status ridge_system_factor(ridge_system *s, double alpha)
{
    forget_factor(s);
    const double wanted = alpha * s->scale;
    const double floor = s->dead ? raise_floor * s->scale : 0.0;
    const double lambda = wanted > floor ? wanted : floor;
    s->lambda = lambda;
    if (s->scale == 0.0) {
        return GRAIL_OK;
    }
    for (s->raises = 0; s->raises <= MOST_RAISES; s->raises++) {
        load_system(s, s->lambda);
        if (factor_in_place(s, s->lambda)) {
            s->fallback = s->raises > 0 ? RIDGE_FALLBACK_RAISED : RIDGE_FALLBACK_NONE;
            return GRAIL_OK;
        }
        s->lambda = fmax(10.0 * s->lambda, raise_floor * s->scale);
    }
    s->raises = MOST_RAISES;
    return decompose(s, lambda);
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

/* X <- X V^T diag(1 / (v + lambda)) V over the used eigenvalues, a panel of rows at a time. */
static grail_status solve_by_eigenvalues(const ridge_system *s, int64_t rows, double *x)
{
    grail_status status = GRAIL_OK;
    double *parts = NULL; /* [panel, used] */
    const int64_t n = s->r->width;
    const int64_t first = first_used(s);
    const int64_t used = n - first;
    const double *vectors = s->eigenvectors + first * n;
    const int64_t panel = rows < SOLVE_PANEL ? rows : SOLVE_PANEL;
    TRY(memory_new_unset(&parts, (size_t)(panel * used), sizeof *parts));
    for (int64_t begin = 0; begin < rows; begin += panel) {
        const int64_t count = begin + panel < rows ? panel : rows - begin;
        double *block = x + begin * n;
        s->b->gemm(false, true, count, used, n, 1.0, block, n, vectors, n, 0.0, parts, used);
        for (int64_t i = 0; i < count * used; i++) {
            parts[i] /= s->eigenvalues[first + i % used] + s->lambda;
        }
        s->b->gemm(false, false, count, n, used, 1.0, parts, used, vectors, n, 0.0, block, n);
    }
out:
    memory_free(parts);
    return status;
}

grail_status ridge_system_solve(const ridge_system *s, int64_t rows, double *x)
{
    const int64_t n = s->r->width;
    if (s->scale == 0.0) {
        memset(x, 0, (size_t)(rows * n) * sizeof *x);
        return GRAIL_OK;
    }
    if (s->fallback == RIDGE_FALLBACK_EIGEN) {
        return solve_by_eigenvalues(s, rows, x);
    }
    s->b->cholesky_solve(rows, n, s->r->gram, n, x, n);
    return GRAIL_OK;
}

/* x <- x / ||x||, returns ||x|| */
static double normalise(int64_t n, double *x)
{
    const double norm = sqrt(dot_product(n, x, x));
    for (int64_t i = 0; i < n; i++) {
        x[i] /= norm;
    }
    return norm;
}

/* x <- L L^T x */
static void multiply_by_factor(int64_t n, const double *l, double *x)
{
    for (int64_t j = 0; j < n; j++) { /* x_j is not needed once row j is used */
        const double value = x[j];
        x[j] = 0.0;
        for (int64_t i = 0; i <= j; i++) {
            x[i] += l[j * n + i] * value;
        }
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        x[i] = dot_product(i + 1, l + i * n, x);
    }
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

grail_status ridge_system_condition(const ridge_system *s, double *out)
{
    grail_status status = GRAIL_OK;
    double *x = NULL;
    double largest = 1.0;
    double inverse_least = 1.0;
    const int64_t n = s->r->width;
    if (s->scale == 0.0) {
        *out = 1.0;
        return GRAIL_OK;
    }
    if (s->fallback == RIDGE_FALLBACK_EIGEN) {
        const int64_t first = first_used(s);
        *out = first == n
                   ? 1.0
                   : (s->eigenvalues[n - 1] + s->lambda) / (s->eigenvalues[first] + s->lambda);
        return GRAIL_OK;
    }
    TRY(memory_new_unset(&x, (size_t)n, sizeof *x));
    random_direction(n, x);
    for (int i = 0; i < POWER_STEPS; i++) {
        multiply_by_factor(n, s->r->gram, x);
        largest = normalise(n, x);
    }
    random_direction(n, x);
    for (int i = 0; i < INVERSE_STEPS; i++) {
        s->b->cholesky_solve(1, n, s->r->gram, n, x, n);
        inverse_least = normalise(n, x);
    }
    *out = fmax(1.0, largest * inverse_least);
out:
    memory_free(x);
    return status;
}
