/* Gram, cross products and column sums: f64 totals that are added to what is there. */
#include "conformance/conformance.h"

static const double initial = 3.0;
static const double untouched = -7.0;

/* sum_r y[r, i] x[r, j] and, in *size, the sum of the absolute products. */
static double naive_product(int64_t rows, const float *y, int64_t y_stride, int64_t i,
                            const float *x, int64_t x_stride, int64_t j, double *size)
{
    double sum = 0.0;
    *size = 0.0;
    for (int64_t r = 0; r < rows; r++) {
        const double product = (double)y[r * y_stride + i] * (double)x[r * x_stride + j];
        sum += product;
        *size += fabs(product);
    }
    return sum;
}

static void assert_sum(const backend *b, const char *what, int64_t i, int64_t j, double actual,
                       double sum, double size)
{
    /* f32 errors of a panel are bounded by its rows but behave like their root */
    const double allowed = 24.0 * rounding(b) * size + 1e-14 * initial;
    if (!(fabs(actual - initial - sum) <= allowed)) {
        fail_msg("%s %s[%lld, %lld] is %.17g, expected %.17g within %.3g", b->name, what,
                 (long long)i, (long long)j, actual, initial + sum, allowed);
    }
}

/* Checks all entries of small results and every 97th of large ones, where every entry would take
 * the naive loops too long; 97 is prime to the tile sizes, so all places in a tile occur. */
static bool is_checked(int64_t index, int64_t count)
{
    return count <= 40000 || index % 97 == 0;
}

static void check_gram(const backend *b, int64_t rows, int64_t width, int64_t stride)
{
    float *x = normals(rows * stride, 1, 1.0);
    double *g = doubles(width * width, initial);
    for (int64_t i = 0; i < width * width; i++) {
        g[i] = i % width > i / width ? untouched : initial;
    }
    void *bx = elements(b, rows * stride, x);
    assert_ok(b->gram(rows, width, bx, stride, g));
    for (int64_t at = 0; at < width * width; at++) {
        const int64_t i = at / width;
        const int64_t j = at % width;
        if (j > i) {
            assert_true(g[at] == untouched);
        } else if (is_checked(at, width * width)) {
            double size = 0.0;
            const double sum = naive_product(rows, x, stride, i, x, stride, j, &size);
            assert_sum(b, "gram", i, j, g[at], sum, size);
        }
    }
    memory_free(bx);
    memory_free(g);
    memory_free(x);
}

static void test_gram_adds_to_the_lower_triangle_alone(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {
        {0, 5, 5},      {3, 0, 0},      {1, 1, 1},       {1, 7, 9},
        {7, 5, 5},      {13, 31, 40},   {100, 127, 127}, {2049, 3, 3},
        {9001, 17, 20}, {33, 768, 768}, {50, 769, 769},  {61, 1601, 1610},
    };
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            check_gram(b, shapes[i][0], shapes[i][1], shapes[i][2]);
        }
    }
}

static void test_gram_of_many_rows_in_several_tiles(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        check_gram(b, 4099, 781, 781);
    }
}

/* All products are 1.1 * 1.1 or so, the worst case for a running f32 sum, which is off by 1e-6. */
static void test_gram_totals_are_f64(void **state)
{
    (void)state;
    enum { ROWS = 1000000, WIDTH = 3 };
    FOR_EACH_BACKEND(b)
    {
        float *x = normals(ROWS * WIDTH, 2, 1e-3);
        for (int64_t i = 0; i < ROWS * WIDTH; i++) {
            x[i] += 1.1F;
        }
        void *bx = elements(b, ROWS * WIDTH, x);
        double *g = doubles(WIDTH * WIDTH, 0.0);
        assert_ok(b->gram(ROWS, WIDTH, bx, WIDTH, g));
        double size = 0.0;
        const double sum = naive_product(ROWS, x, WIDTH, 2, x, WIDTH, 1, &size);
        assert_near(g[2 * WIDTH + 1] / sum, 1.0, 1e-7);
        memory_free(g);
        memory_free(bx);
        memory_free(x);
    }
}

