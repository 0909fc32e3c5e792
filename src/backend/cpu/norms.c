/* Norms in f32: RMS, batch, layer, unit length. Means and variances are f64 sums. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/reductions.h"
#include "base/clones.h"
#include "base/memory.h"
#include "base/parallel.h"

#include <math.h>

/* y = weight * ((x - shift) * factor) + bias */
CPU_CLONES static void scale_row(int64_t count, const float *x, float shift, float factor,
                                 const float *weight, const float *bias, float *y)
{
    for (int64_t i = 0; i < count; i++) {
        y[i] = (x[i] - shift) * factor;
    }
    for (int64_t i = 0; weight != NULL && i < count; i++) {
        y[i] *= weight[i];
    }
    for (int64_t i = 0; bias != NULL && i < count; i++) {
        y[i] += bias[i];
    }
}

static void rms_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const int64_t group = o->m[1].columns;
    const int64_t width = o->m[0].columns;
    const float *values = o->m[0].memory;
    float *made = o->m[2].memory;
    for (int64_t i = begin * width; i < end * width; i += group) {
        const double mean = squares_of_row(group, values + i, 0.0) / (double)group;
        const float factor = (float)(1.0 / sqrt(mean + o->with.epsilon));
        scale_row(group, values + i, 0.0F, factor, o->m[1].memory, NULL, made + i);
    }
}

grail_status cpu_rms_norm(const operation *o)
{
    return host_over_rows(o, o->m[0], rms_rows);
}

static void layer_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const int64_t width = o->m[0].columns;
    for (int64_t r = begin; r < end; r++) {
        const float *x = host_row(o->m[0], r);
        const double mean = row_sum(width, x) / (double)width;
        const double variance = squares_of_row(width, x, mean) / (double)width;
        const float factor = (float)(1.0 / sqrt(variance + o->with.epsilon));
        scale_row(width, x, (float)mean, factor, o->m[1].memory, o->m[2].memory,
                  host_row(o->m[3], r));
    }
}

grail_status cpu_layer_norm(const operation *o)
{
    return host_over_rows(o, o->m[0], layer_rows);
}

static void unit_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const int64_t width = o->m[0].columns;
    for (int64_t r = begin; r < end; r++) {
        const float *x = host_row(o->m[0], r);
        const double length = fmax(sqrt(squares_of_row(width, x, 0.0)), 1e-12);
        scale_row(width, x, 0.0F, (float)(1.0 / length), NULL, NULL, host_row(o->m[1], r));
    }
}

grail_status cpu_unit_length(const operation *o)
{
    return host_over_rows(o, o->m[0], unit_rows);
}

/* y = (x - mean) * factor + bias over rows that lie `stride` apart. */
CPU_CLONES static void scale_columns(int64_t rows, int64_t count, int64_t stride, const float *x,
                                     const float *mean, const float *factor, const float *bias,
                                     float *y)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < count; c++) {
            y[r * stride + c] = (x[r * stride + c] - mean[c]) * factor[c] + bias[c];
        }
    }
}

static void batch_rows(int64_t begin, int64_t end, void *context)
{
    enum { COLUMNS = 512 };
    const operation *o = context;
    const int64_t width = o->m[0].columns;
    const float *mean = o->m[1].memory;
    const float *variance = o->m[2].memory;
    const float *weight = o->m[3].memory;
    const float *shift = o->m[4].memory;
    float factor[COLUMNS];
    float bias[COLUMNS];
    for (int64_t c0 = 0; c0 < width; c0 += COLUMNS) {
        const int64_t count = width - c0 < COLUMNS ? width - c0 : COLUMNS;
        for (int64_t c = 0; c < count; c++) {
            const double deviation = sqrt((double)variance[c0 + c] + o->with.epsilon);
            factor[c] = (float)((weight == NULL ? 1.0 : (double)weight[c0 + c]) / deviation);
            bias[c] = shift == NULL ? 0.0F : shift[c0 + c];
        }
        const int64_t offset = begin * width + c0;
        scale_columns(end - begin, count, width, (const float *)o->m[0].memory + offset, mean + c0,
                      factor, bias, (float *)o->m[5].memory + offset);
    }
}

