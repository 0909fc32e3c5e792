/* Dense products shared out in tiles of the result, each by BLAS on one thread. BLAS's own threads
 * would wait for each other at spinning barriers after every block, which costs a factor of ten
 * when anything else runs on the machine; tiles are taken as threads become free. */
#include "backend/cpu/blas.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/tiles.h"

#include "base/parallel.h"

#include <string.h>

enum { TILE = 1024 };

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

void cpu_linear(int64_t rows, int64_t in, int64_t out, const void *x, const void *weight,
                const void *bias, void *y)
{
    linear_job job = {tiling_new(false, rows, out, TILE), in, out, x, weight, bias, y};
    parallel_for(tiling_count(&job.tiles), 1, linear_tiles, &job);
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

void cpu_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
              const double *a, int64_t a_stride, const double *b, int64_t b_stride, double beta,
              double *c, int64_t c_stride)
{
    gemm_job job = {.tiles = tiling_new(false, m, n, TILE),
                    .transpose_a = transpose_a,
                    .transpose_b = transpose_b,
                    .k = k,
                    .alpha = alpha,
                    .a = a,
                    .a_stride = a_stride,
                    .b = b,
                    .b_stride = b_stride,
                    .beta = beta,
                    .c = c,
                    .c_stride = c_stride};
    parallel_for(tiling_count(&job.tiles), 1, gemm_tiles, &job);
}
