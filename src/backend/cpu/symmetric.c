/* Symmetric f64 products and inverses: only lower triangles are computed. */
#include "backend/cpu/blas.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/tiles.h"

#include "base/parallel.h"

enum { TILE = 512, SMALL = 64 };

typedef struct product_job {
    tiling tiles;
    double alpha;
    matrix a, b, c;
} product_job;

/* C[t] += alpha A^T B */
static void multiply_tile(const product_job *job, tile t)
{
    blas_dgemm(true, false, t.height, t.width, job->a.rows, job->alpha,
               host_element(job->a, 0, t.i0), job->a.stride, host_element(job->b, 0, t.j0),
               job->b.stride, 1.0, host_element(job->c, t.i0, t.j0), job->c.stride);
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

/* Lower triangle of C += alpha A^T B */
static void multiply(double alpha, matrix a, matrix b, matrix c)
{
    product_job job = {tiling_new(true, c.columns, c.columns, TILE), alpha, a, b, c};
    parallel_for(tiling_count(&job.tiles), 1, multiply_tiles, &job);
}

grail_status cpu_add_symmetric(const operation *o)
{
    multiply(o->with.alpha, o->m[0], o->m[1], o->m[2]);
    return GRAIL_OK;
}

typedef struct triangle_job {
    bool right, transpose;
    double alpha;
    matrix l, b;
} triangle_job;

/* Rows of B when L stands on the right, else columns. */
static void multiply_by_triangle(int64_t begin, int64_t end, void *context)
{
    const triangle_job *job = context;
    const matrix b = job->right ? matrix_rows(job->b, begin, end - begin)
                                : matrix_columns(job->b, begin, end - begin);
    blas_dtrmm(job->right, job->transpose, b.rows, b.columns, job->alpha, job->l.memory,
               job->l.stride, b.memory, b.stride);
}

static void run_triangle_job(triangle_job job)
{
    enum { PIECES_PER_THREAD = 2, FEWEST = 64 };
    const int64_t others = job.right ? job.b.rows : job.b.columns;
    const int64_t fair = others / (PIECES_PER_THREAD * parallel_threads()) + 1;
    parallel_for(others, fair > FEWEST ? fair : FEWEST, multiply_by_triangle, &job);
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
static void invert_triangle(matrix l)
{
    if (l.rows <= SMALL) {
        invert_small_triangle(l.rows, l.memory, l.stride);
        return;
    }
    const halves h = halves_of(l, SMALL);
    invert_triangle(h.head);
    invert_triangle(h.corner);
    run_triangle_job((triangle_job){false, false, -1.0, h.corner, h.below});
    run_triangle_job((triangle_job){true, false, 1.0, h.head, h.below});
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
static void square_triangle(matrix x)
{
    if (x.rows <= SMALL) {
        square_small_triangle(x.rows, x.memory, x.stride);
        return;
    }
    const halves h = halves_of(x, SMALL);
    square_triangle(h.head);
    multiply(1.0, h.below, h.below, h.head);
    run_triangle_job((triangle_job){false, true, 1.0, h.corner, h.below});
    square_triangle(h.corner);
}

/* (L L^T)^-1 = X^T X with X = L^-1. The strict upper triangle is scratch. */
grail_status cpu_cholesky_invert(const operation *o)
{
    invert_triangle(o->m[0]);
    square_triangle(o->m[0]);
    return host_fill_upper(o);
}
