/* Algebra that takes a pass over memory. */
#include "backend/host/host.h"

#include "base/clones.h"
#include "base/memory.h"
#include "base/quantile.h"

#include <math.h>

static void add_scaled_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const matrix x = o->m[0];
    const matrix y = o->m[1];
    const double alpha = o->with.alpha;
    for (int64_t r = begin; r < end; r++) {
        double *out = host_row(y, r);
        if (x.type == GRAIL_DTYPE_F32) {
            const float *in = host_row(x, r);
            for (int64_t j = 0; j < y.columns; j++) {
                out[j] += alpha * (double)in[j];
            }
        } else {
            const double *in = host_row(x, r);
            for (int64_t j = 0; j < y.columns; j++) {
                out[j] += alpha * in[j];
            }
        }
    }
}

grail_status host_add_scaled(const operation *o)
{
    return host_over_rows(o, o->m[1], add_scaled_rows);
}

static void add_outer_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const double *x = o->m[0].memory;
    const double *y = o->m[1].memory;
    for (int64_t i = begin; i < end; i++) {
        const double factor = o->with.alpha * x[i];
        const int64_t count = o->with.lower ? i + 1 : o->m[2].columns;
        double *row = host_row(o->m[2], i);
        for (int64_t j = 0; j < count; j++) {
            row[j] += factor * y[j];
        }
    }
}

grail_status host_add_outer(const operation *o)
{
    return host_over_rows(o, o->m[2], add_outer_rows);
}

static double *diagonal_element(matrix a, int64_t i)
{
    return (double *)host_row(a, i) + i;
}

grail_status host_diagonal(const operation *o)
{
    double *d = o->m[1].memory;
    for (int64_t i = 0; i < o->m[0].rows; i++) {
        d[i] = *diagonal_element(o->m[0], i);
    }
    return GRAIL_OK;
}

grail_status host_set_diagonal(const operation *o)
{
    const double *d = o->m[0].memory;
    for (int64_t i = 0; i < o->m[1].rows; i++) {
        *diagonal_element(o->m[1], i) = d[i];
    }
    return GRAIL_OK;
}

grail_status host_shift_diagonal(const operation *o)
{
    for (int64_t i = 0; i < o->m[0].rows; i++) {
        *diagonal_element(o->m[0], i) += o->with.alpha;
    }
    return GRAIL_OK;
}

double host_dot(int64_t count, const double *a, const double *b)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static double dot_f32(int64_t count, const float *a, const float *b)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

static void dot_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    double *out = o->m[2].memory;
    const matrix a = o->m[0];
    const matrix b = o->m[1];
    for (int64_t r = begin; r < end; r++) {
        out[r] = a.type == GRAIL_DTYPE_F32 ? dot_f32(a.columns, host_row(a, r), host_row(b, r))
                                           : host_dot(a.columns, host_row(a, r), host_row(b, r));
    }
}

grail_status host_row_dots(const operation *o)
{
    return host_over_rows(o, o->m[0], dot_rows);
}

static void divide_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const double *divisor = o->m[0].memory;
    for (int64_t r = begin; r < end; r++) {
        double *row = host_row(o->m[1], r);
        for (int64_t j = 0; j < o->m[1].columns; j++) {
            row[j] /= divisor[j];
        }
    }
}

grail_status host_divide_columns(const operation *o)
{
    return host_over_rows(o, o->m[1], divide_rows);
}

CPU_CLONES static void scale_f64(int64_t count, double factor, const double *in, double *out)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = factor * in[i];
    }
}

CPU_CLONES static void scale_f32(int64_t count, double factor, const float *in, float *out)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = (float)(factor * (double)in[i]);
    }
}

static void scale_row(grail_dtype type, int64_t count, double factor, const void *in, void *out)
{
    if (type == GRAIL_DTYPE_F64) {
        scale_f64(count, factor, in, out);
    } else {
        scale_f32(count, factor, in, out);
    }
}

static void scale_some_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const double *factor = o->m[0].memory;
    const matrix y = o->m[2];
    for (int64_t r = begin; r < end; r++) {
        scale_row(y.type, y.columns, factor[r], host_row(o->m[1], r), host_row(y, r));
    }
}

grail_status host_scale_rows(const operation *o)
{
    return host_over_rows(o, o->m[2], scale_some_rows);
}

static void scale_rows_alike(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const matrix y = o->m[1];
    for (int64_t r = begin; r < end; r++) {
        scale_row(y.type, y.columns, o->with.alpha, host_row(o->m[0], r), host_row(y, r));
    }
}

grail_status host_scale(const operation *o)
{
    return host_over_rows(o, o->m[1], scale_rows_alike);
}

