/* Cholesky, its solve, and eigenvalues in f64, over the blocked products of BLAS and LAPACK. */
#include "backend/cpu/blas.h"
#include "backend/cpu/clones.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/tiles.h"

#include "base/parallel.h"

#include <lapacke.h>
#include <math.h>

/* sum_p a[p] b[p] in independent parts, which vector registers can hold. */
CPU_CLONES static double dot(int64_t count, const double *a, const double *b)
{
    enum { LANES = 16 };
    double lanes[LANES] = {0.0};
    const int64_t vectors_end = count / LANES * LANES;
    for (int64_t p = 0; p < vectors_end; p += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            lanes[lane] += a[p + lane] * b[p + lane];
        }
    }
    for (int64_t p = vectors_end; p < count; p++) {
        lanes[p - vectors_end] += a[p] * b[p];
    }
    double sum = 0.0;
    for (int lane = 0; lane < LANES; lane++) {
        sum += lanes[lane];
    }
    return sum;
}

/* Row by row, for blocks that fit the first-level cache. The first pivot that is not positive, or
 * -1. */
static int64_t cholesky_small(int64_t n, double *a, int64_t stride)
{
    for (int64_t i = 0; i < n; i++) {
        double *row = a + i * stride;
        for (int64_t j = 0; j < i; j++) {
            const double *above = a + j * stride;
            row[j] = (row[j] - dot(j, row, above)) / above[j];
        }
        const double pivot = row[i] - dot(i, row, row);
        if (!(pivot > 0.0) || !isfinite(pivot)) {
            return i;
        }
        row[i] = sqrt(pivot);
    }
    return -1;
}

/* Rows that one thread solves at once: enough to pay for packing L, few enough for all threads to
 * finish together. */
static int64_t solve_grain(int64_t rows)
{
    enum { FEWEST = 128, PIECES_PER_THREAD = 3 };
    const int64_t threads = parallel_threads();
    const int64_t fair = threads == 1 ? rows : rows / (PIECES_PER_THREAD * threads) + 1;
    return fair > FEWEST ? fair : FEWEST;
}

typedef struct triangle_job {
    int64_t n;
    const double *l;
    int64_t l_stride;
    double *b;
    int64_t b_stride;
} triangle_job;

/* B <- B L^-T */
static void solve_forward(int64_t begin, int64_t end, void *context)
{
    const triangle_job *job = context;
    blas_dtrsm(true, end - begin, job->n, job->l, job->l_stride, job->b + begin * job->b_stride,
               job->b_stride);
}

/* X L L^T = B: Y = B L^-T, X = Y L^-1. */
static void solve_both(int64_t begin, int64_t end, void *context)
{
    const triangle_job *job = context;
    solve_forward(begin, end, context);
    blas_dtrsm(false, end - begin, job->n, job->l, job->l_stride, job->b + begin * job->b_stride,
               job->b_stride);
}

grail_status cpu_cholesky_solve(const operation *o)
{
    const matrix l = o->m[0];
    const matrix b = o->m[1];
    triangle_job job = {l.rows, l.memory, l.stride, b.memory, b.stride};
    parallel_for(b.rows, solve_grain(b.rows), solve_both, &job);
    return GRAIL_OK;
}

typedef struct update_job {
    tiling tiles;
    int64_t k;
    const double *a;
    double *c;
    int64_t stride;
} update_job;

static void update_tiles(int64_t begin, int64_t end, void *context)
{
    const update_job *job = context;
    for (int64_t index = begin; index < end; index++) {
        const tile t = tiling_at(&job->tiles, index);
        const double *left = job->a + t.i0 * job->stride;
        double *c = job->c + t.i0 * job->stride + t.j0;
        if (tile_on_diagonal(&job->tiles, &t)) {
            blas_dsyrk_subtract(t.width, job->k, left, job->stride, c, job->stride);
        } else {
            blas_dgemm(false, true, t.height, t.width, job->k, -1.0, left, job->stride,
                       job->a + t.j0 * job->stride, job->stride, 1.0, c, job->stride);
        }
    }
}

/* Lower triangle of C[n, n] -= A[n, k] A^T, both inside one matrix. */
static void subtract_square(int64_t n, int64_t k, const double *a, double *c, int64_t stride)
{
    enum { TILE = 512 };
    update_job job = {tiling_new(true, n, n, TILE), k, a, c, stride};
    parallel_for(tiling_count(&job.tiles), 1, update_tiles, &job);
}

/* [A11; A21 A22]: A11 = L11 L11^T, L21 = A21 L11^-T, A22 - L21 L21^T = L22 L22^T. The recursion
 * puts nearly all work into large products. */
static int64_t factor(int64_t n, double *a, int64_t stride)
{
    enum { SMALL = 64 };
    if (n <= SMALL) {
        return cholesky_small(n, a, stride);
    }
    const int64_t half = (n / 2 + SMALL - 1) / SMALL * SMALL;
    double *below = a + half * stride;
    const int64_t pivot = factor(half, a, stride);
    if (pivot >= 0) {
        return pivot;
    }
    triangle_job job = {half, a, stride, below, stride};
    parallel_for(n - half, solve_grain(n - half), solve_forward, &job);
    subtract_square(n - half, half, below, below + half, stride);
    const int64_t rest = factor(n - half, below + half, stride);
    return rest >= 0 ? half + rest : -1;
}

grail_status cpu_cholesky(const operation *o)
{
    *o->with.index = factor(o->m[0].rows, o->m[0].memory, o->m[0].stride);
    return GRAIL_OK;
}

/* A row-major lower triangle is a column-major upper one, and LAPACK's eigenvector columns are the
 * rows that are asked for. */
grail_status cpu_eigen(const operation *o)
{
    enum { LARGEST = 32766 }; /* 1 + 6 n + 2 n^2 must fit LAPACK's 32-bit work size */
    grail_status status = GRAIL_OK;
    const int64_t n = o->m[0].rows;
    double *work = NULL;
    int *integer_work = NULL;
    if (n == 0) {
        return GRAIL_OK;
    }
    if (n > LARGEST) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "cannot compute the eigenvalues of a matrix of order %lld: the largest supported "
             "order is %d",
             (long long)n, (int)LARGEST);
    }
    const int order = (int)n;
    const int lwork = 1 + 6 * order + 2 * order * order;
    const int liwork = 3 + 5 * order;
    TRY(memory_new_unset(&work, (size_t)lwork, sizeof *work));
    TRY(memory_new_unset(&integer_work, (size_t)liwork, sizeof *integer_work));
    TRY(blas_start());
    const int info = LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'U', order, o->m[0].memory, order,
                                         o->m[1].memory, work, lwork, integer_work, liwork);
    if (info != 0) {
        FAIL(GRAIL_ERROR_NUMERIC,
             "cannot compute the eigenvalues of a matrix of order %d: dsyevd returned %d", order,
             info);
    }

out:
    memory_free(integer_work);
    memory_free(work);
    return status;
}
