/* f64 products, Cholesky, its solve and eigenvalues, by residuals. */
#include "conformance/conformance.h"

#include <float.h>

static matrix f64_of(backend *b, int64_t rows, int64_t columns, const double *values)
{
    return matrix_of(b, GRAIL_DTYPE_F64, rows, columns, values);
}

typedef struct gemm_shape {
    int64_t m;
    int64_t n;
    int64_t k;
    double alpha;
    double beta;
} gemm_shape;

static void check_gemm(backend *b, bool ta, bool tb, gemm_shape s)
{
    enum { PAD = 3 };
    const int64_t a_stride = (ta ? s.m : s.k) + PAD;
    const int64_t b_stride = (tb ? s.k : s.n) + PAD;
    const int64_t c_stride = s.n + PAD;
    double *x = normal_doubles((ta ? s.k : s.m) * a_stride, 1);
    double *y = normal_doubles((tb ? s.n : s.k) * b_stride, 2);
    double *c = normal_doubles(s.m * c_stride, 3);
    double *expected = copy_of_doubles(s.m * c_stride, c);
    for (int64_t at = 0; at < s.m * s.n; at++) {
        const int64_t i = at / s.n;
        const int64_t j = at % s.n;
        double sum = 0.0;
        for (int64_t p = 0; p < s.k; p++) {
            sum += x[ta ? p * a_stride + i : i * a_stride + p] *
                   y[tb ? j * b_stride + p : p * b_stride + j];
        }
        double *out = &expected[i * c_stride + j];
        *out = s.alpha * sum + (s.beta == 0.0 ? 0.0 : s.beta * *out);
        if (s.beta == 0.0) {
            c[i * c_stride + j] = NAN; /* must not be read */
        }
    }
    matrix bx = f64_of(b, ta ? s.k : s.m, a_stride, x);
    matrix by = f64_of(b, tb ? s.n : s.k, b_stride, y);
    matrix bc = f64_of(b, s.m, c_stride, c);
    assert_ok(matrix_gemm(ta, tb, s.alpha, matrix_columns(bx, 0, ta ? s.m : s.k),
                          matrix_columns(by, 0, tb ? s.k : s.n), s.beta,
                          matrix_columns(bc, 0, s.n)));
    assert_matrix_near("gemm", bc, expected, 8.0 * DBL_EPSILON * (1.0 + (double)s.k));
    free_blocks(x, y, c, expected);
    free_matrices(&bx, &by, &bc);
}

BACKEND_TEST(test_gemm_takes_transposes_strides_and_factors)
{
    static const gemm_shape shapes[] = {
        {0, 3, 4, 1.0, 0.0},     {3, 0, 4, 1.0, 1.0},      {3, 4, 0, 1.0, 0.5},
        {3, 4, 0, 1.0, 0.0},     {1, 1, 1, 2.0, 0.0},      {5, 7, 3, -1.0, 1.0},
        {31, 17, 64, 0.5, -2.0}, {130, 257, 67, 1.0, 0.0}, {1, 1500, 9, 1.0, 1.0},
        {1500, 1, 9, 1.0, 1.0},  {8, 1500, 67, 0.5, 1.0},  {9, 600, 70, 1.0, 0.5},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int flags = 0; flags < 4; flags++) {
            check_gemm(b, (flags & 1) != 0, (flags & 2) != 0, shapes[i]);
        }
    }
}

TEST(test_gemm_takes_a_repeated_row)
{
    enum { ROWS = 9, INNER = 30, COLUMNS = 4 };
    double *x = normal_doubles(INNER, 7);
    double *y = normal_doubles(INNER * COLUMNS, 8);
    double expected[ROWS * COLUMNS];
    for (int at = 0; at < ROWS * COLUMNS; at++) {
        expected[at] = 0.0;
        for (int p = 0; p < INNER; p++) {
            expected[at] += x[p] * y[p * COLUMNS + at % COLUMNS];
        }
    }
    FOR_EACH_BACKEND(b)
    {
        matrix row = f64_of(b, 1, INNER, x);
        matrix by = f64_of(b, INNER, COLUMNS, y);
        matrix c = blank_of(b, GRAIL_DTYPE_F64, ROWS, COLUMNS);
        assert_ok(matrix_gemm(false, false, 1.0, matrix_repeat_row(row, ROWS), by, 0.0, c));
        assert_matrix_near("gemm of a repeated row", c, expected, 1e-13);
        free_matrices(&row, &by, &c);
    }
    free_blocks(x, y);
}

/* X X^T / n + I / 10 in the lower triangle, `outside` above and behind the rows. */
static double *bordered_positive_definite(int64_t n, int64_t stride, uint64_t seed, double outside)
{
    OWNED(double) *x = normal_doubles(n * n, seed);
    double *a = doubles(n * stride, outside);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = i == j ? 0.1 * (double)n : 0.0;
            for (int64_t p = 0; p < n; p++) {
                sum += x[i * n + p] * x[j * n + p];
            }
            a[i * stride + j] = sum / (double)n;
        }
    }
    return a;
}

