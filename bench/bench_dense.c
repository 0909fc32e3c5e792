/* The solve of a ridge regression: Cholesky of a positive definite matrix of --width 4096, then
 * --outputs 4096 right-hand sides. --runs 5 --threads N. Two reports, in f64 flops: n^3 / 3 and
 * 2 outputs n^2. */
#include "bench.h"

#include <string.h>

typedef struct dense_case {
    int64_t n;
    int64_t outputs;
    const double *matrix; /* [n, n] */
    double *factor;
    double *right; /* [outputs, n] */
} dense_case;

static void copy_matrix(void *context)
{
    const dense_case *c = context;
    memcpy(c->factor, c->matrix, (size_t)(c->n * c->n) * sizeof *c->factor);
}

static void factorise(void *context)
{
    const dense_case *c = context;
    if (backend_cpu.cholesky(c->n, c->factor, c->n) >= 0) {
        bench_check(error_set(GRAIL_ERROR_NUMERIC, "the matrix is not positive definite"));
    }
}

static void fill_right(void *context)
{
    const dense_case *c = context;
    for (int64_t i = 0; i < c->outputs * c->n; i++) {
        c->right[i] = 1.0;
    }
}

static void solve(void *context)
{
    const dense_case *c = context;
    backend_cpu.cholesky_solve(c->outputs, c->n, c->factor, c->n, c->right, c->n);
}

/* X^T X / n + I for random X[n, n] */
static double *ridge_matrix(int64_t n)
{
    double *matrix = NULL;
    bench_check(memory_new(&matrix, (size_t)(n * n), sizeof *matrix));
    float *x = bench_normals(n * n, 1);
    bench_check(backend_cpu.gram(n, n, x, n, matrix));
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            matrix[i * n + j] = matrix[i * n + j] / (double)n + (i == j ? 1.0 : 0.0);
        }
    }
    memory_free(x);
    return matrix;
}

int main(int count, char **arguments)
{
    bench_set_threads(count, arguments);
    const int64_t n = bench_option(count, arguments, "width", 4096);
    const int64_t outputs = bench_option(count, arguments, "outputs", 4096);
    const int64_t runs = bench_option(count, arguments, "runs", 5);
    double *matrix = ridge_matrix(n);
    dense_case c = {.n = n, .outputs = outputs, .matrix = matrix};
    bench_check(memory_new(&c.factor, (size_t)(n * n), sizeof *c.factor));
    bench_check(memory_new(&c.right, (size_t)(outputs * n), sizeof *c.right));
    json_t *report = json_pack("{s:s, s:I}", "bench", "cholesky", "width", (json_int_t)n);
    const double order = (double)n;
    bench_run(report, runs, order * order * order / 3.0, BENCH_DGEMM, copy_matrix, factorise, &c);
    bench_print(report);
    report = json_pack("{s:s, s:I, s:I}", "bench", "cholesky_solve", "width", (json_int_t)n,
                       "outputs", (json_int_t)outputs);
    bench_run(report, runs, 2.0 * (double)outputs * order * order, BENCH_DGEMM, fill_right, solve,
              &c);
    bench_print(report);
    memory_free(c.right);
    memory_free(c.factor);
    memory_free(matrix);
    return 0;
}
