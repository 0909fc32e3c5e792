/* Dense products shared out in tiles of the result, each by BLAS on one thread. BLAS's own threads
 * would wait for each other at spinning barriers after every block, which costs a factor of ten
 * when anything else runs on the machine; tiles are taken as threads become free. */
#include "backend/cpu/blas.h"
#include "backend/cpu/clones.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/tiles.h"

#include "base/memory.h"
#include "base/parallel.h"

#include <string.h>

/* Multiplications that take longer than waking a thread, even where others work on the machine. */
enum { WORTH_A_THREAD = 1 << 20 };

enum { TILE = 1024, FEW_ROWS = 8 };

typedef struct linear_job {
    tiling tiles;
    int64_t in;
    int64_t out;
    const float *x;
    const float *weight;
    const float *bias;
    float *y;
} linear_job;

/* The bias goes into Y first and the product is added to it: one pass less over Y. */
static void linear_tiles(int64_t begin, int64_t end, void *context)
{
    const linear_job *job = context;
    for (int64_t index = begin; index < end; index++) {
        const tile t = tiling_at(&job->tiles, index);
        float *y = job->y + t.i0 * job->out + t.j0;
        for (int64_t row = 0; job->bias != NULL && row < t.height; row++) {
            memcpy(y + row * job->out, job->bias + t.j0, (size_t)t.width * sizeof *y);
        }
        blas_sgemm(false, true, t.height, t.width, job->in, 1.0F, job->x + t.i0 * job->in, job->in,
                   job->weight + t.j0 * job->in, job->in, job->bias != NULL ? 1.0F : 0.0F, y,
                   job->out);
    }
}

grail_status cpu_linear(const operation *o)
{
    const matrix x = o->m[0];
    const matrix weight = o->m[1];
    linear_job job = {.tiles = tiling_new(false, x.rows, weight.rows, TILE),
                      .in = x.columns,
                      .out = weight.rows,
                      .x = x.memory,
                      .weight = weight.memory,
                      .bias = o->m[2].memory,
                      .y = o->m[3].memory};
    parallel_for(tiling_count(&job.tiles), 1, linear_tiles, &job);
    return GRAIL_OK;
}

/* C = op(A) op(B) + beta C of values. */
typedef struct product_job {
    tiling tiles; /* of C */
    bool transpose_a, transpose_b;
    int64_t k;
    const float *a;
    const float *b;
    float beta;
    float *c;
    int64_t parts, part; /* of k: all but the first go into sums */
    float *sums;         /* [parts - 1, m, n] */
} product_job;

static void multiply_part(const product_job *p, const tile *t, int64_t part)
{
    const int64_t m = p->tiles.m;
    const int64_t n = p->tiles.n;
    const int64_t k0 = part * p->part;
    const int64_t count = p->k - k0 < p->part ? p->k - k0 : p->part;
    float *c = part == 0 ? p->c : p->sums + (part - 1) * m * n;
    blas_sgemm(p->transpose_a, p->transpose_b, t->height, t->width, count, 1.0F,
               p->transpose_a ? p->a + k0 * m + t->i0 : p->a + t->i0 * p->k + k0,
               p->transpose_a ? m : p->k,
               p->transpose_b ? p->b + t->j0 * p->k + k0 : p->b + k0 * n + t->j0,
               p->transpose_b ? p->k : n, part == 0 ? p->beta : 0.0F, c + t->i0 * n + t->j0, n);
}

static void multiply_parts(int64_t begin, int64_t end, void *context)
{
    const product_job *p = context;
    for (int64_t index = begin; index < end; index++) {
        const tile t = tiling_at(&p->tiles, index / p->parts);
        multiply_part(p, &t, index % p->parts);
    }
}

CPU_CLONES static void add_sums(int64_t begin, int64_t end, void *context)
{
    const product_job *p = context;
    const int64_t count = p->tiles.m * p->tiles.n;
    for (int64_t part = 0; part < p->parts - 1; part++) {
        for (int64_t i = begin; i < end; i++) {
            p->c[i] += p->sums[part * count + i];
        }
    }
}

/* Where C has fewer tiles than there are threads, as the gradient of a small weight does, each tile
 * is summed in parts of k, but in none so short that adding it takes longer. */
static void cut_product(product_job *p)
{
    enum { LEAST = 2048, STEP = 64 };
    const int64_t tiles = tiling_count(&p->tiles);
    const int64_t wanted = tiles > 0 ? parallel_threads() / tiles : 1;
    const int64_t most = p->k / LEAST;
    const int64_t parts = wanted < most ? wanted : most;
    const int64_t fair = parts > 1 ? (p->k + parts - 1) / parts : p->k;
    p->part = (fair + STEP - 1) / STEP * STEP;
    p->parts = p->k > p->part ? (p->k + p->part - 1) / p->part : 1;
}

