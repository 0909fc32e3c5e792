/* Dense products shared out in tiles of the result, each by BLAS on one thread. BLAS's own threads
 * would wait for each other at spinning barriers after every block, which costs a factor of ten
 * when anything else runs on the machine; tiles are taken as threads become free. */
#include "backend/cpu/blas.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/tiles.h"
#include "base/clones.h"

#include "base/memory.h"
#include "base/parallel.h"

#include <string.h>

/* Multiplications that take longer than waking a thread, even where others work on the machine. */
enum { WORTH_A_THREAD = 1 << 20 };

enum { TILE = 1024, FEW_ROWS = 8 };

typedef struct linear_job {
    tiling tiles;
    const operation *operation;
} linear_job;

/* The bias goes into Y first and the product is added to it: one pass less over Y. A product of one
 * row would spend its time on ordering the weight (measured, 576 -> 1536: 2.4 GFLOP/s, as a product
 * with a vector 15). */
static void linear_tiles(int64_t begin, int64_t end, void *context)
{
    const linear_job *job = context;
    const matrix *m = job->operation->m;
    const float *bias = m[2].memory;
    const int64_t in = m[0].columns;
    const int64_t out = m[3].columns;
    for (int64_t index = begin; index < end; index++) {
        const tile t = tiling_at(&job->tiles, index);
        float *y = host_element(m[3], t.i0, t.j0);
        for (int64_t row = 0; bias != NULL && row < t.height; row++) {
            memcpy(y + row * out, bias + t.j0, (size_t)t.width * sizeof *y);
        }
        const float beta = bias != NULL ? 1.0F : 0.0F;
        const float *weight = host_row(m[1], t.j0);
        if (m[3].rows == 1) {
            blas_sgemv(t.width, in, weight, in, m[0].memory, beta, y);
        } else {
            blas_sgemm(false, true, t.height, t.width, in, 1.0F, host_row(m[0], t.i0), in, weight,
                       in, beta, y, out);
        }
    }
}

grail_status cpu_linear(const operation *o)
{
    linear_job job = {tiling_new(false, o->m[3].rows, o->m[3].columns, TILE), o};
    parallel_for(tiling_count(&job.tiles), 1, linear_tiles, &job);
    return GRAIL_OK;
}

/* C = op(A) op(B) + beta C of values. */
typedef struct product_job {
    tiling tiles; /* of C */
    const operation *operation;
    int64_t k;
    int64_t parts, part; /* of k: all but the first go into sums */
    float *sums;         /* [parts - 1, m, n] */
} product_job;

static void multiply_parts(int64_t begin, int64_t end, void *context)
{
    const product_job *p = context;
    for (int64_t index = begin; index < end; index++) {
        const tile t = tiling_at(&p->tiles, index / p->parts);
        const int64_t part = index % p->parts;
        const matrix *m = p->operation->m;
        const operation_settings *s = &p->operation->with;
        const int64_t k0 = part * p->part;
        const int64_t count = p->k - k0 < p->part ? p->k - k0 : p->part;
        const int64_t n = m[2].columns;
        float *c = part == 0 ? m[2].memory : p->sums + (part - 1) * matrix_count(m[2]);
        blas_sgemm(s->transpose_a, s->transpose_b, t.height, t.width, count, 1.0F,
                   s->transpose_a ? host_element(m[0], k0, t.i0) : host_element(m[0], t.i0, k0),
                   m[0].columns,
                   s->transpose_b ? host_element(m[1], t.j0, k0) : host_element(m[1], k0, t.j0),
                   m[1].columns, part == 0 ? (float)s->beta : 0.0F, c + t.i0 * n + t.j0, n);
    }
}

CPU_CLONES static void add_sums(int64_t begin, int64_t end, void *context)
{
    const product_job *p = context;
    const int64_t count = p->tiles.m * p->tiles.n;
    float *c = p->operation->m[2].memory;
    for (int64_t part = 0; part < p->parts - 1; part++) {
        for (int64_t i = begin; i < end; i++) {
            c[i] += p->sums[part * count + i];
        }
    }
}

grail_status cpu_product(const operation *o)
{
    enum { GRAIN = 1 << 15 };
    grail_status status = GRAIL_OK;
    const int64_t count = matrix_count(o->m[2]);
    product_job p = {.tiles = tiling_new(false, o->m[2].rows, o->m[2].columns, TILE),
                     .operation = o,
                     .k = o->with.transpose_a ? o->m[0].rows : o->m[0].columns};
    /* Where C has fewer tiles than there are threads, as the gradient of a small weight does, each
     * tile is summed in parts of k, but in none so short that adding it takes longer. */
    enum { LEAST = 2048, STEP = 64 };
    const int64_t tiles = tiling_count(&p.tiles);
    const int64_t wanted = tiles > 0 ? parallel_threads() / tiles : 1;
    const int64_t most = p.k / LEAST;
    const int64_t parts = wanted < most ? wanted : most;
    const int64_t fair = parts > 1 ? (p.k + parts - 1) / parts : p.k;
    p.part = (fair + STEP - 1) / STEP * STEP;
    p.parts = p.k > p.part ? (p.k + p.part - 1) / p.part : 1;
    if (p.parts > 1) {
        TRY(memory_new_unset(&p.sums, (size_t)((p.parts - 1) * count), sizeof *p.sums));
    }
    parallel_for(tiling_count(&p.tiles) * p.parts, 1, multiply_parts, &p);
    parallel_for(p.parts > 1 ? count : 0, GRAIN, add_sums, &p);
out:
    memory_free(p.sums);
    return status;
}

