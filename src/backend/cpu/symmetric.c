/* Symmetric f64 products and inverses: only lower triangles are computed. */
#include "backend/cpu/blas.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/tiles.h"

#include "base/parallel.h"

enum { TILE = 512, SMALL = 64 };

typedef struct product_job {
    tiling tiles;
    int64_t k;
    double alpha;
    const double *a;
    int64_t a_stride;
    const double *b;
    int64_t b_stride;
    double *c;
    int64_t c_stride;
} product_job;

/* C[t] += alpha A^T B */
static void multiply_tile(const product_job *job, tile t)
{
    blas_dgemm(true, false, t.height, t.width, job->k, job->alpha, job->a + t.i0, job->a_stride,
               job->b + t.j0, job->b_stride, 1.0, job->c + t.i0 * job->c_stride + t.j0,
               job->c_stride);
}

/* The lower triangle of a tile on the diagonal, but for whole blocks of at most SMALL, by halves.
 */
static void multiply_diagonal(const product_job *job, int64_t begin, int64_t count)
{
    if (count <= SMALL) {
        multiply_tile(job, (tile){begin, count, begin, count});
        return;
    }
    const int64_t half = count / 2;
    multiply_diagonal(job, begin, half);
    multiply_tile(job, (tile){begin + half, count - half, begin, half});
    multiply_diagonal(job, begin + half, count - half);
}

static void multiply_tiles(int64_t begin, int64_t end, void *context)
{
    const product_job *job = context;
    for (int64_t index = begin; index < end; index++) {
        const tile t = tiling_at(&job->tiles, index);
        if (tile_on_diagonal(&job->tiles, &t)) {
            multiply_diagonal(job, t.i0, t.height);
        } else {
            multiply_tile(job, t);
        }
    }
}

static void multiply(product_job *job, int64_t n)
{
    job->tiles = tiling_new(true, n, n, TILE);
    parallel_for(tiling_count(&job->tiles), 1, multiply_tiles, job);
}

grail_status cpu_add_symmetric(const operation *o)
{
    const matrix *m = o->m;
    product_job job = {
        .k = m[0].rows,
        .alpha = o->with.alpha,
        .a = m[0].memory,
        .a_stride = m[0].stride,
        .b = m[1].memory,
        .b_stride = m[1].stride,
        .c = m[2].memory,
        .c_stride = m[2].stride,
    };
    multiply(&job, m[2].rows);
    return GRAIL_OK;
}

typedef struct triangle_job {
    bool right, transpose;
    int64_t order; /* of L */
    double alpha;
    const double *l;
    double *b;
    int64_t stride;
} triangle_job;

/* Rows of B when L stands on the right, else columns. */
static void multiply_by_triangle(int64_t begin, int64_t end, void *context)
{
    const triangle_job *job = context;
    const int64_t rows = job->right ? end - begin : job->order;
    const int64_t columns = job->right ? job->order : end - begin;
    double *b = job->b + begin * (job->right ? job->stride : 1);
    blas_dtrmm(job->right, job->transpose, rows, columns, job->alpha, job->l, job->stride, b,
               job->stride);
}

static void run_triangle_job(int64_t others, triangle_job *job)
{
    enum { PIECES_PER_THREAD = 2, FEWEST = 64 };
    const int64_t fair = others / (PIECES_PER_THREAD * parallel_threads()) + 1;
    parallel_for(others, fair > FEWEST ? fair : FEWEST, multiply_by_triangle, job);
}

/* The first half of an order, a multiple of the smallest block. */
static int64_t half_of(int64_t n)
{
    return (n / 2 + SMALL - 1) / SMALL * SMALL;
}

/* Row by row: X_ij = -(sum_{j <= k < i} L_ik X_kj) / L_ii. */
static void invert_small_triangle(int64_t n, double *l, int64_t stride)
{
    for (int64_t i = 0; i < n; i++) {
        double sums[SMALL] = {0.0};
        double *row = l + i * stride;
        for (int64_t k = 0; k < i; k++) {
            for (int64_t j = 0; j <= k; j++) {
                sums[j] += row[k] * l[k * stride + j];
            }
        }
        for (int64_t j = 0; j < i; j++) {
            row[j] = -sums[j] / row[i];
        }
        row[i] = 1.0 / row[i];
    }
}

/* L <- L^-1: [L11; L21 L22]^-1 = [X11; -X22 L21 X11, X22]. */
static void invert_triangle(int64_t n, double *l, int64_t stride)
{
    if (n <= SMALL) {
        invert_small_triangle(n, l, stride);
        return;
    }
    const int64_t half = half_of(n);
    double *below = l + half * stride;
    double *corner = below + half;
    invert_triangle(half, l, stride);
    invert_triangle(n - half, corner, stride);
    triangle_job left = {false, false, n - half, -1.0, corner, below, stride};
    run_triangle_job(half, &left);
    triangle_job right = {true, false, half, 1.0, l, below, stride};
    run_triangle_job(n - half, &right);
}

/* Element (i, j) of X^T X reads rows from i on, and is read no more. */
static void square_small_triangle(int64_t n, double *x, int64_t stride)
{
    for (int64_t i = 0; i < n; i++) {
        double sums[SMALL] = {0.0};
        for (int64_t k = i; k < n; k++) {
            const double *row = x + k * stride;
            for (int64_t j = 0; j <= i; j++) {
                sums[j] += row[i] * row[j];
            }
        }
        for (int64_t j = 0; j <= i; j++) {
            x[i * stride + j] = sums[j];
        }
    }
}

/* Lower triangle of X <- X^T X: [X11^T X11 + X21^T X21; X22^T X21, X22^T X22]. */
static void square_triangle(int64_t n, double *x, int64_t stride)
{
    if (n <= SMALL) {
        square_small_triangle(n, x, stride);
        return;
    }
    const int64_t half = half_of(n);
    double *below = x + half * stride;
    double *corner = below + half;
    product_job add = {
        .k = n - half,
        .alpha = 1.0,
        .a = below,
        .a_stride = stride,
        .b = below,
        .b_stride = stride,
        .c = x,
        .c_stride = stride,
    };
    triangle_job turn = {false, true, n - half, 1.0, corner, below, stride};
    square_triangle(half, x, stride);
    multiply(&add, half);
    run_triangle_job(half, &turn);
    square_triangle(n - half, corner, stride);
}

/* (L L^T)^-1 = X^T X with X = L^-1. The strict upper triangle is scratch. */
grail_status cpu_cholesky_invert(const operation *o)
{
    const matrix l = o->m[0];
    invert_triangle(l.rows, l.memory, l.stride);
    square_triangle(l.rows, l.memory, l.stride);
    return host_fill_upper(o);
}