grail_status cpu_batch_norm(const operation *o)
{
    enum { GRAINS = 4 }; /* the factors are computed once per piece */
    parallel_for(o->m[0].rows, GRAINS * host_rows_grain(o->m[0].columns), batch_rows,
                 (void *)(uintptr_t)o);
    return GRAIL_OK;
}

/* -- gradients -----------------------------------------------------------------------------------
 *
 * Sums over a row are f64. Those over rows are f64 too: the rows are cut into parts, each with its
 * own sums, which are then added in order, so the bits do not depend on the threads. */

/* Sums over rows for the gradients of a norm's parameters. */
typedef struct parameter_sums {
    int64_t parts, part_rows;
    int64_t width;
    double *weight, *bias; /* [parts, width], NULL where not wanted */
    float *dweight, *dbias;
} parameter_sums;

static grail_status sums_open(int64_t rows, int64_t width, void *dweight, void *dbias,
                              parameter_sums *sums)
{
    enum { MOST_PARTS = 64 };
    const int64_t grain = host_rows_grain(width);
    const int64_t fair = (rows + MOST_PARTS - 1) / MOST_PARTS;
    const int64_t part_rows = fair > grain ? fair : grain;
    *sums = (parameter_sums){.parts = (rows + part_rows - 1) / part_rows,
                             .part_rows = part_rows,
                             .width = width,
                             .dweight = dweight,
                             .dbias = dbias};
    if (dweight != NULL) {
        CHECK(memory_new(&sums->weight, (size_t)(sums->parts * width), sizeof *sums->weight));
    }
    if (dbias != NULL) {
        CHECK(memory_new(&sums->bias, (size_t)(sums->parts * width), sizeof *sums->bias));
    }
    return GRAIL_OK;
}

static void sums_free(parameter_sums *sums)
{
    memory_free(sums->weight);
    memory_free(sums->bias);
}

/* Row `part` of sums, or NULL. */
static double *sums_of(double *sums, int64_t width, int64_t part)
{
    return sums == NULL ? NULL : sums + part * width;
}

/* total += the sums of all parts */
static void add_parts(const parameter_sums *s, const double *sums, int64_t begin, int64_t end,
                      float *total)
{
    for (int64_t c = begin; c < end; c++) {
        double sum = 0.0;
        for (int64_t part = 0; part < s->parts; part++) {
            sum += sums[part * s->width + c];
        }
        total[c] = (float)((double)total[c] + sum);
    }
}

static void add_columns(int64_t begin, int64_t end, void *context)
{
    const parameter_sums *s = context;
    if (s->weight != NULL) {
        add_parts(s, s->weight, begin, end, s->dweight);
    }
    if (s->bias != NULL) {
        add_parts(s, s->bias, begin, end, s->dbias);
    }
}

/* Computes all parts, then adds their sums to the gradients. */
static void run_parts(parameter_sums *sums, parallel_body body, void *context)
{
    enum { COLUMNS = 512 };
    parallel_for(sums->parts, 1, body, context);
    parallel_for(sums->width, COLUMNS, add_columns, sums);
}

/* The gradient of a row is weight dy factor - (x - shift) share - offset, and it adds
 * dy (x - shift) factor to dweight and dy to dbias. */
typedef struct row_terms {
    double shift, factor, share, offset;
} row_terms;

typedef struct norm_gradient norm_gradient;
typedef row_terms (*terms_function)(const norm_gradient *n, const float *x, const float *dy);

struct norm_gradient {
    terms_function terms;
    int64_t rows, width; /* of what is normalised together */
    double epsilon;
    const float *x, *weight, *dy; /* weight may be NULL */
    float *dx;
    parameter_sums sums;
};

static double weighted_dot(const norm_gradient *n, const float *x, const float *dy)
{
    return n->weight == NULL ? row_dot(n->width, dy, x)
                             : row_dot_weighted(n->width, n->weight, dy, x);
}

