/* Gram matrices and cross products from parts of bf16: as near to f64 as those from f32, at any
 * shape. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "conformance/conformance.h"

#include <string.h>

static matrix rows_of(int64_t rows, int64_t columns, const float *x, int64_t stride)
{
    matrix m = host_matrix(GRAIL_DTYPE_F32, x, rows, columns);
    m.stride = stride;
    return m;
}

static operation gram_of(int64_t rows, int64_t n, const float *x, int64_t stride, double *g)
{
    return (operation){.m = {rows_of(rows, n, x, stride), host_matrix(GRAIL_DTYPE_F64, g, n, n)}};
}

static operation cross_of(matrix y, matrix x, double *c)
{
    return (operation){.m = {y, x, host_matrix(GRAIL_DTYPE_F64, c, y.columns, x.columns)}};
}

/* Y^T X of the first m columns of Y and n of X, in f64. */
static double *exact_product(int64_t rows, int64_t m, const float *y, int64_t y_stride, int64_t n,
                             const float *x, int64_t x_stride)
{
    double *left = doubles(rows * m, 0.0);
    double *right = doubles(rows * n, 0.0);
    double *out = doubles(m * n, 0.0);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < m; i++) {
            left[r * m + i] = (double)y[r * y_stride + i];
        }
        for (int64_t j = 0; j < n; j++) {
            right[r * n + j] = (double)x[r * x_stride + j];
        }
    }
    const operation product = {.m = {host_matrix(GRAIL_DTYPE_F64, left, rows, m),
                                     host_matrix(GRAIL_DTYPE_F64, right, rows, n),
                                     host_matrix(GRAIL_DTYPE_F64, out, m, n)},
                               .with = {.transpose_a = true, .alpha = 1.0}};
    assert_ok(cpu_gemm(&product));
    free_blocks(left, right);
    return out;
}

/* The lengths of the first n columns; freed by memory_free. */
static double *lengths(int64_t rows, int64_t n, const float *x, int64_t stride)
{
    double *out = doubles(n, 0.0);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t r = 0; r < rows; r++) {
            out[j] += (double)x[r * stride + j] * (double)x[r * stride + j];
        }
        out[j] = sqrt(out[j]);
    }
    return out;
}

/* The largest |C_ij - exact_ij| / (|y_i| |x_j|), of the lower triangle or of all of C[m, n]. */
static double worst_error(bool lower, int64_t m, int64_t n, const double *c, const double *exact,
                          const double *y_length, const double *x_length)
{
    double worst = 0.0;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < (lower ? i + 1 : n); j++) {
            const double off = fabs(c[i * n + j] - exact[i * n + j]);
            worst = fmax(worst, off / (y_length[i] * x_length[j]));
        }
    }
    return worst;
}

/* Values around a mean: that of zero has products that cancel, and that of 1.5 none. */
static float *values_around(double mean, int64_t count, uint64_t seed)
{
    float *x = normals(count, seed, 1.0);
    for (int64_t i = 0; i < count; i++) {
        x[i] += (float)mean;
    }
    return x;
}

/* A product of parts is off by at most 3 * 2^-16, and what many rows are off by cancels to its
 * root. In a Gram of many rows that is no more than four times the error of f32, most of which is
 * made by sums of positive terms. */
static void assert_as_good(const char *what, bool is_gram, int64_t rows, double split,
                           double single)
{
    const double parts = 3.0 * 0x1p-16 * fmin(1.0, 6.0 / sqrt((double)rows));
    const double allowed = 4.0 * single + (is_gram && rows >= 2048 ? 0.0 : parts);
    if (!(split <= allowed)) {
        fail_msg("%s of %lld rows: error %g, and %g in f32", what, (long long)rows, split, single);
    }
}

static void check_gram(int64_t rows, int64_t width, int64_t stride, double mean)
{
    float *x = values_around(mean, rows * stride, 1);
    double *exact = exact_product(rows, width, x, stride, width, x, stride);
    double *length = lengths(rows, width, x, stride);
    double *split = doubles(width * width, 0.0);
    double *single = doubles(width * width, 0.0);
    const operation in_parts = gram_of(rows, width, x, stride, split);
    const operation in_f32 = gram_of(rows, width, x, stride, single);
    assert_ok(cpu_split_gram(&in_parts));
    assert_ok(cpu_gram(&in_f32));
    assert_as_good("Gram", true, rows,
                   worst_error(true, width, width, split, exact, length, length),
                   worst_error(true, width, width, single, exact, length, length));
    for (int64_t i = 0; i < width; i++) {
        for (int64_t j = i + 1; j < width; j++) {
            assert_true(split[i * width + j] == 0.0); /* nothing above the diagonal */
        }
    }
    free_blocks(x, exact, length, split, single);
}

