/* Batch norm, layer norm and unit length against their formulas. */
#include "conformance/conformance.h"

/* Which of the affine parameters a norm has. */
typedef struct affine {
    bool weight, bias, in_place;
} affine;

static const affine affines[] = {{true, true, false},
                                 {true, true, true},
                                 {true, false, false},
                                 {false, true, true},
                                 {false, false, false}};

enum { AFFINE_COUNT = sizeof affines / sizeof affines[0] };

static double affine_of(affine a, double x, const float *weight, const float *bias, int64_t c)
{
    return x * (a.weight ? (double)weight[c] : 1.0) + (a.bias ? (double)bias[c] : 0.0);
}

static void check_batch_norm(backend *b, int64_t rows, int64_t width, double epsilon, affine a)
{
    float *x = normals(rows * width, 1, 3.0);
    float *mean = normals(width, 2, 1.0);
    float *variance = normals(width, 3, 1.0);
    float *weight = normals(width, 4, 1.0);
    float *bias = normals(width, 5, 1.0);
    double *expected = doubles(rows * width, 0.0);
    double *scale = doubles(rows * width, 0.0);
    for (int64_t c = 0; c < width; c++) {
        variance[c] = c == 0 ? 0.0F : variance[c] * variance[c]; /* a channel that never varies */
    }
    for (int64_t i = 0; i < rows * width; i++) {
        const int64_t c = i % width;
        const double deviation = sqrt((double)variance[c] + epsilon);
        expected[i] = affine_of(a, ((double)x[i] - (double)mean[c]) / deviation, weight, bias, c);
        scale[i] = 1.0 + fabs(expected[i]) + fabs((double)mean[c] * (double)weight[c]) / deviation;
    }
    matrix bx = values_of(b, rows, width, x);
    matrix bm = values_of(b, 1, width, mean);
    matrix bv = values_of(b, 1, width, variance);
    matrix bw = values_of(b, 1, width, weight);
    matrix bb = values_of(b, 1, width, bias);
    matrix apart = blank_values(b, rows, width);
    const matrix by = a.in_place ? bx : apart;
    assert_ok(matrix_batch_norm(epsilon, bx, bm, bv, a.weight ? bw : no_matrix,
                                a.bias ? bb : no_matrix, by));
    double *y = results_of(by);
    assert_all_near(b, "batch_norm", rows * width, y, expected, scale, 8.0 * rounding(b));
    free_blocks(x, mean, variance, weight, bias, expected, scale, y);
    free_matrices(&bx, &bm, &bv, &bw, &bb, &apart);
}

BACKEND_TEST(test_batch_norm_uses_the_given_moments)
{
    for (size_t i = 0; i < AFFINE_COUNT; i++) {
        check_batch_norm(b, 0, 5, 1e-5, affines[i]);
        check_batch_norm(b, 1, 1, 1e-5, affines[i]);
        check_batch_norm(b, 37, 67, 1e-5, affines[i]);
        check_batch_norm(b, 3000, 33, 1e-3, affines[i]);
        check_batch_norm(b, 9, 1031, 1e-5, affines[i]);
    }
}

/* With mean 0, variance 1 and no epsilon nothing changes, not by a bit. */
BACKEND_TEST(test_batch_norm_of_standard_moments_is_the_identity)
{
    enum { ROWS = 50, WIDTH = 21, COUNT = ROWS * WIDTH };
    float zeros[WIDTH] = {0.0F};
    float ones[WIDTH];
    float *x = normals(COUNT, 6, 1.0);
    for (int c = 0; c < WIDTH; c++) {
        ones[c] = 1.0F;
    }
    matrix bx = values_of(b, ROWS, WIDTH, x);
    matrix mean = values_of(b, 1, WIDTH, zeros);
    matrix variance = values_of(b, 1, WIDTH, ones);
    matrix by = blank_values(b, ROWS, WIDTH);
    assert_ok(matrix_batch_norm(0.0, bx, mean, variance, variance, mean, by));
    double *y = results_of(by);
    for (int i = 0; i < COUNT; i++) {
        assert_true(y[i] == (double)x[i]);
    }
    free_blocks(x, y);
    free_matrices(&bx, &mean, &variance, &by);
}