static row_terms rms_terms(const norm_gradient *n, const float *x, const float *dy)
{
    const double mean = squares_of_row(n->width, x, 0.0) / (double)n->width;
    const double factor = 1.0 / sqrt(mean + n->epsilon);
    const double product = weighted_dot(n, x, dy) / (double)n->width;
    return (row_terms){.factor = factor, .share = product * factor * factor * factor};
}

static row_terms layer_terms(const norm_gradient *n, const float *x, const float *dy)
{
    const double width = (double)n->width;
    const double mean = row_sum(n->width, x) / width;
    const double variance = squares_of_row(n->width, x, mean) / width;
    const double factor = 1.0 / sqrt(variance + n->epsilon);
    const double total =
        n->weight == NULL ? row_sum(n->width, dy) : row_dot(n->width, n->weight, dy);
    const double product = (weighted_dot(n, x, dy) - mean * total) / width;
    return (row_terms){mean, factor, product * factor * factor * factor, total / width * factor};
}

static row_terms unit_terms(const norm_gradient *n, const float *x, const float *dy)
{
    const double least = n->epsilon;
    const double squares = squares_of_row(n->width, x, 0.0);
    const double length = fmax(sqrt(squares), least);
    const double share = sqrt(squares) > least ? row_dot(n->width, dy, x) / squares : 0.0;
    return (row_terms){.factor = 1.0 / length, .share = share / length};
}

CPU_CLONES static void add_to_weight(int64_t count, const row_terms *t, const float *x,
                                     const float *dy, double *sums)
{
    const double shift = t->shift;
    const double factor = t->factor;
    for (int64_t i = 0; i < count; i++) {
        sums[i] += (double)dy[i] * (((double)x[i] - shift) * factor);
    }
}

