/* f64 products, Cholesky, its solve and eigenvalues, by residuals. */
#include "conformance/conformance.h"

#include <float.h>
#include <string.h>

static double *normal_doubles(int64_t count, uint64_t seed)
{
    float *values = normals(count, seed, 1.0);
    double *out = doubles(count, 0.0);
    for (int64_t i = 0; i < count; i++) {
        out[i] = (double)values[i];
    }
    memory_free(values);
    return out;
}

typedef struct gemm_shape {
    int64_t m;
    int64_t n;
    int64_t k;
    double alpha;
    double beta;
} gemm_shape;

static void check_gemm(const backend *b, bool ta, bool tb, gemm_shape s)
{
    enum { PAD = 3 };
    const int64_t a_stride = (ta ? s.m : s.k) + PAD;
    const int64_t b_stride = (tb ? s.k : s.n) + PAD;
    const int64_t c_stride = s.n + PAD;
    double *x = normal_doubles((ta ? s.k : s.m) * a_stride, 1);
    double *y = normal_doubles((tb ? s.n : s.k) * b_stride, 2);
    double *c = normal_doubles(s.m * c_stride, 3);
    double *expected = doubles(s.m * c_stride, 0.0);
    memcpy(expected, c, (size_t)(s.m * c_stride) * sizeof *c);
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
    b->gemm(ta, tb, s.m, s.n, s.k, s.alpha, x, a_stride, y, b_stride, s.beta, c, c_stride);
    assert_all_near(b, "gemm", s.m * c_stride, c, expected, NULL,
                    8.0 * DBL_EPSILON * (1.0 + (double)s.k));
    void *const owned[] = {x, y, c, expected};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

static void test_gemm_takes_transposes_strides_and_factors(void **state)
{
    (void)state;
    static const gemm_shape shapes[] = {
        {0, 3, 4, 1.0, 0.0},     {3, 0, 4, 1.0, 1.0},      {3, 4, 0, 1.0, 0.5},
        {3, 4, 0, 1.0, 0.0},     {1, 1, 1, 2.0, 0.0},      {5, 7, 3, -1.0, 1.0},
        {31, 17, 64, 0.5, -2.0}, {130, 257, 67, 1.0, 0.0}, {1, 1500, 9, 1.0, 1.0},
        {1500, 1, 9, 1.0, 1.0},
    };
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            for (int flags = 0; flags < 4; flags++) {
                check_gemm(b, (flags & 1) != 0, (flags & 2) != 0, shapes[i]);
            }
        }
    }
}

/* X X^T / n + I / 10 in the lower triangle, `outside` above and behind the rows. */
static double *bordered_positive_definite(int64_t n, int64_t stride, uint64_t seed, double outside)
{
    double *x = normal_doubles(n * n, seed);
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
    memory_free(x);
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

static void check_cholesky(const backend *b, int64_t n, double outside)
{
    const int64_t stride = n + 2;
    double *a = bordered_positive_definite(n, stride, 1, outside);
    double *l = doubles(n * stride, 0.0);
    memcpy(l, a, (size_t)(n * stride) * sizeof *a);
    assert_int_equal(b->cholesky(n, l, stride), -1);
    assert_true(factor_residual(n, stride, a, l) < 2.0);
    for (int64_t at = 0; at < n * stride; at++) {
        if (at % stride > at / stride) {
            assert_true(isnan(outside) ? isnan(l[at]) : l[at] == outside);
        }
    }
    memory_free(l);
    memory_free(a);
}

static void test_cholesky_reproduces_the_matrix_from_its_lower_triangle(void **state)
{
    (void)state;
    static const int64_t orders[] = {1, 2, 3, 31, 63, 64, 65, 127, 128, 129, 300, 577};
    FOR_EACH_BACKEND(b)
    {
        assert_int_equal(b->cholesky(0, NULL, 0), -1);
        for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
            check_cholesky(b, orders[i], NAN);  /* would spread when read */
            check_cholesky(b, orders[i], -7.0); /* would change when written */
        }
    }
}