static double *positive_definite(int64_t n, int64_t stride, uint64_t seed)
{
    return bordered_positive_definite(n, stride, seed, NAN);
}

/* ||A - L L^T||_F / (n eps ||A||_F), over the lower triangles. */
static double factor_residual(int64_t n, int64_t stride, const double *a, const double *l)
{
    double error = 0.0;
    double size = 0.0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = a[i * stride + j];
            size += sum * sum;
            for (int64_t p = 0; p <= j; p++) {
                sum -= l[i * stride + p] * l[j * stride + p];
            }
            error += sum * sum;
        }
    }
    return sqrt(error) / ((double)n * DBL_EPSILON * sqrt(size));
}

static int64_t pivot_of(matrix a)
{
    int64_t pivot = -2;
    assert_ok(matrix_cholesky(a, &pivot));
    return pivot;
}

static void check_cholesky(backend *b, int64_t n, double outside)
{
    const int64_t stride = n + 2;
    double *a = bordered_positive_definite(n, stride, 1, outside);
    OWNED(matrix) bl = f64_of(b, n, stride, a);
    assert_int_equal(pivot_of(matrix_columns(bl, 0, n)), -1);
    double *l = results_of(bl);
    assert_true(factor_residual(n, stride, a, l) < 2.0);
    for (int64_t at = 0; at < n * stride; at++) {
        if (at % stride > at / stride) {
            assert_true(isnan(outside) ? isnan(l[at]) : l[at] == outside);
        }
    }
    free_blocks(l, a);
}

static void check_empty_cholesky(backend *b)
{
    OWNED(matrix) nothing = f64_of(b, 0, 0, NULL);
    assert_int_equal(pivot_of(nothing), -1);
}

BACKEND_TEST(test_cholesky_reproduces_the_matrix_from_its_lower_triangle)
{
    static const int64_t orders[] = {1, 2, 3, 31, 63, 64, 65, 127, 128, 129, 300, 577};
    check_empty_cholesky(b);
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        check_cholesky(b, orders[i], NAN);  /* would spread when read */
        check_cholesky(b, orders[i], -7.0); /* would change when written */
    }
}

static int64_t pivot_after(backend *b, int64_t n, int64_t at, double value)
{
    OWNED(double) *a = positive_definite(n, n, 2);
    a[at * n + at] = value;
    OWNED(matrix) ba = f64_of(b, n, n, a);
    return pivot_of(ba);
}

BACKEND_TEST(test_cholesky_names_the_pivot_that_fails)
{
    static const int64_t places[] = {0, 1, 63, 64, 150, 299};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        assert_int_equal(pivot_after(b, 300, places[i], -1.0), places[i]);
        assert_int_equal(pivot_after(b, 300, places[i], 0.0), places[i]);
        assert_int_equal(pivot_after(b, 300, places[i], NAN), places[i]);
        assert_int_equal(pivot_after(b, 300, places[i], INFINITY), places[i]);
    }
}

/* B - X L L^T, in place of B. */
static void subtract_product(int64_t rows, int64_t n, const double *l, int64_t stride,
                             const double *x, int64_t x_stride, double *right)
{
    double *y = doubles(n, 0.0);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < n; j++) { /* y = L^T x */
            y[j] = 0.0;
            for (int64_t p = j; p < n; p++) {
                y[j] += l[p * stride + j] * x[r * x_stride + p];
            }
        }
        for (int64_t j = 0; j < n; j++) {
            for (int64_t p = 0; p <= j; p++) {
                right[r * x_stride + j] -= l[j * stride + p] * y[p];
            }
        }
    }
    memory_free(y);
}

static void check_solve(backend *b, int64_t rows, int64_t n)
{
    const int64_t stride = n + 1;
    const int64_t b_stride = n + 3;
    double *a = positive_definite(n, stride, 3);
    double *right = normal_doubles(rows * b_stride, 4);
    matrix bl = f64_of(b, n, stride, a);
    matrix bx = f64_of(b, rows, b_stride, right);
    const matrix square = matrix_columns(bl, 0, n);
    assert_int_equal(pivot_of(square), -1);
    assert_ok(matrix_cholesky_solve(square, matrix_columns(bx, 0, n)));
    double *l = results_of(bl);
    double *x = results_of(bx);
    for (int64_t i = 0; i < rows * b_stride; i++) {
        if (i % b_stride >= n) {
            assert_true(x[i] == right[i]);
            right[i] = 0.0;
        }
    }
    const double size = norm_of(rows * b_stride, x);
    subtract_product(rows, n, l, stride, x, b_stride, right);
    const double allowed = 10.0 * DBL_EPSILON * (double)(n + 1) * (size + 1.0);
    assert_true(norm_of(rows * b_stride, right) <= allowed);
    free_blocks(a, right, l, x);
    free_matrices(&bl, &bx);
}

BACKEND_TEST(test_cholesky_solve_leaves_no_residual)
{
    static const int64_t shapes[][2] = {{0, 5},    {1, 1},    {1, 40},  {3, 129},
                                        {131, 64}, {300, 65}, {70, 300}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_solve(b, shapes[i][0], shapes[i][1]);
    }
}