TEST(a_gram_is_as_near_as_in_f32)
{
    static const int64_t shapes[][3] = {{1, 1, 1},         {3, 7, 9},        {33, 40, 40},
                                        {2048, 96, 96},    {2049, 130, 131}, {5000, 65, 65},
                                        {300, 1025, 1030}, {700, 2100, 2100}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_gram(shapes[i][0], shapes[i][1], shapes[i][2], 0.0);
        check_gram(shapes[i][0], shapes[i][1], shapes[i][2], 1.5);
    }
}

TEST(a_cross_product_is_as_near_as_in_f32)
{
    static const int64_t shapes[][3] = {
        {1, 1, 1}, {5, 3, 11}, {100, 1100, 30}, {2500, 40, 1040}, {4097, 33, 65}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t rows = shapes[i][0];
        const int64_t m = shapes[i][1];
        const int64_t n = shapes[i][2];
        float *y = values_around(0.3, rows * (m + 2), 1);
        float *x = values_around(0.0, rows * (n + 1), 2);
        double *exact = exact_product(rows, m, y, m + 2, n, x, n + 1);
        double *split = doubles(m * n, 0.0);
        double *single = doubles(m * n, 0.0);
        const matrix left = rows_of(rows, m, y, m + 2);
        const matrix right = rows_of(rows, n, x, n + 1);
        const operation in_parts = cross_of(left, right, split);
        const operation in_f32 = cross_of(left, right, single);
        assert_ok(cpu_split_cross(&in_parts));
        assert_ok(cpu_cross(&in_f32));
        double *y_length = lengths(rows, m, y, m + 2);
        double *x_length = lengths(rows, n, x, n + 1);
        assert_as_good("cross", false, rows,
                       worst_error(false, m, n, split, exact, y_length, x_length),
                       worst_error(false, m, n, single, exact, y_length, x_length));
        free_blocks(y, x, exact, split, single, y_length, x_length);
    }
}

TEST(sums_go_on_and_show_what_is_not_finite)
{
    enum { ROWS = 70, WIDTH = 40 };
    float *x = values_around(0.0, ROWS * WIDTH, 1);
    double *once = doubles(WIDTH * WIDTH, 0.0);
    double *twice = doubles(WIDTH * WIDTH, 0.0);
    const operation first = gram_of(ROWS, WIDTH, x, WIDTH, once);
    const operation second = gram_of(ROWS, WIDTH, x, WIDTH, twice);
    const operation nothing = gram_of(0, WIDTH, x, WIDTH, twice);
    assert_ok(cpu_split_gram(&first));
    assert_ok(cpu_split_gram(&second));
    assert_ok(cpu_split_gram(&second));
    for (int64_t i = 0; i < WIDTH * WIDTH; i++) {
        assert_true(twice[i] == 2.0 * once[i]);
    }
    assert_ok(cpu_split_gram(&nothing));
    const float odd[] = {NAN, INFINITY, -INFINITY, 3.4e38F};
    for (int i = 0; i < 4; i++) {
        memset(once, 0, (size_t)(WIDTH * WIDTH) * sizeof once[0]);
        x[7 * WIDTH + 11] = odd[i];
        assert_ok(cpu_split_gram(&first));
        assert_false(isfinite(once[11 * WIDTH + 3]));
        assert_true(isfinite(once[12 * WIDTH + 3]));
    }
    free_blocks(x, once, twice);
}

static grail_status use_split(void *context)
{
    enum { ROWS = 20, WIDTH = 30 };
    double sums[WIDTH * WIDTH] = {0.0};
    const operation gram = gram_of(ROWS, WIDTH, context, WIDTH, sums);
    const operation cross =
        cross_of(rows_of(ROWS, 10, context, WIDTH), rows_of(ROWS, WIDTH, context, WIDTH), sums);
    CHECK(cpu_split_gram(&gram));
    return cpu_split_cross(&cross);
}

TEST(failing_allocations_are_survived)
{
    OWNED(float) *x = values_around(0.0, 600, 1);
    const int64_t before = memory_in_use();
    support_fail_each_allocation(use_split, x);
    assert_int_equal(memory_in_use(), before);
}

int main(void)
{
    if (onednn_bf16_support() == BF16_NONE) {
        print_message("skipped: this processor has no AVX-512\n");
        return TEST_SKIPPED;
    }
    return support_run_tests();
}