static pivot_index pivot_after(const backend *b, int64_t n, int64_t at, double value)
{
    double *a = positive_definite(n, n, 2);
    a[at * n + at] = value;
    const pivot_index pivot = b->cholesky(n, a, n);
    memory_free(a);
    return pivot;
}

static void test_cholesky_names_the_pivot_that_fails(void **state)
{
    (void)state;
    static const int64_t places[] = {0, 1, 63, 64, 150, 299};
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            assert_int_equal(pivot_after(b, 300, places[i], -1.0), places[i]);
            assert_int_equal(pivot_after(b, 300, places[i], 0.0), places[i]);
            assert_int_equal(pivot_after(b, 300, places[i], NAN), places[i]);
            assert_int_equal(pivot_after(b, 300, places[i], INFINITY), places[i]);
        }
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

static void check_solve(const backend *b, int64_t rows, int64_t n)
{
    const int64_t stride = n + 1;
    const int64_t b_stride = n + 3;
    double *l = positive_definite(n, stride, 3);
    assert_int_equal(b->cholesky(n, l, stride), -1);
    double *right = normal_doubles(rows * b_stride, 4);
    double *x = doubles(rows * b_stride, 0.0);
    memcpy(x, right, (size_t)(rows * b_stride) * sizeof *x);
    b->cholesky_solve(rows, n, l, stride, x, b_stride);
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
    void *const owned[] = {l, right, x};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

static void test_cholesky_solve_leaves_no_residual(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{0, 5},    {1, 1},    {1, 40},  {3, 129},
                                        {131, 64}, {300, 65}, {70, 300}};
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            check_solve(b, shapes[i][0], shapes[i][1]);
        }
    }
}

/* max |V A V^T - diag(values)| and max |V V^T - I|, for the symmetric A of a lower triangle. */
static void eigen_errors(int64_t n, const double *a, const double *v, const double *values,
                         double *residual, double *orthogonality)
{
    double *av = doubles(n, 0.0);
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
    memory_free(av);
}

static void check_eigen(const backend *b, int64_t n, double *a)
{
    double *v = doubles(n * n, 0.0);
    double *values = doubles(n, NAN);
    double residual = 0.0;
    double orthogonality = 0.0;
    memcpy(v, a, (size_t)(n * n) * sizeof *a);
    assert_ok(b->eigen(n, v, values));
    eigen_errors(n, a, v, values, &residual, &orthogonality);
    assert_true(residual <= 50.0 * DBL_EPSILON * (double)n * (1.0 + fabs(values[n - 1])));
    assert_true(orthogonality <= 50.0 * DBL_EPSILON * (double)n);
    for (int64_t i = 1; i < n; i++) {
        assert_true(values[i - 1] <= values[i]);
    }
    memory_free(values);
    memory_free(v);
    memory_free(a);
}

static void test_eigen_diagonalises_with_vectors_in_rows(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        assert_ok(b->eigen(0, NULL, NULL));
        check_eigen(b, 1, positive_definite(1, 1, 5));
        check_eigen(b, 2, positive_definite(2, 2, 5));
        check_eigen(b, 37, positive_definite(37, 37, 5)); /* NaN above must not be read */
        check_eigen(b, 100, positive_definite(100, 100, 6));
        check_eigen(b, 20, doubles(400, 1.0)); /* rank 1 */
        check_eigen(b, 9, doubles(81, 0.0));
    }
}

typedef struct eigen_case {
    const backend *b;
    double a[9];
    double values[3];
} eigen_case;

static grail_status run_eigen(void *context)
{
    eigen_case *c = context;
    return c->b->eigen(3, c->a, c->values);
}

static void test_eigen_reports_lack_of_memory(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        eigen_case c = {.b = b, .a = {1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 3.0}};
        support_fail_each_allocation(run_eigen, &c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm_takes_transposes_strides_and_factors),
        cmocka_unit_test(test_cholesky_reproduces_the_matrix_from_its_lower_triangle),
        cmocka_unit_test(test_cholesky_names_the_pivot_that_fails),
        cmocka_unit_test(test_cholesky_solve_leaves_no_residual),
        cmocka_unit_test(test_eigen_diagonalises_with_vectors_in_rows),
        cmocka_unit_test(test_eigen_reports_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