static void check_layer_norm(backend *b, int64_t rows, int64_t width, double epsilon, double offset,
                             affine a)
{
    float *x = normals(rows * width, 7, 2.0);
    float *weight = normals(width, 8, 1.0);
    float *bias = normals(width, 9, 1.0);
    double *expected = doubles(rows * width, 0.0);
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0.0;
        double squares = 0.0;
        for (int64_t c = 0; c < width; c++) {
            x[r * width + c] += (float)offset;
            sum += (double)x[r * width + c];
        }
        for (int64_t c = 0; c < width; c++) {
            squares += pow((double)x[r * width + c] - sum / (double)width, 2.0);
        }
        const double deviation = sqrt(squares / (double)width + epsilon);
        for (int64_t c = 0; c < width; c++) {
            const double centred = (double)x[r * width + c] - sum / (double)width;
            expected[r * width + c] = affine_of(a, centred / deviation, weight, bias, c);
        }
    }
    matrix bx = values_of(b, rows, width, x);
    matrix bw = values_of(b, 1, width, weight);
    matrix bb = values_of(b, 1, width, bias);
    matrix apart = blank_values(b, rows, width);
    const matrix by = a.in_place ? bx : apart;
    assert_ok(
        matrix_layer_norm(epsilon, bx, a.weight ? bw : no_matrix, a.bias ? bb : no_matrix, by));
    assert_matrix_near("layer_norm", by, expected, 64.0 * (1.0 + fabs(offset)) * rounding(b));
    free_blocks(x, weight, bias, expected);
    free_matrices(&bx, &bw, &bb, &apart);
}

BACKEND_TEST(test_layer_norm_uses_each_rows_own_moments)
{
    for (size_t i = 0; i < AFFINE_COUNT; i++) {
        check_layer_norm(b, 0, 5, 1e-5, 0.0, affines[i]);
        check_layer_norm(b, 3, 1, 1e-5, 0.0, affines[i]);
        check_layer_norm(b, 37, 67, 1e-6, 0.0, affines[i]);
        check_layer_norm(b, 200, 768, 1e-12, 0.0, affines[i]);
        check_layer_norm(b, 11, 100, 1e-5, 100.0, affines[i]); /* a mean far from zero */
    }
}

static void check_unit_length(backend *b, int64_t rows, int64_t width, bool in_place)
{
    float *x = normals(rows * width, 10, 2.0);
    double *expected = doubles(rows * width, 0.0);
    for (int64_t r = 0; r < rows; r++) {
        double squares = 0.0;
        for (int64_t c = 0; c < width; c++) {
            x[r * width + c] = r == 1 ? 0.0F : x[r * width + c]; /* a row without a direction */
            squares += (double)x[r * width + c] * (double)x[r * width + c];
        }
        for (int64_t c = 0; c < width; c++) {
            expected[r * width + c] = (double)x[r * width + c] / fmax(sqrt(squares), 1e-12);
        }
    }
    matrix bx = values_of(b, rows, width, x);
    matrix apart = blank_values(b, rows, width);
    const matrix by = in_place ? bx : apart;
    assert_ok(matrix_unit_length(bx, by));
    assert_matrix_near("unit_length", by, expected, 4.0 * rounding(b));
    free_blocks(x, expected);
    free_matrices(&bx, &apart);
}

BACKEND_TEST(test_unit_length_keeps_the_direction)
{
    check_unit_length(b, 0, 4, false);
    check_unit_length(b, 3, 1, false);
    check_unit_length(b, 130, 515, false);
    check_unit_length(b, 130, 515, true);
}