grail_status cpu_product(const operation *o)
{
    enum { GRAIN = 1 << 15 };
    grail_status status = GRAIL_OK;
    const bool transpose_a = o->with.transpose_a;
    const int64_t count = matrix_count(o->m[2]);
    product_job p = {.tiles = tiling_new(false, o->m[2].rows, o->m[2].columns, TILE),
                     .transpose_a = transpose_a,
                     .transpose_b = o->with.transpose_b,
                     .k = transpose_a ? o->m[0].rows : o->m[0].columns,
                     .a = o->m[0].memory,
                     .b = o->m[1].memory,
                     .beta = (float)o->with.beta,
                     .c = o->m[2].memory};
    cut_product(&p);
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
    bool transpose_a;
    bool transpose_b;
    int64_t k;
    double alpha;
    const double *a;
    int64_t a_stride;
    const double *b;
    int64_t b_stride;
    double beta;
    double *c;
    int64_t c_stride;
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
    for (int64_t index = begin; index < end; index++) {
        const tile t = tiling_at(&job->tiles, index);
        blas_dgemm(job->transpose_a, job->transpose_b, t.height, t.width, job->k, job->alpha,
                   job->a + t.i0 * (job->transpose_a ? 1 : job->a_stride), job->a_stride,
                   job->b + t.j0 * (job->transpose_b ? job->b_stride : 1), job->b_stride, job->beta,
                   job->c + t.i0 * job->c_stride + t.j0, job->c_stride);
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
static double left_factor(const gemm_job *job, int64_t i, int64_t p)
{
    return job->alpha *
           (job->transpose_a ? job->a[p * job->a_stride + i] : job->a[i * job->a_stride + p]);
}

static void scale_rows(const gemm_job *job, int64_t begin, int64_t end)
{
    for (int64_t i = 0; i < job->tiles.m; i++) {
        double *c = job->c + i * job->c_stride;
        for (int64_t j = begin; j < end; j++) {
            c[j] = job->beta == 0.0 ? 0.0 : job->beta * c[j];
        }
    }
}

/* Columns begin .. end - 1 of a few rows of C, with B read once. */
static void few_rows_columns(int64_t begin, int64_t end, void *context)
{
    enum { STEP = 4 };
    const gemm_job *job = context;
    const int64_t count = end - begin;
    const double *b = job->b + begin;
    int64_t p = 0;
    scale_rows(job, begin, end);
    for (; p + STEP <= job->k; p += STEP) {
        for (int64_t i = 0; i < job->tiles.m; i++) {
            const double f[STEP] = {left_factor(job, i, p), left_factor(job, i, p + 1),
                                    left_factor(job, i, p + 2), left_factor(job, i, p + 3)};
            add_four(count, f, b + p * job->b_stride, job->b_stride,
                     job->c + i * job->c_stride + begin);
        }
    }
    for (; p < job->k; p++) {
        for (int64_t i = 0; i < job->tiles.m; i++) {
            add_one(count, left_factor(job, i, p), b + p * job->b_stride,
                    job->c + i * job->c_stride + begin);
        }
    }
}

/* For a few rows BLAS spends more on packing B than on the product. Pieces are as wide as the
 * first-level cache holds rows, or wider where there is little to do. */
static void multiply_few_rows(gemm_job *job)
{
    enum { COLUMNS = 512 };
    const int64_t least = WORTH_A_THREAD / (job->tiles.m * job->k + 1);
    parallel_for(job->tiles.n, least > COLUMNS ? least : COLUMNS, few_rows_columns, job);
}

grail_status cpu_gemm(const operation *o)
{
    const matrix a = o->m[0];
    const matrix b = o->m[1];
    const matrix c = o->m[2];
    const int64_t k = o->with.transpose_a ? a.rows : a.columns;
    gemm_job job = {.tiles = tiles_of_product(c.rows, c.columns, k),
                    .transpose_a = o->with.transpose_a,
                    .transpose_b = o->with.transpose_b,
                    .k = k,
                    .alpha = o->with.alpha,
                    .a = a.memory,
                    .a_stride = a.stride,
                    .b = b.memory,
                    .b_stride = b.stride,
                    .beta = o->with.beta,
                    .c = c.memory,
                    .c_stride = c.stride};
    if (c.rows <= FEW_ROWS && !job.transpose_b) {
        multiply_few_rows(&job);
    } else {
        parallel_for(tiling_count(&job.tiles), 1, gemm_tiles, &job);
    }
    return GRAIL_OK;
}
