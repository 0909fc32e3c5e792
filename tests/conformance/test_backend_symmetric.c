/* Symmetric f64 products and inverses. */
#include "conformance/conformance.h"

#include <float.h>

enum { PADDING = 3 };

/* X^T X / n + I / 10 in both triangles, with `padding` columns of NaN behind. */
static double *positive_definite(int64_t n, int64_t stride, uint64_t seed)
{
    OWNED(double) *x = normal_doubles(n * n, seed);
    double *a = doubles(n * stride, NAN);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = i == j ? 0.1 * (double)n : 0.0;
            for (int64_t p = 0; p < n; p++) {
                sum += x[p * n + i] * x[p * n + j];
            }
            a[i * stride + j] = sum / (double)n;
        }
    }
    return a;
}

/* max |(A X - I)_ij| for the columns j that `step` reaches */
static double inverse_residual(int64_t n, int64_t stride, const double *a, const double *x)
{
    const int64_t step = n > 200 ? 17 : 1;
    double worst = 0.0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j += step) {
            double sum = i == j ? -1.0 : 0.0;
            for (int64_t p = 0; p < n; p++) {
                sum += a[i * stride + p] * x[p * stride + j];
            }
            worst = fmax(worst, fabs(sum));
        }
    }
    return worst;
}

static void assert_symmetric(int64_t n, int64_t stride, const double *a)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) {
            assert_true(a[i * stride + j] == a[j * stride + i]);
        }
    }
}

static void check_inverse(backend *b, int64_t n)
{
    const int64_t stride = n + PADDING;
    int64_t pivot = 0;
    double *a = positive_definite(n, stride, 5);
    matrix padded = matrix_of(b, GRAIL_DTYPE_F64, n, stride, a);
    const matrix l = matrix_columns(padded, 0, n);
    assert_ok(matrix_cholesky(l, &pivot));
    assert_int_equal(pivot, -1);
    assert_ok(matrix_cholesky_invert(l));
    double *inverse = results_of(padded);
    assert_symmetric(n, stride, inverse);
    /* eigenvalues of A lie between 0.1 and about 4 */
    assert_true(inverse_residual(n, stride, a, inverse) <= 100.0 * DBL_EPSILON * (double)n);
    for (int64_t i = 0; i < n * stride; i++) {
        assert_true(i % stride < n || isnan(inverse[i]));
    }
    free_blocks(a, inverse);
    free_matrices(&padded);
}

BACKEND_TEST(test_an_inverse_times_its_matrix_is_the_identity)
{
    static const int64_t orders[] = {0, 1, 2, 63, 64, 65, 130, 401};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        check_inverse(b, orders[i]);
    }
}

/* C += alpha (X^T S)(...): A = X and B = S X with a diagonal S make a symmetric product. */
static void check_add_symmetric(backend *b, int64_t n, int64_t k, double alpha)
{
    const int64_t stride = n + PADDING;
    double *x = normal_doubles(k * stride, 6);
    double *y = copy_of_doubles(k * stride, x);
    double *c = positive_definite(n, stride, 7);
    double *expected = copy_of_doubles(n * stride, c);
    for (int64_t i = 0; i < k * stride; i++) {
        y[i] *= (double)(i / stride % 3) - 1.0;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            for (int64_t p = 0; p < k; p++) {
                expected[i * stride + j] += alpha * x[p * stride + i] * y[p * stride + j];
            }
        }
    }
    matrix bx = matrix_of(b, GRAIL_DTYPE_F64, k, stride, x);
    matrix by = matrix_of(b, GRAIL_DTYPE_F64, k, stride, y);
    matrix bc = matrix_of(b, GRAIL_DTYPE_F64, n, stride, c);
    assert_ok(matrix_add_symmetric(alpha, matrix_columns(bx, 0, n), matrix_columns(by, 0, n),
                                   matrix_columns(bc, 0, n)));
    double *actual = results_of(bc);
    for (int64_t i = 0; i < n; i++) { /* above the diagonal anything may stand */
        for (int64_t j = i + 1; j < n; j++) {
            actual[i * stride + j] = expected[i * stride + j];
        }
    }
    assert_all_near(b, "add_symmetric", n * stride, actual, expected, NULL,
                    16.0 * DBL_EPSILON * (1.0 + (double)k));
    free_blocks(x, y, c, expected, actual);
    free_matrices(&bx, &by, &bc);
}

BACKEND_TEST(test_a_symmetric_product_is_added_to_the_lower_triangle)
{
    static const int64_t shapes[][2] = {{0, 3}, {3, 0}, {1, 1}, {5, 9}, {130, 33}, {545, 7}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_add_symmetric(b, shapes[i][0], shapes[i][1], -0.5);
    }
}
