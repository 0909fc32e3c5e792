/* Elimination of units: blocks of the diagonal, the values that follow from them, and what one
 * unit's elimination takes from the others. */
#include "backend/host/host.h"
#include "backend/shapes.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

/* Multiplications that are worth a piece of a parallel loop, u^3 for a unit. */
enum { PIECE = 1 << 16 };

static int64_t units_grain(int64_t u)
{
    return PIECE / (u * u * u) + 1;
}

static int64_t number_in(matrix unit)
{
    return (int64_t) * (const double *)unit.memory;
}

/* Elements [begin, end) of a row of a symmetric matrix, from its lower triangle. */
static void copy_symmetric_row(matrix a, int64_t i, int64_t begin, int64_t end, double *out)
{
    const double *row = host_row(a, i);
    const double *column = host_element(a, 0, i);
    for (int64_t j = begin; j < end && j <= i; j++) {
        out[j] = row[j];
    }
    for (int64_t j = i < begin ? begin : i + 1; j < end; j++) {
        out[j] = column[j * a.stride];
    }
}

grail_status host_unit_blocks(const operation *o)
{
    const matrix blocks = o->m[2];
    const int64_t u = block_features(blocks);
    const int64_t n = blocks.rows / 2;
    for (int64_t at = 0; at < 2 * n * u; at++) {
        const int64_t first = at / u % n * u;
        const matrix of = matrix_columns(matrix_rows(o->m[at / (n * u)], first, u), first, u);
        copy_symmetric_row(of, at % u, 0, u, host_element(blocks, at / u, at % u * u));
    }
    return GRAIL_OK;
}

/* The blocks of A and of M, [n, u u]. */
static matrix blocks_of(matrix blocks, bool second)
{
    const int64_t n = blocks.rows / 2;
    return matrix_rows(blocks, second ? n : 0, n);
}

/* -- values ------------------------------------------------------------------------------------ */

/* L^T of A[u, u] + jitter I = L L^T, on and above the diagonal of T[u, u]. */
static bool cholesky(int64_t u, double jitter, const double *a, double *t)
{
    memcpy(t, a, (size_t)(u * u) * sizeof t[0]);
    for (int64_t p = 0; p < u; p++) {
        double *row = t + p * u;
        const double pivot = row[p] + jitter;
        if (!(pivot > 0.0) || !isfinite(pivot)) {
            return false;
        }
        row[p] = sqrt(pivot);
        for (int64_t j = p + 1; j < u; j++) {
            row[j] /= row[p];
        }
        for (int64_t i = p + 1; i < u; i++) {
            for (int64_t j = i; j < u; j++) {
                t[i * u + j] -= row[i] * row[j];
            }
        }
    }
    return true;
}

/* L^-1 by rows, on and below the diagonal of T[u, u], from L^T above it. */
static void invert(int64_t u, double *t)
{
    for (int64_t i = 0; i < u; i++) {
        double *row = t + i * u;
        memset(row, 0, (size_t)i * sizeof row[0]);
        for (int64_t k = 0; k < i; k++) {
            for (int64_t j = 0; j <= k; j++) {
                row[j] -= t[k * u + i] * t[k * u + j];
            }
        }
        for (int64_t j = 0; j < i; j++) {
            row[j] /= row[i];
        }
        row[i] = 1.0 / row[i];
    }
}

/* tr(M A^-1) = sum_i T_i M T_i^T, with room for a row of T M */
static double trace_quotient(int64_t u, const double *m, const double *t, double *row)
{
    double sum = 0.0;
    for (int64_t i = 0; i < u; i++) {
        memset(row, 0, (size_t)(i + 1) * sizeof row[0]);
        for (int64_t k = 0; k <= i; k++) {
            for (int64_t j = 0; j <= i; j++) {
                row[j] += t[i * u + k] * m[k * u + j];
            }
        }
        for (int64_t j = 0; j <= i; j++) {
            sum += row[j] * t[i * u + j];
        }
    }
    return sum;
}

typedef struct values_job {
    const operation *o;
    int64_t features;
    double *scratch; /* [n, u + 1, u] */
} values_job;