typedef struct gemm_job {
    tiling tiles;
    const operation *operation;
    int64_t k;
} gemm_job;

/* One tile where the work is not worth a thread. */
static tiling tiles_of_product(int64_t m, int64_t n, int64_t k)
{
    const double work = (double)m * (double)n * (double)k;
    return m > 0 && n > 0 && work <= WORTH_A_THREAD ? (tiling){false, m, n, m, n}
                                                    : tiling_new(false, m, n, TILE);
}

static void gemm_tiles(int64_t begin, int64_t end, void *context)
{
    const gemm_job *job = context;
    const matrix *m = job->operation->m;
    const operation_settings *s = &job->operation->with;
    for (int64_t index = begin; index < end; index++) {
        const tile t = tiling_at(&job->tiles, index);
        blas_dgemm(s->transpose_a, s->transpose_b, t.height, t.width, job->k, s->alpha,
                   s->transpose_a ? host_element(m[0], 0, t.i0) : host_row(m[0], t.i0), m[0].stride,
                   s->transpose_b ? host_row(m[1], t.j0) : host_element(m[1], 0, t.j0), m[1].stride,
                   s->beta, host_element(m[2], t.i0, t.j0), m[2].stride);
    }
}

/* c[j] += sum_p f[p] b[p][j] over four rows of B */
CPU_CLONES static void add_four(int64_t count, const double *f, const double *b, int64_t stride,
                                double *c)
{
    const double *b1 = b + stride;
    const double *b2 = b1 + stride;
    const double *b3 = b2 + stride;
    for (int64_t j = 0; j < count; j++) {
        c[j] += (f[0] * b[j] + f[1] * b1[j]) + (f[2] * b2[j] + f[3] * b3[j]);
    }
}

static void add_one(int64_t count, double f, const double *b, double *c)
{
    for (int64_t j = 0; j < count; j++) {
        c[j] += f * b[j];
    }
}

/* alpha op(A)[i, p] */
static double left_factor(const operation *o, int64_t i, int64_t p)
{
    const double *a = o->m[0].memory;
    const int64_t stride = o->m[0].stride;
    return o->with.alpha * (o->with.transpose_a ? a[p * stride + i] : a[i * stride + p]);
}

static void scale_rows(double beta, matrix c)
{
    for (int64_t i = 0; i < c.rows; i++) {
        double *row = host_row(c, i);
        for (int64_t j = 0; j < c.columns; j++) {
            row[j] = beta == 0.0 ? 0.0 : beta * row[j];
        }
    }
}

/* Columns begin .. end - 1 of a few rows of C, with B read once. */
static void few_rows_columns(int64_t begin, int64_t end, void *context)
{
    enum { STEP = 4 };
    const gemm_job *job = context;
    const operation *o = job->operation;
    const int64_t stride = o->m[1].stride;
    const double *b = host_element(o->m[1], 0, begin);
    const matrix part = matrix_columns(o->m[2], begin, end - begin);
    double *c = part.memory;
    int64_t p = 0;
    scale_rows(o->with.beta, part);
    for (; p + STEP <= job->k; p += STEP) {
        for (int64_t i = 0; i < part.rows; i++) {
            const double f[STEP] = {left_factor(o, i, p), left_factor(o, i, p + 1),
                                    left_factor(o, i, p + 2), left_factor(o, i, p + 3)};
            add_four(part.columns, f, b + p * stride, stride, c + i * part.stride);
        }
    }
    for (; p < job->k; p++) {
        for (int64_t i = 0; i < part.rows; i++) {
            add_one(part.columns, left_factor(o, i, p), b + p * stride, c + i * part.stride);
        }
    }
}

grail_status cpu_gemm(const operation *o)
{
    const matrix c = o->m[2];
    const int64_t k = o->with.transpose_a ? o->m[0].rows : o->m[0].columns;
    gemm_job job = {tiles_of_product(c.rows, c.columns, k), o, k};
    if (c.rows <= FEW_ROWS && !o->with.transpose_b) {
        /* For a few rows BLAS spends more on packing B than on the product. Pieces are as wide as
         * the first-level cache holds rows, or wider where there is little to do. */
        enum { COLUMNS = 512 };
        const int64_t least = WORTH_A_THREAD / (job.tiles.m * job.k + 1);
        parallel_for(job.tiles.n, least > COLUMNS ? least : COLUMNS, few_rows_columns, &job);
    } else {
        parallel_for(tiling_count(&job.tiles), 1, gemm_tiles, &job);
    }
    return GRAIL_OK;
}