static void check_cross(const backend *b, int64_t rows, int64_t m, int64_t y_stride, int64_t n,
                        int64_t x_stride)
{
    float *y = normals(rows * y_stride, 3, 1.0);
    float *x = normals(rows * x_stride, 4, 1.0);
    double *c = doubles(m * n, initial);
    void *by = elements(b, rows * y_stride, y);
    void *bx = elements(b, rows * x_stride, x);
    assert_ok(b->cross(rows, m, by, y_stride, n, bx, x_stride, c));
    for (int64_t at = 0; at < m * n; at++) {
        if (is_checked(at, m * n)) {
            double size = 0.0;
            const double sum = naive_product(rows, y, y_stride, at / n, x, x_stride, at % n, &size);
            assert_sum(b, "cross", at / n, at % n, c[at], sum, size);
        }
    }
    void *const owned[] = {y, x, c, by, bx};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

static void test_cross_adds_products_of_columns(void **state)
{
    (void)state;
    static const int64_t shapes[][5] = {
        {0, 2, 2, 3, 3},          {4, 0, 1, 3, 3},        {4, 3, 3, 0, 1},
        {1, 1, 1, 1, 1},          {7, 5, 6, 3, 4},        {4099, 11, 11, 2, 7},
        {100, 31, 31, 127, 130},  {20, 1, 1, 1700, 1700}, {30, 1543, 1550, 2, 2},
        {40, 800, 801, 900, 911},
    };
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            check_cross(b, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], shapes[i][4]);
        }
    }
}

static void check_column_sums(const backend *b, int64_t rows, int64_t width, int64_t stride,
                              bool sums, bool squares)
{
    float *x = normals(rows * stride, 5, 1.0);
    double *sum = doubles(width, initial);
    double *square = doubles(width, initial);
    double *expected_sum = doubles(width, initial);
    double *expected_square = doubles(width, initial);
    for (int64_t i = 0; i < rows * width; i++) {
        const double value = (double)x[i / width * stride + i % width];
        expected_sum[i % width] += sums ? value : 0.0;
        expected_square[i % width] += squares ? value * value : 0.0;
    }
    void *bx = elements(b, rows * stride, x);
    b->column_sums(rows, width, bx, stride, sums ? sum : NULL, squares ? square : NULL);
    assert_all_near(b, "column sums", width, sum, expected_sum, NULL, 1e-11);
    assert_all_near(b, "column squares", width, square, expected_square, NULL, 1e-10);
    void *const owned[] = {x, sum, square, expected_sum, expected_square, bx};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

static void test_column_sums_are_f64_and_optional(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        check_column_sums(b, 0, 3, 3, true, true);
        check_column_sums(b, 1, 1, 1, true, true);
        check_column_sums(b, 1009, 31, 37, true, true);
        check_column_sums(b, 17, 1301, 1301, true, false);
        check_column_sums(b, 17, 1301, 1301, false, true);
        check_column_sums(b, 17, 1301, 1301, false, false);
    }
}

typedef struct sums_case {
    const backend *b;
    int64_t width;
    void *x;
    double *out;
} sums_case;

static grail_status run_gram(void *context)
{
    const sums_case *c = context;
    return c->b->gram(3, c->width, c->x, c->width, c->out);
}

static grail_status run_cross(void *context)
{
    const sums_case *c = context;
    return c->b->cross(3, c->width, c->x, c->width, c->width, c->x, c->width, c->out);
}

static void test_sums_report_lack_of_memory(void **state)
{
    (void)state;
    static const int64_t widths[] = {5, 900};
    FOR_EACH_BACKEND(b)
    {
        for (int i = 0; i < 2; i++) {
            float *x = normals(3 * widths[i], 6, 1.0);
            sums_case c = {b, widths[i], elements(b, 3 * widths[i], x),
                           doubles(widths[i] * widths[i], 0.0)};
            support_fail_each_allocation(run_gram, &c);
            support_fail_each_allocation(run_cross, &c);
            memory_free(c.out);
            memory_free(c.x);
            memory_free(x);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gram_adds_to_the_lower_triangle_alone),
        cmocka_unit_test(test_gram_of_many_rows_in_several_tiles),
        cmocka_unit_test(test_gram_totals_are_f64),
        cmocka_unit_test(test_cross_adds_products_of_columns),
        cmocka_unit_test(test_column_sums_are_f64_and_optional),
        cmocka_unit_test(test_sums_report_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