grail_status host_add_products(const operation *o)
{
    operation dots = *o;
    const matrix a = o->m[0];
    double *sum = o->m[2].memory;
    double *of_rows = NULL;
    if (!matrix_exists(o->m[1])) {
        for (int64_t i = 0; i < matrix_count(a); i++) {
            *sum += ((const double *)host_row(a, i / a.columns))[i % a.columns];
        }
        return GRAIL_OK;
    }
    CHECK(memory_new_unset(&of_rows, (size_t)o->m[0].rows, sizeof of_rows[0]));
    dots.m[2] = host_matrix(GRAIL_DTYPE_F64, of_rows, 1, o->m[0].rows);
    const grail_status status = host_row_dots(&dots);
    for (int64_t r = 0; r < o->m[0].rows && status == GRAIL_OK; r++) {
        *sum += of_rows[r];
    }
    memory_free(of_rows);
    return status;
}

grail_status host_normalise(const operation *o)
{
    double *x = o->m[0].memory;
    double *norm = o->m[1].memory;
    *norm = sqrt(host_dot(matrix_count(o->m[0]), x, x));
    for (int64_t i = 0; i < matrix_count(o->m[0]); i++) {
        x[i] /= *norm;
    }
    return GRAIL_OK;
}

grail_status host_inverse_roots(const operation *o)
{
    const double *x = o->m[0].memory;
    double *y = o->m[1].memory;
    for (int64_t i = 0; i < matrix_count(o->m[0]); i++) {
        const double square = fmin(fmax(x[i], o->with.alpha), o->with.beta);
        y[i] = square > 0.0 ? 1.0 / sqrt(square) : 0.0;
    }
    return GRAIL_OK;
}

grail_status host_roots(const operation *o)
{
    const double *x = o->m[0].memory;
    double *y = o->m[1].memory;
    for (int64_t i = 0; i < matrix_count(o->m[0]); i++) {
        y[i] = sqrt(x[i] / o->with.alpha + o->with.beta);
    }
    return GRAIL_OK;
}

grail_status host_limit_roots(const operation *o)
{
    const double most = o->with.alpha * *(const double *)o->m[0].memory;
    const double *x = o->m[1].memory;
    double *y = o->m[2].memory;
    for (int64_t i = 0; i < matrix_count(o->m[1]); i++) {
        y[i] = most > 0.0 && x[i] > most ? sqrt(most / x[i]) : 1.0;
    }
    return GRAIL_OK;
}

grail_status host_gap_share(const operation *o)
{
    double *share = o->m[2].memory;
    for (int64_t i = 0; i < o->m[2].columns; i++) {
        share[i] = share_of_gap(*(const double *)o->m[0].memory, *(const double *)o->m[1].memory);
    }
    return GRAIL_OK;
}

grail_status host_median(const operation *o)
{
    return quantile_of(0.5, o->m[0].columns, o->m[0].memory, o->m[1].memory);
}

grail_status host_inverses(const operation *o)
{
    const double *x = o->m[0].memory;
    double *y = o->m[1].memory;
    for (int64_t i = 0; i < matrix_count(o->m[0]); i++) {
        y[i] = x[i] != 0.0 ? 1.0 / x[i] : 0.0;
    }
    return GRAIL_OK;
}

grail_status host_inverse_bounded(const operation *o)
{
    const double *x = o->m[0].memory;
    double *y = o->m[1].memory;
    double median = 0.0;
    CHECK(quantile_of(0.5, matrix_count(o->m[0]), x, &median));
    const double most = median > 0.0 ? o->with.beta * median : (double)INFINITY;
    for (int64_t i = 0; i < matrix_count(o->m[0]); i++) {
        const double bounded = fmin(fmax(x[i], o->with.alpha * median), most);
        y[i] = bounded > 0.0 ? 1.0 / bounded : 0.0;
    }
    return GRAIL_OK;
}

grail_status host_nearest_powers(const operation *o)
{
    double *x = o->m[0].memory;
    for (int64_t i = 0; i < matrix_count(o->m[0]); i++) {
        x[i] = x[i] > 0.0 ? exp2(rint(log2(x[i]))) : x[i];
    }
    return GRAIL_OK;
}

grail_status host_cholesky_multiply(const operation *o)
{
    for (int64_t r = 0; r < o->m[1].rows; r++) {
        /* x <- x L L^T */
        double *x = host_row(o->m[1], r);
        for (int64_t j = 0; j < o->m[0].rows; j++) { /* x_j is not needed once row j is used */
            const double *row = host_row(o->m[0], j);
            const double value = x[j];
            x[j] = 0.0;
            for (int64_t i = 0; i <= j; i++) {
                x[i] += row[i] * value;
            }
        }
        for (int64_t i = o->m[0].rows - 1; i >= 0; i--) {
            x[i] = host_dot(i + 1, host_row(o->m[0], i), x);
        }
    }
    return GRAIL_OK;
}
