/* The solve of a ridge regression: Cholesky of a positive definite matrix of --width 4096, then
 * --outputs 4096 right-hand sides. --runs 5 --threads N. Two reports, in f64 flops: n^3 / 3 and
 * 2 outputs n^2. */
#include "bench.h"

typedef struct dense_case {
    matrix symmetric; /* [n, n] */
    matrix factor;
    matrix ones;  /* [1, n] */
    matrix right; /* [outputs, n] */
} dense_case;

static void copy_matrix(void *context)
{
    const dense_case *c = context;
    bench_check(matrix_copy(c->symmetric, c->factor));
}

static void factorise(void *context)
{
    const dense_case *c = context;
    int64_t pivot = 0;
    bench_check(matrix_cholesky(c->factor, &pivot));
    if (pivot >= 0) {
        bench_check(error_set(GRAIL_ERROR_NUMERIC, "the matrix is not positive definite"));
    }
}

static void fill_right(void *context)
{
    const dense_case *c = context;
    bench_check(matrix_copy(matrix_repeat_row(c->ones, c->right.rows), c->right));
}

static void solve(void *context)
{
    const dense_case *c = context;
    bench_check(matrix_cholesky_solve(c->factor, c->right));
}

/* X^T X + n I for random X[n, n] */
static matrix ridge_matrix(int64_t n)
{
    matrix gram = bench_matrix(GRAIL_DTYPE_F64, n, n);
    matrix x = bench_normal_matrix(n, n, 1);
    bench_check(matrix_zero(gram));
    bench_check(matrix_gram(x, gram));
    bench_check(matrix_shift_diagonal((double)n, gram));
    matrix_free(&x);
    return gram;
}

/* A row of ones. */
static matrix row_of_ones(int64_t n)
{
    matrix row = bench_matrix(GRAIL_DTYPE_F64, 1, n);
    double *ones = NULL;
    bench_check(memory_new(&ones, (size_t)n, sizeof ones[0]));
    for (int64_t i = 0; i < n; i++) {
        ones[i] = 1.0;
    }
    bench_check(matrix_upload(row, ones));
    memory_free(ones);
    return row;
}

int main(int count, char **arguments)
{
    bench_set_threads(count, arguments);
    const int64_t n = bench_option(count, arguments, "width", 4096);
    const int64_t outputs = bench_option(count, arguments, "outputs", 4096);
    const int64_t runs = bench_option(count, arguments, "runs", 5);
    dense_case c = {.symmetric = ridge_matrix(n),
                    .factor = bench_matrix(GRAIL_DTYPE_F64, n, n),
                    .ones = row_of_ones(n),
                    .right = bench_matrix(GRAIL_DTYPE_F64, outputs, n)};
    json_t *report = json_pack("{s:s, s:I}", "bench", "cholesky", "width", (json_int_t)n);
    const double order = (double)n;
    bench_run(report, runs, order * order * order / 3.0, BENCH_DGEMM, copy_matrix, factorise, &c);
    bench_print(report);
    report = json_pack("{s:s, s:I, s:I}", "bench", "cholesky_solve", "width", (json_int_t)n,
                       "outputs", (json_int_t)outputs);
    bench_run(report, runs, 2.0 * (double)outputs * order * order, BENCH_DGEMM, fill_right, solve,
              &c);
    bench_print(report);
    matrix_free(&c.right);
    matrix_free(&c.ones);
    matrix_free(&c.factor);
    matrix_free(&c.symmetric);
    return 0;
}
