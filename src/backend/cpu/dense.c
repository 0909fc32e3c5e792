/* Cholesky, its solve, and eigenvalues in f64, over the blocked products of BLAS and LAPACK. */
#include "backend/cpu/blas.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes.h"
#include "backend/cpu/tiles.h"

#include "base/parallel.h"

#include <lapacke.h>
#include <math.h>

LANE_SUM(dot, (int64_t count, const double *a, const double *b), a[i] * b[i])

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
    matrix l, b;
} triangle_job;

/* B <- B L^-T, or B L^-1 */
static void solve_rows(const triangle_job *job, bool transpose, int64_t begin, int64_t end)
{
    blas_dtrsm(transpose, end - begin, job->l.rows, job->l.memory, job->l.stride,
               host_row(job->b, begin), job->b.stride);
}

static void solve_forward(int64_t begin, int64_t end, void *context)
{
    solve_rows(context, true, begin, end);
}

/* X L L^T = B: Y = B L^-T, X = Y L^-1. */
static void solve_both(int64_t begin, int64_t end, void *context)
{
    solve_rows(context, true, begin, end);
    solve_rows(context, false, begin, end);
}

grail_status cpu_cholesky_solve(const operation *o)
{
    triangle_job job = {o->m[0], o->m[1]};
    /* BLIS gives a row the same bits whatever rows are solved with it */
    parallel_for(job.b.rows, solve_grain(job.b.rows), solve_both, &job);
    return GRAIL_OK;
}

typedef struct update_job {
    tiling tiles;
    matrix a, c;
} update_job;

static void update_tiles(int64_t begin, int64_t end, void *context)
{
    const update_job *job = context;
    const matrix a = job->a;
    for (int64_t index = begin; index < end; index++) {
        const tile t = tiling_at(&job->tiles, index);
        double *c = host_element(job->c, t.i0, t.j0);
        if (tile_on_diagonal(&job->tiles, &t)) {
            blas_dsyrk_subtract(t.width, a.columns, host_row(a, t.i0), a.stride, c, job->c.stride);
        } else {
            blas_dgemm(false, true, t.height, t.width, a.columns, -1.0, host_row(a, t.i0), a.stride,
                       host_row(a, t.j0), a.stride, 1.0, c, job->c.stride);
        }
    }
}

/* Lower triangle of C[n, n] -= A[n, k] A^T */
static void subtract_square(matrix a, matrix c)
{
    enum { TILE = 512 };
    update_job job = {tiling_new(true, c.rows, c.rows, TILE), a, c};
    parallel_for(tiling_count(&job.tiles), 1, update_tiles, &job);
}

/* [A11; A21 A22]: A11 = L11 L11^T, L21 = A21 L11^-T, A22 - L21 L21^T = L22 L22^T. The recursion
 * puts nearly all work into large products. */
static int64_t factor(matrix a)
{
    enum { SMALL = 64 };
    if (a.rows <= SMALL) {
        return cholesky_small(a.rows, a.memory, a.stride);
    }
    const halves h = halves_of(a, SMALL);
    const int64_t pivot = factor(h.head);
    if (pivot >= 0) {
        return pivot;
    }
    triangle_job job = {h.head, h.below};
    parallel_for(h.below.rows, solve_grain(h.below.rows), solve_forward, &job);
    subtract_square(h.below, h.corner);
    const int64_t rest = factor(h.corner);
    return rest >= 0 ? h.head.rows + rest : -1;
}

grail_status cpu_cholesky(const operation *o)
{
    *o->with.index = factor(o->m[0]);
    return GRAIL_OK;
}

/* What the system's BLAS, over which LAPACK works, may take for the first product; it may end the
 * program where it is refused that. */
enum { LAPACK_BYTES = 32 << 20 };

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
    if (!memory_has_room(LAPACK_BYTES)) {
        FAIL(GRAIL_ERROR_MEMORY, "out of memory: eigenvalues need %d MiB more", LAPACK_BYTES >> 20);
    }
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