/* Subtracts X A, then solves by L, some rows at a time. */
static double *rows_by_pieces(matrix x, matrix a, matrix l, const double *right, int64_t piece)
{
    OWNED(matrix) y = f64_of(x.owner, x.rows, x.columns, right);
    for (int64_t begin = 0; begin < x.rows; begin += piece) {
        const int64_t count = begin + piece < x.rows ? piece : x.rows - begin;
        const matrix rows = matrix_rows(y, begin, count);
        assert_ok(matrix_gemm(false, false, -1.0, matrix_rows(x, begin, count), a, 1.0, rows));
        assert_ok(matrix_cholesky_solve(l, rows));
    }
    double *found = results_of(y);
    return found;
}

/* Ranks, which have some rows each, and one alone, which has all, find the same on the host. */
BACKEND_TEST(test_rows_do_not_depend_on_those_beside_them)
{
    enum { ROWS = 700, N = 300 };
    if (!backend_is_host(b)) {
        return;
    }
    double *definite = positive_definite(N, N, 3);
    double *values = normal_doubles(ROWS * N, 4);
    double *right = normal_doubles(ROWS * N, 5);
    double *square = normal_doubles(N * N, 6);
    matrix a = f64_of(b, N, N, square);
    matrix l = f64_of(b, N, N, definite);
    OWNED(matrix) x = f64_of(b, ROWS, N, values);
    assert_int_equal(pivot_of(l), -1);
    double *all = rows_by_pieces(x, a, l, right, ROWS);
    static const int64_t pieces[] = {37, 128, 512};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        OWNED(double) *found = rows_by_pieces(x, a, l, right, pieces[i]);
        assert_memory_equal(found, all, ROWS * N * sizeof all[0]);
    }
    assert_true(isfinite(all[0]));
    free_blocks(definite, values, right, all);
    memory_free(square);
    free_matrices(&a, &l);
}

/* max |V A V^T - diag(values)| and max |V V^T - I|, for the symmetric A of a lower triangle. */
static void eigen_errors(int64_t n, const double *a, const double *v, const double *values,
                         double *residual, double *orthogonality)
{
    OWNED(double) *av = doubles(n, 0.0);
    *residual = 0.0;
    *orthogonality = 0.0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            av[j] = 0.0;
            for (int64_t p = 0; p < n; p++) {
                av[j] += a[j >= p ? j * n + p : p * n + j] * v[i * n + p];
            }
            *residual = fmax(*residual, fabs(av[j] - values[i] * v[i * n + j]));
        }
        for (int64_t j = 0; j < n; j++) {
            double dot = i == j ? -1.0 : 0.0;
            for (int64_t p = 0; p < n; p++) {
                dot += v[i * n + p] * v[j * n + p];
            }
            *orthogonality = fmax(*orthogonality, fabs(dot));
        }
    }
}

static void check_eigen(backend *b, int64_t n, double *a)
{
    double residual = 0.0;
    double orthogonality = 0.0;
    matrix bv = f64_of(b, n, n, a);
    matrix bvalues = blank_of(b, GRAIL_DTYPE_F64, 1, n);
    assert_ok(matrix_eigen(bv, bvalues));
    double *v = results_of(bv);
    double *values = results_of(bvalues);
    eigen_errors(n, a, v, values, &residual, &orthogonality);
    assert_true(residual <= 50.0 * DBL_EPSILON * (double)n * (1.0 + fabs(values[n - 1])));
    assert_true(orthogonality <= 50.0 * DBL_EPSILON * (double)n);
    for (int64_t i = 1; i < n; i++) {
        assert_true(values[i - 1] <= values[i]);
    }
    free_blocks(values, v, a);
    free_matrices(&bv, &bvalues);
}

static void check_empty_eigen(backend *b)
{
    matrix nothing = f64_of(b, 0, 0, NULL);
    matrix values = f64_of(b, 1, 0, NULL);
    assert_ok(matrix_eigen(nothing, values));
    free_matrices(&nothing, &values);
}

BACKEND_TEST(test_eigen_diagonalises_with_vectors_in_rows)
{
    check_empty_eigen(b);
    check_eigen(b, 1, positive_definite(1, 1, 5));
    check_eigen(b, 2, positive_definite(2, 2, 5));
    check_eigen(b, 37, positive_definite(37, 37, 5)); /* NaN above must not be read */
    check_eigen(b, 100, positive_definite(100, 100, 6));
    check_eigen(b, 20, doubles(400, 1.0)); /* rank 1 */
    check_eigen(b, 9, doubles(81, 0.0));
}

typedef struct eigen_case {
    matrix a, values;
} eigen_case;

static grail_status run_eigen(void *context)
{
    const eigen_case *c = context;
    return matrix_eigen(c->a, c->values);
}

BACKEND_TEST(test_eigen_reports_lack_of_memory)
{
    static const double diagonal[] = {1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 3.0};
    eigen_case c = {f64_of(b, 3, 3, diagonal), blank_of(b, GRAIL_DTYPE_F64, 1, 3)};
    support_fail_each_allocation(run_eigen, &c);
    free_matrices(&c.a, &c.values);
}
