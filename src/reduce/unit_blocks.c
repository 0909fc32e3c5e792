#include "reduce/unit_blocks.h"

#include "base/memory.h"
#include "base/parallel.h"

#include <math.h>
#include <string.h>

/* Multiplications that are worth a piece of a parallel loop, u^3 for a unit. */
enum { PIECE = 1 << 16 };

static size_t block_size(const unit_blocks *b)
{
    return (size_t)(b->features * b->features);
}

grail_status unit_blocks_init(int64_t units, int64_t features, unit_value kind, double jitter,
                              unit_blocks *out)
{
    const size_t width = (size_t)(units * features);
    *out = (unit_blocks){.features = features, .kind = kind, .jitter = jitter};
    CHECK(memory_new_unset(&out->a, width, (size_t)features * sizeof out->a[0]));
    CHECK(memory_new_unset(&out->m, width, (size_t)features * sizeof out->m[0]));
    return memory_new_unset(&out->scratch, width, (size_t)(features + 1) * sizeof out->scratch[0]);
}

void unit_blocks_fini(unit_blocks *b)
{
    memory_free(b->a);
    memory_free(b->m);
    memory_free(b->scratch);
    *b = (unit_blocks){0};
}

/* blocks[count, u, u] = the diagonal blocks of a symmetric matrix. */
static grail_status read_blocks(matrix of, int64_t count, int64_t u, double *blocks)
{
    grail_status status = GRAIL_OK;
    matrix row = no_matrix;
    if (u == 1) {
        TRY(matrix_new(of.owner, GRAIL_DTYPE_F64, 1, count, &row));
        TRY(matrix_diagonal(of, row));
        TRY(matrix_download(row, blocks));
    }
    for (int64_t j = 0; u > 1 && j < count; j++) {
        const matrix block = matrix_columns(matrix_rows(of, j * u, u), j * u, u);
        TRY(matrix_download(block, blocks + j * u * u));
        for (int64_t i = 0; i < u * u; i++) { /* above the diagonal what stands below it */
            blocks[j * u * u + i] = blocks[j * u * u + (i / u < i % u ? i % u * u + i / u : i)];
        }
    }
out:
    matrix_free(&row);
    return status;
}

grail_status unit_blocks_read(matrix a, matrix m, int64_t count, unit_blocks *b)
{
    CHECK(read_blocks(a, count, b->features, b->a));
    return read_blocks(m, count, b->features, b->m);
}

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

bool unit_blocks_factor(const unit_blocks *b, int64_t unit, double *t)
{
    const int64_t u = b->features;
    if (!cholesky(u, b->jitter, b->a + (size_t)unit * block_size(b), t)) {
        return false;
    }
    invert(u, t);
    for (int64_t i = 0; i < u; i++) {
        memset(t + i * u + i + 1, 0, (size_t)(u - i - 1) * sizeof t[0]);
    }
    return true;
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

/* tr(M A^-1), or sum_j M_jj / L_jj^2; -1 where A is not positive definite. */
static double value_of(const unit_blocks *b, int64_t unit)
{
    const int64_t u = b->features;
    const double *m = b->m + (size_t)unit * block_size(b);
    double *t = b->scratch + unit * (u + 1) * u;
    double value = 0.0;
    if (!cholesky(u, b->jitter, b->a + (size_t)unit * block_size(b), t)) {
        return -1.0;
    }
    if (b->kind == VALUE_EXACT) {
        invert(u, t);
        value = trace_quotient(u, m, t, t + u * u);
    } else {
        for (int64_t i = 0; i < u * u; i += u + 1) {
            value += m[i] / (t[i] * t[i]);
        }
    }
    return value < 0.0 ? 0.0 : value; /* rounding; NaN stays */
}

typedef struct values_job {
    const unit_blocks *blocks;
    double *values;
} values_job;

static void make_values(int64_t begin, int64_t end, void *context)
{
    const values_job *job = context;
    for (int64_t j = begin; j < end; j++) {
        job->values[j] = value_of(job->blocks, j);
    }
}

/* Both kinds of values are one for units of one feature. */
static void divide(int64_t count, double jitter, const double *m, const double *a, double *values)
{
    for (int64_t j = 0; j < count; j++) {
        const double divisor = a[j] + jitter;
        const double value = m[j] / divisor;
        const bool definite = divisor > 0.0 && divisor < (double)INFINITY;
        values[j] = !definite ? -1.0 : value < 0.0 ? 0.0 : value;
    }
}

void unit_blocks_values(const unit_blocks *b, int64_t count, double *values)
{
    const int64_t u = b->features;
    values_job job = {b, values};
    if (u == 1) {
        divide(count, b->jitter, b->m, b->a, values);
    } else {
        parallel_for(count, PIECE / (u * u * u) + 1, make_values, &job);
    }
}

typedef struct subtract_job {
    unit_blocks *blocks;
    const double *pairs;
    int64_t width;
} subtract_job;

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
    const subtract_job *job = context;
    const unit_blocks *b = job->blocks;
    const int64_t u = b->features;
    for (int64_t j = begin; j < end; j++) {
        double *a = b->a + (size_t)j * block_size(b);
        double *m = b->m + (size_t)j * block_size(b);
        for (int64_t f = 0; f < u; f++) {
            const double *x = job->pairs + 2 * f * job->width + j * u;
            subtract_pair(u, x, x + job->width, a, m);
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

void unit_blocks_subtract(int64_t count, const double *pairs, unit_blocks *b)
{
    const int64_t u = b->features;
    subtract_job job = {b, pairs, count * u};
    if (u == 1) {
        subtract_products(count, pairs, pairs + count, b->a, b->m);
    } else {
        parallel_for(count, PIECE / (u * u * u) + 1, subtract_units, &job);
    }
}