/* dx may be dy. */
CPU_CLONES static void gradient_row(int64_t count, const row_terms *t, const float *x,
                                    const float *weight, const float *dy, float *dx)
{
    const float shift = (float)t->shift;
    const float factor = (float)t->factor;
    const float share = (float)t->share;
    const float offset = (float)t->offset;
    if (weight == NULL) {
        for (int64_t i = 0; i < count; i++) {
            dx[i] = dy[i] * factor - (x[i] - shift) * share - offset;
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        dx[i] = weight[i] * dy[i] * factor - (x[i] - shift) * share - offset;
    }
}

static void norm_parts(int64_t begin, int64_t end, void *context)
{
    const norm_gradient *n = context;
    for (int64_t part = begin; part < end; part++) {
        const int64_t first = part * n->sums.part_rows;
        const int64_t last = smaller(first + n->sums.part_rows, n->rows);
        double *dweight = sums_of(n->sums.weight, n->width, part);
        double *dbias = sums_of(n->sums.bias, n->width, part);
        for (int64_t r = first; r < last; r++) {
            const float *x = n->x + r * n->width;
            const float *dy = n->dy + r * n->width;
            const row_terms terms = n->terms(n, x, dy);
            if (dweight != NULL) {
                add_to_weight(n->width, &terms, x, dy, dweight);
            }
            if (dbias != NULL) {
                accumulate_row(n->width, dy, dbias);
            }
            gradient_row(n->width, &terms, x, n->weight, dy, n->dx + r * n->width);
        }
    }
}

/* m: X, the weight or nothing, dY, dX, dweight, dbias. Without parameters there are no sums, and
 * nothing is allocated that could be refused. */
static grail_status run_norm(terms_function terms, int64_t width, double epsilon, const matrix *m)
{
    grail_status status = GRAIL_OK;
    norm_gradient n = {.terms = terms,
                       .rows = width > 0 ? matrix_count(m[0]) / width : 0,
                       .width = width,
                       .epsilon = epsilon,
                       .x = m[0].memory,
                       .weight = m[1].memory,
                       .dy = m[2].memory,
                       .dx = m[3].memory};
    TRY(sums_open(n.rows, n.width, m[4].memory, m[5].memory, &n.sums));
    run_parts(&n.sums, norm_parts, &n);
out:
    sums_free(&n.sums);
    return status;
}

grail_status cpu_rms_norm_gradient(const operation *o)
{
    return run_norm(rms_terms, o->m[1].columns, o->with.epsilon, o->m);
}

grail_status cpu_layer_norm_gradient(const operation *o)
{
    return run_norm(layer_terms, o->m[0].columns, o->with.epsilon, o->m);
}

grail_status cpu_unit_length_gradient(const operation *o)
{
    const matrix m[6] = {o->m[0], no_matrix, o->m[1], o->m[2]};
    return run_norm(unit_terms, m[0].columns, 1e-12, m);
}

typedef struct batch_gradient {
    const operation *operation;
    const float *factor; /* weight / s of each column */
    parameter_sums sums;
} batch_gradient;

static double deviation_of(const operation *o, int64_t c)
{
    return sqrt((double)((const float *)o->m[2].memory)[c] + o->with.epsilon);
}

/* sums[c] += sum over rows of dy (x - mean) */
CPU_CLONES static void add_centred(int64_t rows, int64_t width, const float *x, const float *mean,
                                   const float *dy, double *sums)
{
    for (int64_t i = 0; i < rows * width; i += width) {
        for (int64_t c = 0; c < width; c++) {
            sums[c] += (double)dy[i + c] * ((double)x[i + c] - (double)mean[c]);
        }
    }
}

CPU_CLONES static void multiply_columns(int64_t rows, int64_t width, const float *factor,
                                        const float *dy, float *dx)
{
    for (int64_t i = 0; i < rows * width; i += width) {
        for (int64_t c = 0; c < width; c++) {
            dx[i + c] = dy[i + c] * factor[c];
        }
    }
}

static void batch_part(const batch_gradient *n, int64_t first, int64_t rows, double *dweight,
                       double *dbias)
{
    const matrix *m = n->operation->m;
    const int64_t width = m[0].columns;
    const float *dy = host_row(m[4], first);
    if (dweight != NULL) {
        add_centred(rows, width, host_row(m[0], first), m[1].memory, dy, dweight);
    }
    for (int64_t r = 0; dbias != NULL && r < rows; r++) {
        accumulate_row(width, dy + r * width, dbias);
    }
    if (m[5].memory != NULL) {
        multiply_columns(rows, width, n->factor, dy, host_row(m[5], first));
    }
}

/* A few rows at once, which the cache keeps from one pass over them to the next. */
static void batch_parts(int64_t begin, int64_t end, void *context)
{
    const batch_gradient *n = context;
    const matrix x = n->operation->m[0];
    const int64_t step = host_rows_grain(x.columns);
    for (int64_t part = begin; part < end; part++) {
        double *dweight = sums_of(n->sums.weight, x.columns, part);
        double *dbias = sums_of(n->sums.bias, x.columns, part);
        const int64_t first = part * n->sums.part_rows;
        const int64_t last = smaller(first + n->sums.part_rows, x.rows);
        for (int64_t r = first; r < last; r += step) {
            batch_part(n, r, smaller(step, last - r), dweight, dbias);
        }
        for (int64_t c = 0; dweight != NULL && c < x.columns; c++) {
            dweight[c] /= deviation_of(n->operation, c);
        }
    }
}

grail_status cpu_batch_norm_gradient(const operation *o)
{
    grail_status status = GRAIL_OK;
    const matrix *m = o->m;
    const float *weight = m[3].memory;
    float *factor = NULL;
    batch_gradient n = {.operation = o};
    TRY(memory_new_unset(&factor, (size_t)m[0].columns, sizeof *factor));
    for (int64_t c = 0; c < m[0].columns; c++) {
        factor[c] = (float)((weight == NULL ? 1.0 : (double)weight[c]) / deviation_of(o, c));
    }
    n.factor = factor;
    TRY(sums_open(m[0].rows, m[0].columns, m[6].memory, m[7].memory, &n.sums));
    run_parts(&n.sums, batch_parts, &n);
out:
    sums_free(&n.sums);
    memory_free(factor);
    return status;
}
