#include "stats/sums.h"

#include "support/support.h"

#include <math.h>

/* Sizes below, at and beyond the tile, one of them a multiple of it. */
static const int64_t sizes[] = {1, 2, 31, 32, 33, 64, 97};

enum { SIZES = sizeof sizes / sizeof sizes[0] };

static double *numbered(int64_t n)
{
    double *a = NULL;
    assert_ok(memory_new(&a, (size_t)(n * n), sizeof *a));
    for (int64_t i = 0; i < n * n; i++) {
        a[i] = (double)i;
    }
    return a;
}

static void filling_the_upper_triangle_mirrors_the_lower(void **state)
{
    (void)state;
    for (int s = 0; s < SIZES; s++) {
        const int64_t n = sizes[s];
        double *a = numbered(n);
        symmetric_fill_upper(n, a);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) {
                const int64_t low = i > j ? i * n + j : j * n + i;
                assert_true(a[i * n + j] == (double)low);
            }
        }
        memory_free(a);
    }
}

static void filling_the_lower_triangle_mirrors_the_upper(void **state)
{
    (void)state;
    for (int s = 0; s < SIZES; s++) {
        const int64_t n = sizes[s];
        double *a = numbered(n);
        symmetric_fill_lower(n, a);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) {
                const int64_t high = i < j ? i * n + j : j * n + i;
                assert_true(a[i * n + j] == (double)high);
            }
        }
        memory_free(a);
    }
}

static void adding_touches_only_the_lower_triangle(void **state)
{
    (void)state;
    double into[] = {1, 2, 3, 4};
    const double a[] = {10, 20, 30, 40};
    symmetric_add_lower(2, into, a);
    const double expected[] = {11, 2, 33, 44};
    assert_memory_equal(into, expected, sizeof expected);
}

static void the_search_finds_nan_and_infinity_in_the_lower_triangle_only(void **state)
{
    (void)state;
    double a[] = {1, NAN, 2, 3};
    assert_int_equal(symmetric_find_non_finite(2, a), -1);
    a[2] = -INFINITY;
    assert_int_equal(symmetric_find_non_finite(2, a), 2);
    assert_int_equal(sums_find_non_finite(4, a), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filling_the_upper_triangle_mirrors_the_lower),
        cmocka_unit_test(filling_the_lower_triangle_mirrors_the_upper),
        cmocka_unit_test(adding_touches_only_the_lower_triangle),
        cmocka_unit_test(the_search_finds_nan_and_infinity_in_the_lower_triangle_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