static double value_of(const values_job *job, int64_t unit)
{
    const operation_settings *with = &job->o->with;
    const int64_t u = job->features;
    const matrix blocks = job->o->m[0];
    const double *m = host_row(blocks_of(blocks, true), unit);
    double *t = job->scratch + unit * (u + 1) * u;
    double value = 0.0;
    if (!cholesky(u, with->epsilon, host_row(blocks, unit), t)) {
        return with->alpha;
    }
    if (with->value == VALUE_EXACT) {
        invert(u, t);
        value = trace_quotient(u, m, t, t + u * u);
    } else {
        for (int64_t i = 0; i < u * u; i += u + 1) {
            value += m[i] / (t[i] * t[i]);
        }
    }
    return value < 0.0 ? 0.0 : value; /* rounding; NaN stays */
}

static void make_values(int64_t begin, int64_t end, void *context)
{
    const values_job *job = context;
    const double *gone = job->o->m[1].memory;
    double *values = job->o->m[2].memory;
    for (int64_t j = begin; j < end; j++) {
        values[j] = gone[j] > 0.0 ? 0.0 : value_of(job, j);
    }
}

/* Both kinds of values are one for units of one feature. */
static void divide(const operation *o)
{
    const double *a = o->m[0].memory;
    const double *m = a + o->m[2].columns;
    const double *gone = o->m[1].memory;
    double *values = o->m[2].memory;
    for (int64_t j = 0; j < o->m[2].columns; j++) {
        const double divisor = a[j] + o->with.epsilon;
        const double value = m[j] / divisor;
        const bool definite = divisor > 0.0 && divisor < (double)INFINITY;
        values[j] = !definite ? o->with.alpha : value < 0.0 ? 0.0 : value;
        values[j] = gone[j] > 0.0 ? 0.0 : values[j];
    }
}

grail_status host_unit_values(const operation *o)
{
    const int64_t count = o->m[2].columns;
    values_job job = {.o = o, .features = block_features(o->m[0])};
    const int64_t u = job.features;
    if (u == 1) {
        divide(o);
        return GRAIL_OK;
    }
    CHECK(memory_new_unset(&job.scratch, (size_t)(count * u), (size_t)(u + 1) * sizeof(double)));
    parallel_for(count, units_grain(u), make_values, &job);
    memory_free(job.scratch);
    return GRAIL_OK;
}

grail_status host_choose_unit(const operation *o)
{
    const double *values = o->m[0].memory;
    double *gone = o->m[1].memory;
    int64_t best = -1;
    for (int64_t j = 0; j < o->m[0].columns; j++) {
        if (gone[j] == 0.0 &&
            (best < 0 || (o->with.largest ? values[j] > values[best] : values[j] < values[best]))) {
            best = j;
        }
    }
    best = best < 0 ? 0 : best;
    gone[best] = (double)INFINITY;
    *(double *)o->m[2].memory = (double)best;
    return GRAIL_OK;
}

/* -- one unit's elimination -------------------------------------------------------------------- */

static void read_columns(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const matrix rows = o->m[5];
    const int64_t u = rows.rows / 2;
    const int64_t first = number_in(o->m[0]) * u;
    for (int64_t f = 0; f < 2 * u; f++) {
        copy_symmetric_row(o->m[f < u ? 1 : 2], first + f % u, begin, end, host_row(rows, f));
    }
}

static void make_factors(int64_t first, matrix pairs, matrix factors)
{
    const int64_t u = factors.rows / 2;
    for (int64_t f = 0; f < u; f++) {
        double *of_a = host_row(factors, f);
        double *of_m = host_row(factors, u + f);
        for (int64_t i = 0; i < factors.columns; i += 2) {
            of_a[i] = of_m[i + 1] = *(const double *)host_element(pairs, i, first + f);
            of_a[i + 1] = 0.0;
            of_m[i] = *(const double *)host_element(pairs, i + 1, first + f);
        }
    }
}

