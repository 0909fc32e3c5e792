/* Cholesky, its solve, and eigenvalues in f64, over the blocked products of BLAS and LAPACK. */
#include "backend/cpu/blas.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes.h"
#include "backend/cpu/tiles.h"

#include "base/memory.h"
#include "base/parallel.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

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

/* L with the inverses of its blocks on the diagonal, and rows that are solved. */
typedef struct triangle_job {
    matrix l, b;
    double *inverses; /* [blocks, SMALL, SMALL], owned */
    double *room;     /* [rows of B, SMALL], owned */
} triangle_job;

enum { SMALL = 64 };

/* inverse[n, n], with zeros above the diagonal, of which row i is -(sum_{k < i} L_ik row k) / L_ii.
 */
static void invert_block(int64_t n, const double *l, int64_t stride, double *inverse)
{
    for (int64_t i = 0; i < n; i++) {
        double *row = inverse + i * n;
        for (int64_t j = 0; j < n; j++) {
            row[j] = 0.0;
        }
        for (int64_t k = 0; k < i; k++) {
            const double factor = l[i * stride + k];
            for (int64_t j = 0; j <= k; j++) {
                row[j] -= factor * inverse[k * n + j];
            }
        }
        for (int64_t j = 0; j < i; j++) {
            row[j] /= l[i * stride + i];
        }
        row[i] = 1.0 / l[i * stride + i];
    }
}

static void invert_blocks(int64_t begin, int64_t end, void *context)
{
    const triangle_job *job = context;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i * SMALL;
        invert_block(smaller(SMALL, job->l.rows - first), host_element(job->l, first, first),
                     job->l.stride, job->inverses + i * SMALL * SMALL);
    }
}

static void triangle_job_fini(triangle_job *job)
{
    memory_free(job->inverses);
    memory_free(job->room);
}

static grail_status triangle_job_init(matrix l, matrix b, triangle_job *job)
{
    enum { BLOCKS_AT_ONCE = 8 };
    const int64_t blocks = (l.rows + SMALL - 1) / SMALL;
    *job = (triangle_job){.l = l, .b = b};
    CHECK(memory_new_unset(&job->inverses, (size_t)blocks * SMALL * SMALL, sizeof(double)));
    CHECK(memory_new_unset(&job->room, (size_t)b.rows * SMALL, sizeof(double)));
    parallel_for(blocks, BLOCKS_AT_ONCE, invert_blocks, job);
    return GRAIL_OK;
}

/* Columns of the part of B and of the triangle at hand. */
typedef struct solved_part {
    int64_t begin, end; /* rows of B */
    int64_t first;      /* column of B, and row and column of L */
} solved_part;

/* B <- B D^-T, or B D^-1, by a block D on the diagonal. */
static void solve_block(const triangle_job *job, bool transpose, solved_part p, int64_t n)
{
    const double *inverse = job->inverses + p.first / SMALL * SMALL * SMALL;
    double *room = job->room + p.begin * SMALL;
    double *b = host_element(job->b, p.begin, p.first);
    for (int64_t i = 0; i < p.end - p.begin; i++) {
        memcpy(room + i * n, b + i * job->b.stride, (size_t)n * sizeof *b);
    }
    blas_dgemm(false, transpose, p.end - p.begin, n, n, 1.0, room, n, inverse, n, 0.0, b,
               job->b.stride);
}

/* B <- B L^-T, or B L^-1, of [L11; L21 L22]: one half, what it takes from the other, that half. The
 * recursion puts nearly all work into large products, at twice the rate of BLIS's own triangles. */
static void solve_part(const triangle_job *job, bool transpose, solved_part p, matrix l)
{
    if (l.rows <= SMALL) {
        solve_block(job, transpose, p, l.rows);
        return;
    }
    const halves h = halves_of(l, SMALL);
    const int64_t rows = p.end - p.begin;
    const solved_part low = {p.begin, p.end, p.first + h.head.rows};
    double *left = host_element(job->b, p.begin, p.first);
    double *right = host_element(job->b, p.begin, low.first);
    if (transpose) {
        solve_part(job, true, p, h.head);
        blas_dgemm(false, true, rows, h.corner.rows, h.head.rows, -1.0, left, job->b.stride,
                   h.below.memory, l.stride, 1.0, right, job->b.stride);
        solve_part(job, true, low, h.corner);
    } else {
        solve_part(job, false, low, h.corner);
        blas_dgemm(false, false, rows, h.head.rows, h.corner.rows, -1.0, right, job->b.stride,
                   h.below.memory, l.stride, 1.0, left, job->b.stride);
        solve_part(job, false, p, h.head);
    }
}

/* B <- B L^-T, or B L^-1 */
static void solve_rows(const triangle_job *job, bool transpose, int64_t begin, int64_t end)
{
    solve_part(job, transpose, (solved_part){begin, end, 0}, job->l);
}

/* Rows that one thread solves at once: enough to pay for ordering L, few enough for all threads to
 * finish together. */
static int64_t solve_grain(int64_t rows)
{
    enum { FEWEST = 128, PIECES_PER_THREAD = 3 };
    const int64_t threads = parallel_threads();
    const int64_t fair = threads == 1 ? rows : rows / (PIECES_PER_THREAD * threads) + 1;
    return fair > FEWEST ? fair : FEWEST;
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

static grail_status solve_triangle(matrix l, matrix b, parallel_body body)
{
    triangle_job job;
    const grail_status status = triangle_job_init(l, b, &job);
    /* BLIS gives a row the same bits whatever rows are solved with it */
    if (status == GRAIL_OK) {
        parallel_for(b.rows, solve_grain(b.rows), body, &job);
    }
    triangle_job_fini(&job);
    return status;
}

grail_status cpu_cholesky_solve(const operation *o)
{
    return solve_triangle(o->m[0], o->m[1], solve_both);
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
 * puts nearly all work into large products. *failing: the first pivot that is not positive, or -1.
 */
static grail_status factor(matrix a, int64_t *failing)
{
    if (a.rows <= SMALL) {
        *failing = cholesky_small(a.rows, a.memory, a.stride);
        return GRAIL_OK;
    }
    const halves h = halves_of(a, SMALL);
    CHECK(factor(h.head, failing));
    if (*failing >= 0) {
        return GRAIL_OK;
    }
    CHECK(solve_triangle(h.head, h.below, solve_forward));
    subtract_square(h.below, h.corner);
    CHECK(factor(h.corner, failing));
    *failing += *failing >= 0 ? h.head.rows : 0;
    return GRAIL_OK;
}

grail_status cpu_cholesky(const operation *o)
{
    return factor(o->m[0], o->with.index);
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
