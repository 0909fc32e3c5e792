#include "algebra/products.h"

#include "support/matrices.h"

enum { ROWS = 3, N = 2 * FEATURE_PANEL + 7 };

static void fill(int64_t count, uint64_t seed, double *out)
{
    OWNED(float) *values = NULL;
    assert_ok(memory_new(&values, (size_t)count, sizeof *values));
    support_fill_normal(values, count, seed);
    for (int64_t i = 0; i < count; i++) {
        out[i] = (double)values[i];
    }
}

TEST(forms_run_over_all_panels)
{
    static double a[N * N];
    static double d[ROWS * N];
    double forms[ROWS];
    fill(N * N, 1, a);
    for (int64_t k = 0; k < N * N; k++) {
        a[k] = a[k / N < k % N ? k % N * N + k / N : k];
    }
    fill(ROWS * N, 2, d);
    backend *const backends[] = {on_ref, on_cpu};
    for (int b = 0; b < 2; b++) {
        OWNED(matrix) left = support_matrix(backends[b], N, N, a);
        OWNED(matrix) rows = support_matrix(backends[b], ROWS, N, d);
        assert_ok(quadratic_forms(left, rows, forms));
        for (int64_t i = 0; i < ROWS; i++) {
            double expected = 0.0;
            for (int64_t k = 0; k < N * N; k++) {
                expected += d[i * N + k / N] * a[k] * d[i * N + k % N];
            }
            assert_near(forms[i], expected, 1e-9);
        }
    }
}

TEST(products_of_rows_take_any_stride)
{
    const double a[] = {1, 2, 9, 3, 4, 9};
    const double x[] = {5, 6};
    double out[2];
    OWNED(matrix) m = support_matrix(on_ref, 2, 3, a);
    assert_ok(vector_products(matrix_columns(m, 0, 2), x, out));
    assert_near(out[0], 17.0, 0.0);
    assert_near(out[1], 39.0, 0.0);
    assert_ok(row_products(matrix_columns(m, 0, 2), matrix_columns(m, 1, 2), out));
    assert_near(out[0], 20.0, 0.0);
    assert_near(out[1], 48.0, 0.0);
}

TEST(an_outer_product_leaves_what_lies_above_the_diagonal)
{
    const double a[] = {1, 2, 3, 4};
    const double x[] = {1, 2};
    const double y[] = {10, 20};
    OWNED(matrix) m = support_matrix(on_cpu, 2, 2, a);
    assert_ok(subtract_outer(true, 0.5, x, y, m));
    assert_near(support_element(m, 0, 0), -4.0, 0.0);
    assert_near(support_element(m, 0, 1), 2.0, 0.0);
    assert_near(support_element(m, 1, 0), -7.0, 0.0);
    assert_near(support_element(m, 1, 1), -16.0, 0.0);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