/* C[u, u] = A B, or A^T B */
static void multiply(int64_t u, bool transpose, const double *a, const double *b, double *c)
{
    memset(c, 0, (size_t)(u * u) * sizeof c[0]);
    for (int64_t i = 0; i < u; i++) {
        for (int64_t k = 0; k < u; k++) {
            const double factor = transpose ? a[k * u + i] : a[i * u + k];
            for (int64_t j = 0; j < u; j++) {
                c[i * u + j] += factor * b[k * u + j];
            }
        }
    }
}

/* [T 0; -T M T^T T / 2, T], its rows in the order of pairs, from T in `small`[4, u, u]. */
static void make_transform(int64_t u, const double *m, double *small, matrix transform)
{
    double *t = small;
    double *inverse = t + u * u;
    double *product = inverse + u * u;
    double *mixed = product + u * u;
    for (int64_t i = 0; i < u; i++) {
        memset(t + i * u + i + 1, 0, (size_t)(u - i - 1) * sizeof t[0]);
    }
    multiply(u, true, t, t, inverse);
    multiply(u, false, t, m, product);
    multiply(u, false, product, inverse, mixed);
    for (int64_t i = 0; i < u; i++) {
        double *even = host_row(transform, 2 * i);
        double *odd = host_row(transform, 2 * i + 1);
        memcpy(even, t + i * u, (size_t)u * sizeof t[0]);
        memset(even + u, 0, (size_t)u * sizeof t[0]);
        for (int64_t j = 0; j < u; j++) {
            odd[j] = -0.5 * mixed[i * u + j];
        }
        memcpy(odd + u, t + i * u, (size_t)u * sizeof t[0]);
    }
}

grail_status host_read_unit(const operation *o)
{
    enum { COLUMNS = 512 };
    const matrix blocks = o->m[3];
    const matrix transform = o->m[7];
    const int64_t u = transform.columns / 2;
    const int64_t unit = number_in(o->m[0]);
    double *small = NULL;
    CHECK(memory_new_unset(&small, (size_t)(4 * u), (size_t)u * sizeof small[0]));
    if (cholesky(u, o->with.epsilon, host_row(blocks, unit), small)) {
        invert(u, small);
        make_transform(u, host_row(blocks_of(blocks, true), unit), small, transform);
    } else {
        for (int64_t i = 0; i < 4 * u * u; i++) {
            ((double *)transform.memory)[i] = o->with.alpha;
        }
    }
    memory_free(small);
    parallel_for(o->m[5].columns, COLUMNS, read_columns, (void *)(uintptr_t)o);
    if (matrix_exists(o->m[4])) {
        make_factors(unit * u, o->m[4], o->m[6]);
    }
    return GRAIL_OK;
}

/* A -= x^T x, M -= x^T y + y^T x for rows x[u] and y[u] */
static void subtract_pair(int64_t u, const double *x, const double *y, double *a, double *m)
{
    for (int64_t i = 0; i < u; i++) {
        for (int64_t k = 0; k < u; k++) {
            a[i * u + k] -= x[i] * x[k];
            m[i * u + k] -= x[i] * y[k] + y[i] * x[k];
        }
    }
}

static void subtract_units(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const matrix pairs = o->m[0];
    const int64_t u = pairs.rows / 2;
    for (int64_t j = begin; j < end; j++) {
        for (int64_t f = 0; f < u; f++) {
            subtract_pair(u, host_element(pairs, 2 * f, j * u),
                          host_element(pairs, 2 * f + 1, j * u), host_row(o->m[1], j),
                          host_row(blocks_of(o->m[1], true), j));
        }
    }
}

/* The same for units of one feature. */
static void subtract_products(int64_t count, const double *x, const double *y, double *a, double *m)
{
    for (int64_t j = 0; j < count; j++) {
        a[j] -= x[j] * x[j];
        m[j] -= 2.0 * x[j] * y[j];
    }
}

grail_status host_subtract_pairs(const operation *o)
{
    const matrix pairs = o->m[0];
    const int64_t u = pairs.rows / 2;
    if (u == 1) {
        subtract_products(pairs.columns, host_row(pairs, 0), host_row(pairs, 1), o->m[1].memory,
                          blocks_of(o->m[1], true).memory);
    } else {
        parallel_for(pairs.columns / u, units_grain(u), subtract_units, (void *)(uintptr_t)o);
    }
    return GRAIL_OK;
}
