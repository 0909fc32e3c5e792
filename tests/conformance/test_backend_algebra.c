/* f64 algebra that takes a pass over memory, and products with a Cholesky factor. */
#include "conformance/conformance.h"

#include <float.h>

/* Elements behind the columns of a strided matrix. */
static const int64_t paddings[] = {0, 3};

enum { PADDINGS = sizeof paddings / sizeof paddings[0] };

static matrix f64_of(backend *b, int64_t rows, int64_t columns, const double *values)
{
    return matrix_of(b, GRAIL_DTYPE_F64, rows, columns, values);
}

static const int64_t shapes[][2] = {{0, 3}, {3, 0}, {1, 1}, {1, 9}, {7, 1}, {13, 31}, {300, 400}};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Runs a check for all shapes and paddings. */
static void for_each_shape(backend *b,
                           void (*check)(backend *b, int64_t rows, int64_t columns, int64_t stride))
{
    for (int i = 0; i < SHAPES * PADDINGS; i++) {
        const int64_t *shape = shapes[i / PADDINGS];
        check(b, shape[0], shape[1], shape[1] + paddings[i % PADDINGS]);
    }
}

static const int64_t orders[] = {0, 1, 2, 31, 32, 33, 64, 97, 200};

enum { ORDERS = sizeof orders / sizeof orders[0] };

static void for_each_order(backend *b, void (*check)(backend *b, int64_t n, int64_t stride))
{
    for (int i = 0; i < ORDERS * PADDINGS; i++) {
        check(b, orders[i / PADDINGS], orders[i / PADDINGS] + paddings[i % PADDINGS]);
    }
}

/* -- sums -------------------------------------------------------------------------------------- */

static void check_add_scaled_of(backend *b, grail_dtype type, int64_t rows, int64_t columns,
                                int64_t stride)
{
    const double alpha = -0.7;
    double *x = normal_doubles(rows * stride, 1);
    double *y = normal_doubles(rows * stride, 2);
    double *expected = copy_of_doubles(rows * stride, y);
    for (int64_t i = 0; i < rows * stride; i++) {
        expected[i] += i % stride < columns ? alpha * x[i] : 0.0;
    }
    matrix bx = matrix_of(b, type, rows, stride, x);
    matrix by = f64_of(b, rows, stride, y);
    assert_ok(
        matrix_add_scaled(alpha, matrix_columns(bx, 0, columns), matrix_columns(by, 0, columns)));
    assert_matrix_near("add_scaled", by, expected, 8.0 * DBL_EPSILON);
    free_blocks(x, y, expected);
    free_matrices(&bx, &by);
}

static void check_add_scaled(backend *b, int64_t rows, int64_t columns, int64_t stride)
{
    check_add_scaled_of(b, GRAIL_DTYPE_F32, rows, columns, stride);
    check_add_scaled_of(b, GRAIL_DTYPE_F64, rows, columns, stride);
}

BACKEND_TEST(test_a_scaled_matrix_of_either_type_is_added)
{
    for_each_shape(b, check_add_scaled);
}

BACKEND_TEST(test_a_scaled_row_is_added_to_every_row)
{
    enum { ROWS = 9, COLUMNS = 4 };
    double *x = normal_doubles(COLUMNS, 3);
    double *y = normal_doubles(ROWS * COLUMNS, 4);
    double *expected = doubles(ROWS * COLUMNS, 0.0);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        expected[i] = y[i] + 2.5 * x[i % COLUMNS];
    }
    matrix row = f64_of(b, 1, COLUMNS, x);
    matrix all = f64_of(b, ROWS, COLUMNS, y);
    assert_ok(matrix_add_scaled(2.5, matrix_repeat_row(row, ROWS), all));
    assert_matrix_near("add_scaled of a repeated row", all, expected, 8.0 * DBL_EPSILON);
    free_blocks(x, y, expected);
    free_matrices(&row, &all);
}

static void check_add_outer_of(backend *b, bool lower, int64_t rows, int64_t columns,
                               int64_t stride)
{
    const double alpha = 1.25;
    double *x = normal_doubles(rows, 5);
    double *y = normal_doubles(columns, 6);
    double *a = normal_doubles(rows * stride, 7);
    double *expected = copy_of_doubles(rows * stride, a);
    for (int64_t at = 0; at < rows * columns; at++) {
        const int64_t i = at / columns;
        const int64_t j = at % columns;
        expected[i * stride + j] += lower && j > i ? 0.0 : alpha * x[i] * y[j];
    }
    matrix bx = f64_of(b, 1, rows, x);
    matrix by = f64_of(b, 1, columns, y);
    matrix ba = f64_of(b, rows, stride, a);
    assert_ok(matrix_add_outer(lower, alpha, bx, by, matrix_columns(ba, 0, columns)));
    assert_matrix_near("add_outer", ba, expected, 32.0 * DBL_EPSILON);
    free_blocks(x, y, a, expected);
    free_matrices(&bx, &by, &ba);
}

static void check_add_outer(backend *b, int64_t rows, int64_t columns, int64_t stride)
{
    check_add_outer_of(b, false, rows, columns, stride);
}

static void check_add_outer_lower(backend *b, int64_t n, int64_t stride)
{
    check_add_outer_of(b, true, n, n, stride);
}

BACKEND_TEST(test_an_outer_product_is_added_to_all_or_to_the_lower_triangle)
{
    for_each_shape(b, check_add_outer);
    for_each_order(b, check_add_outer_lower);
}

/* -- diagonals and triangles ------------------------------------------------------------------- */

static void check_diagonal(backend *b, int64_t n, int64_t stride)
{
    double *a = normal_doubles(n * stride, 8);
    double *expected = doubles(n, 0.0);
    for (int64_t i = 0; i < n; i++) {
        expected[i] = a[i * stride + i];
    }
    matrix ba = f64_of(b, n, stride, a);
    matrix d = blank_of(b, GRAIL_DTYPE_F64, 1, n);
    assert_ok(matrix_diagonal(matrix_columns(ba, 0, n), d));
    assert_matrix_near("diagonal", d, expected, 0.0);
    assert_matrix_near("matrix of a diagonal", ba, a, 0.0);
    free_blocks(a, expected);
    free_matrices(&ba, &d);
}

BACKEND_TEST(test_a_diagonal_is_read_as_a_row)
{
    for_each_order(b, check_diagonal);
}

static void check_set_diagonal(backend *b, int64_t n, int64_t stride)
{
    double *a = normal_doubles(n * stride, 9);
    double *d = normal_doubles(n, 10);
    double *expected = copy_of_doubles(n * stride, a);
    for (int64_t i = 0; i < n; i++) {
        expected[i * stride + i] = d[i];
    }
    matrix ba = f64_of(b, n, stride, a);
    matrix bd = f64_of(b, 1, n, d);
    assert_ok(matrix_set_diagonal(bd, matrix_columns(ba, 0, n)));
    assert_matrix_near("set_diagonal", ba, expected, 0.0);
    free_blocks(a, d, expected);
    free_matrices(&ba, &bd);
}

BACKEND_TEST(test_a_diagonal_is_set_from_a_row)
{
    for_each_order(b, check_set_diagonal);
}

static void check_shift_diagonal(backend *b, int64_t n, int64_t stride)
{
    const double value = 0.3;
    double *a = normal_doubles(n * stride, 11);
    double *expected = copy_of_doubles(n * stride, a);
    for (int64_t i = 0; i < n; i++) {
        expected[i * stride + i] += value;
    }
    OWNED(matrix) ba = f64_of(b, n, stride, a);
    assert_ok(matrix_shift_diagonal(value, matrix_columns(ba, 0, n)));
    assert_matrix_near("shift_diagonal", ba, expected, 0.0);
    free_blocks(a, expected);
}

BACKEND_TEST(test_a_value_is_added_to_the_diagonal_alone)
{
    for_each_order(b, check_shift_diagonal);
}

static void check_fill_of(backend *b, bool upper, int64_t n, int64_t stride)
{
    double *a = normal_doubles(n * stride, 12);
    double *expected = copy_of_doubles(n * stride, a);
    for (int64_t at = 0; at < n * n; at++) {
        const int64_t i = at / n;
        const int64_t j = at % n;
        if (upper ? j > i : j < i) {
            expected[i * stride + j] = a[j * stride + i];
        }
    }
    OWNED(matrix) ba = f64_of(b, n, stride, a);
    const matrix square = matrix_columns(ba, 0, n);
    assert_ok(upper ? matrix_fill_upper(square) : matrix_fill_lower(square));
    assert_matrix_near(upper ? "fill_upper" : "fill_lower", ba, expected, 0.0);
    free_blocks(a, expected);
}

static void check_fill_upper(backend *b, int64_t n, int64_t stride)
{
    check_fill_of(b, true, n, stride);
}

static void check_fill_lower(backend *b, int64_t n, int64_t stride)
{
    check_fill_of(b, false, n, stride);
}

BACKEND_TEST(test_the_upper_triangle_is_filled_from_the_lower_one)
{
    for_each_order(b, check_fill_upper);
}

BACKEND_TEST(test_the_lower_triangle_is_filled_from_the_upper_one)
{
    for_each_order(b, check_fill_lower);
}

/* -- rows and columns -------------------------------------------------------------------------- */

/* Normals that both types hold exactly. */
static double *normals_of_f32(int64_t count, uint64_t seed)
{
    double *values = normal_doubles(count, seed);
    for (int64_t i = 0; i < count; i++) {
        values[i] = (double)(float)values[i];
    }
    return values;
}

static void check_row_dots_of(backend *b, grail_dtype type, bool repeated, int64_t rows,
                              int64_t columns, int64_t stride)
{
    double *x = normals_of_f32(rows * stride, 13);
    double *y = normals_of_f32(rows * stride + stride, 14);
    double *expected = doubles(rows, 0.0);
    double sum = 5.0;
    double scale = 5.0;
    double found = 0.0;
    for (int64_t at = 0; at < rows * columns; at++) {
        const int64_t i = at / columns;
        const int64_t j = at % columns;
        const double product = x[i * stride + j] * y[(repeated ? 0 : i * stride) + j];
        expected[i] += product;
        sum += product;
        scale += fabs(product);
    }
    matrix of_all = f64_of(b, 1, 1, &(double){5.0});
    matrix bx = matrix_of(b, type, rows, stride, x);
    matrix by = matrix_of(b, type, rows + 1, stride, y);
    matrix out = blank_of(b, GRAIL_DTYPE_F64, 1, rows);
    const matrix first = matrix_columns(by, 0, columns);
    const matrix right = repeated ? matrix_repeat_row(first, rows) : matrix_rows(first, 0, rows);
    const matrix left = matrix_columns(bx, 0, columns);
    const double tolerance = 8.0 * DBL_EPSILON * (1.0 + (double)columns);
    assert_ok(matrix_row_dots(left, right, out));
    assert_matrix_near("row_dots", out, expected, tolerance);
    assert_ok(matrix_row_dots(right, left, out));
    assert_matrix_near("row_dots, exchanged", out, expected, tolerance);
    assert_ok(matrix_add_products(left, right, of_all));
    assert_ok(matrix_download(of_all, &found));
    assert_near(found, sum, DBL_EPSILON * (double)(rows + columns) * scale);
    free_blocks(x, y, expected);
    free_matrices(&bx, &by, &out, &of_all);
}

static void check_row_dots(backend *b, int64_t rows, int64_t columns, int64_t stride)
{
    for (int repeated = 0; repeated < 2; repeated++) {
        check_row_dots_of(b, GRAIL_DTYPE_F64, repeated != 0, rows, columns, stride);
        check_row_dots_of(b, GRAIL_DTYPE_F32, repeated != 0, rows, columns, stride);
    }
}

BACKEND_TEST(test_row_dots_are_taken_row_by_row_or_with_one_row_and_added)
{
    for_each_shape(b, check_row_dots);
}

static void check_scale_rows_of(backend *b, bool in_place, int64_t rows, int64_t columns,
                                int64_t stride)
{
    const grail_dtype type = backend_type(b);
    double *x = normals_of_f32(rows * stride, 17);
    double *y = normals_of_f32(rows * stride, in_place ? 17 : 19);
    double *factor = normal_doubles(rows, 18);
    double *expected = copy_of_doubles(rows * stride, y);
    double *scale = doubles(rows * stride, 0.0);
    for (int64_t at = 0; at < rows * columns; at++) {
        const int64_t i = at / columns * stride + at % columns;
        expected[i] = x[i] * factor[at / columns];
        scale[i] = fabs(expected[i]);
    }
    matrix bf = f64_of(b, 1, rows, factor);
    matrix bx = matrix_of(b, type, rows, stride, x);
    matrix by = matrix_of(b, type, rows, stride, y);
    const matrix in = matrix_columns(in_place ? by : bx, 0, columns);
    assert_ok(matrix_scale_rows(bf, in, matrix_columns(by, 0, columns)));
    double *actual = results_of(by);
    assert_all_near(b, "scale_rows", rows * stride, actual, expected, scale, rounding(b));
    free_blocks(x, y, factor, expected, scale, actual);
    free_matrices(&bf, &bx, &by);
}

static void check_scale_rows(backend *b, int64_t rows, int64_t columns, int64_t stride)
{
    check_scale_rows_of(b, false, rows, columns, stride);
    check_scale_rows_of(b, true, rows, columns, stride);
}

BACKEND_TEST(test_rows_are_scaled_each_by_its_own_number)
{
    for_each_shape(b, check_scale_rows);
}

static void check_divide_columns(backend *b, int64_t rows, int64_t columns, int64_t stride)
{
    double *a = normal_doubles(rows * stride, 15);
    double *divisor = normal_doubles(columns, 16);
    double *expected = copy_of_doubles(rows * stride, a);
    for (int64_t at = 0; at < rows * columns; at++) {
        expected[at / columns * stride + at % columns] /= divisor[at % columns];
    }
    matrix ba = f64_of(b, rows, stride, a);
    matrix bd = f64_of(b, 1, columns, divisor);
    assert_ok(matrix_divide_columns(bd, matrix_columns(ba, 0, columns)));
    double *actual = results_of(ba);
    double *scale = doubles(rows * stride, 0.0);
    for (int64_t i = 0; i < rows * stride; i++) {
        scale[i] = fabs(expected[i]);
    }
    assert_all_near(b, "divide_columns", rows * stride, actual, expected, scale, 2.0 * DBL_EPSILON);
    free_blocks(a, divisor, expected, actual, scale);
    free_matrices(&ba, &bd);
}

BACKEND_TEST(test_columns_are_divided_each_by_its_own_number)
{
    for_each_shape(b, check_divide_columns);
}

static void check_scale(backend *b, int64_t rows, int64_t columns, int64_t stride)
{
    float *x = normals(rows * stride, 18, 1.0);
    double *expected = doubles(rows * stride, NAN);
    const double least = backend_type(b) == GRAIL_DTYPE_F16 ? 0x1p-25 : 0.0; /* of its steps */
    matrix bx = values_of(b, rows, stride, x);
    matrix y = blank_values(b, rows, stride);
    assert_ok(matrix_scale(0.3, matrix_columns(bx, 0, columns), matrix_columns(y, 0, columns)));
    double *actual = results_of(y);
    for (int64_t i = 0; i < rows * stride; i++) {
        if (i % stride < columns) {
            expected[i] = 0.3 * (double)x[i];
            assert_near(actual[i], expected[i], 1.01 * rounding(b) * fabs(expected[i]) + least);
        } else {
            assert_true(isnan(actual[i]));
        }
    }
    free_blocks(x, expected, actual);
    free_matrices(&bx, &y);
}

BACKEND_TEST(test_all_elements_are_scaled_alike)
{
    for_each_shape(b, check_scale);
}

/* The sum may be one of a row of them. */
BACKEND_TEST(test_products_are_added_to_a_sum)
{
    enum { COUNT = 4001 };
    double *x = normal_doubles(COUNT, 19);
    double *y = normal_doubles(COUNT, 20);
    double expected[] = {7.0, 5.0, 3.0, 2.0};
    double sums[4];
    double size = 0.0;
    for (int i = 0; i < COUNT; i++) {
        expected[1] += x[i] * y[i];
        expected[2] += x[i];
        expected[3] += x[i] * x[i];
        size += fabs(x[i] * y[i]) + fabs(x[i]) + x[i] * x[i];
    }
    matrix bx = f64_of(b, 1, COUNT, x);
    matrix by = f64_of(b, 1, COUNT, y);
    matrix bs = f64_of(b, 1, 4, (const double[]){7.0, 5.0, 3.0, 2.0});
    assert_ok(matrix_add_products(bx, by, matrix_columns(bs, 1, 1)));
    assert_ok(matrix_add_products(bx, no_matrix, matrix_columns(bs, 2, 1)));
    assert_ok(matrix_add_products(bx, bx, matrix_columns(bs, 3, 1)));
    assert_ok(matrix_download(bs, sums));
    for (int i = 0; i < 4; i++) {
        assert_near(sums[i], expected[i], 1e-14 * size);
    }
    free_blocks(x, y);
    free_matrices(&bx, &by, &bs);
}

BACKEND_TEST(test_a_row_is_divided_by_its_length)
{
    const double x[] = {3.0, -4.0, 12.0, 0.0};
    double y[4];
    double norm = 0.0;
    matrix m = f64_of(b, 1, 4, x);
    matrix of = f64_of(b, 1, 1, &norm);
    assert_ok(matrix_normalise(m, of));
    assert_ok(matrix_download(m, y));
    assert_ok(matrix_download(of, &norm));
    assert_near(norm, 13.0, 1e-14);
    for (int i = 0; i < 4; i++) {
        assert_near(y[i], x[i] / 13.0, 1e-15);
    }
    free_matrices(&m, &of);
}

BACKEND_TEST(test_inverse_roots_are_of_bounded_numbers)
{
    const double x[] = {4.0, 0.0, 1e-9, 100.0, 0.25, 3.0};
    const double bounded[] = {0.5, 0.0, 2.0, 0.2, 2.0, 1.0 / sqrt(3.0)};
    double y[6];
    for (int of_nothing = 0; of_nothing < 2; of_nothing++) {
        OWNED(matrix) m = f64_of(b, 1, 6, x);
        assert_ok(matrix_inverse_roots(of_nothing != 0 ? 0.0 : 0.25,
                                       of_nothing != 0 ? INFINITY : 25.0, m, m));
        assert_ok(matrix_download(m, y));
        for (int i = 0; i < 6; i++) {
            const double plain = x[i] > 0.0 ? 1.0 / sqrt(x[i]) : 0.0;
            const double wanted = of_nothing != 0 ? plain : i == 1 ? 2.0 : bounded[i];
            assert_near(y[i], wanted, 1e-15 * wanted);
        }
    }
}

BACKEND_TEST(test_the_share_of_a_gap_lies_between_0_and_1)
{
    const double gaps[] = {0.5, 0.0, 2.0, 5.0, 0.0, -1e-6};
    const double targets[] = {2.0, 2.0, 2.0, 2.0, 0.0, 2.0};
    const double expected[] = {0.75, 1.0, 0.0, 0.0, 1.0, 1.0};
    for (int i = 0; i < 6; i++) {
        const double all[] = {expected[i], expected[i], expected[i]};
        matrix gap = f64_of(b, 1, 1, &gaps[i]);
        matrix target = f64_of(b, 1, 1, &targets[i]);
        matrix share = blank_of(b, GRAIL_DTYPE_F64, 1, 3);
        assert_ok(matrix_gap_share(gap, target, share));
        assert_matrix_near("share", share, all, 0.0);
        free_matrices(&gap, &target, &share);
    }
}

BACKEND_TEST(test_the_median_is_the_upper_one)
{
    const double x[] = {4.0, 7.0, -1.0, 9.0, 4.0, 100.0, 0.0};
    const double expected[] = {0.0, 4.0, 7.0, 4.0, 7.0, 4.0, 7.0, 4.0};
    for (int count = 0; count <= 7; count++) {
        double median = 5.0;
        matrix row = f64_of(b, 1, 7, x);
        matrix out = f64_of(b, 1, 1, &median);
        assert_ok(matrix_median(matrix_columns(row, 0, count), out));
        assert_ok(matrix_download(out, &median));
        assert_near(median, expected[count], 0.0);
        free_matrices(&row, &out);
    }
}

BACKEND_TEST(test_limit_roots_are_of_what_is_above_a_share)
{
    const double x[] = {4.0, 0.0, 6.0, 100.0, 6.1};
    for (int of_nothing = 0; of_nothing < 2; of_nothing++) {
        const double m = of_nothing != 0 ? 0.0 : 2.0;
        double y[5];
        matrix of = f64_of(b, 1, 1, &m);
        matrix row = f64_of(b, 1, 5, x);
        assert_ok(matrix_limit_roots(3.0, of, row, row));
        assert_ok(matrix_download(row, y));
        for (int i = 0; i < 5; i++) {
            const double wanted = m > 0.0 && x[i] > 6.0 ? sqrt(6.0 / x[i]) : 1.0;
            assert_near(y[i], wanted, 4e-16);
        }
        free_matrices(&of, &row);
    }
}

BACKEND_TEST(test_inverses_leave_zeros)
{
    const double x[] = {4.0, 0.0, -0.3, -0.0, 0x1p-100};
    const double expected[] = {0.25, 0.0, 1.0 / -0.3, 0.0, 0x1p100};
    OWNED(matrix) m = f64_of(b, 1, 5, x);
    assert_ok(matrix_inverses(m, m));
    assert_matrix_near("inverses", m, expected, 0x1p-52);
}

/* Numbers of f64 whatever values are: as a column, by another row of them. */
BACKEND_TEST(test_rows_of_numbers_are_multiplied)
{
    const double factors[] = {2.0, 0.1, -3.0};
    const double x[] = {0.3, 1e200, 7.0};
    double y[3];
    matrix by = f64_of(b, 1, 3, factors);
    matrix m = f64_of(b, 1, 3, x);
    const matrix column = matrix_reshape(m, 3, 1);
    assert_ok(matrix_scale_rows(by, column, column));
    assert_ok(matrix_download(m, y));
    for (int i = 0; i < 3; i++) {
        assert_true(y[i] == factors[i] * x[i]);
    }
    free_matrices(&by, &m);
}

BACKEND_TEST(test_roots_are_of_shares_and_a_sum)
{
    const double x[] = {4.0, 0.0, 1e-9, 100.0, 3.0};
    double y[5];
    OWNED(matrix) m = f64_of(b, 1, 5, x);
    assert_ok(matrix_roots(3.0, 1e-6, m, m));
    assert_ok(matrix_download(m, y));
    for (int i = 0; i < 5; i++) {
        const double wanted = sqrt(x[i] / 3.0 + 1e-6);
        assert_near(y[i], wanted, 4e-16 * wanted);
    }
}

/* The median of six is the fourth: 4; and where more than half are 0 it is 0, which bounds nothing.
 */
BACKEND_TEST(test_inverses_are_bounded_by_their_median)
{
    const double x[] = {4.0, 0.0, 5.0, 1000.0, 0.25, 4.0};
    const double bounded[] = {0.25, 1.0, 0.2, 1.0 / 400.0, 1.0, 0.25};
    const double few[] = {0.0, 8.0, 0.0, 1000.0, 0.0};
    const double plain[] = {0.0, 0.125, 0.0, 1e-3, 0.0};
    matrix m = f64_of(b, 1, 6, x);
    matrix sparse = f64_of(b, 1, 5, few);
    matrix own = f64_of(b, 1, 5, few);
    matrix none = f64_of(b, 1, 0, x);
    assert_ok(matrix_inverse_bounded(0.25, 100.0, m, m));
    assert_matrix_near("inverses", m, bounded, 1e-15);
    assert_ok(matrix_inverse_bounded(0.25, 100.0, sparse, own));
    assert_matrix_near("inverses without a bound", own, plain, 1e-15);
    assert_ok(matrix_inverse_bounded(0.25, 100.0, none, none));
    free_matrices(&m, &sparse, &own, &none);
}

BACKEND_TEST(test_nearest_powers_are_of_two)
{
    const double x[] = {0.0, 1.0, 1.4, 1.5, 0.3, 1e-30, 3e8};
    const double expected[] = {0.0, 1.0, 1.0, 2.0, 0.25, 0x1p-100, 0x1p28};
    OWNED(matrix) m = f64_of(b, 1, 7, x);
    assert_ok(matrix_nearest_powers(m));
    assert_matrix_near("powers", m, expected, 0.0);
}

/* -- products with a factor -------------------------------------------------------------------- */

/* A lower triangle; what is above or behind it must not be read. */
static double *lower_triangle(int64_t n, int64_t stride)
{
    double *l = normal_doubles(n * stride, 17);
    for (int64_t at = 0; at < n * stride; at++) {
        l[at] = at % stride > at / stride ? NAN : l[at];
    }
    return l;
}

/* expected = B L L^T, and scale = |B| |L| |L|^T. */
static void naive_multiply(int64_t rows, int64_t n, const double *l, int64_t l_stride,
                           const double *x, int64_t stride, double *expected, double *scale)
{
    for (int64_t at = 0; at < rows * n * n; at++) {
        const int64_t r = at / (n * n);
        const int64_t p = at / n % n; /* of B L */
        const int64_t j = at % n;
        double sum = 0.0;
        double size = 0.0;
        for (int64_t i = p; p <= j && i < n; i++) {
            sum += x[r * stride + i] * l[i * l_stride + p];
            size += fabs(x[r * stride + i] * l[i * l_stride + p]);
        }
        if (p <= j) {
            expected[r * stride + j] += sum * l[j * l_stride + p];
            scale[r * stride + j] += size * fabs(l[j * l_stride + p]);
        }
    }
}

static void check_cholesky_multiply(backend *b, int64_t rows, int64_t n, int64_t padding)
{
    const int64_t l_stride = n + padding;
    const int64_t stride = n + 2 * padding;
    double *l = lower_triangle(n, l_stride);
    double *x = normal_doubles(rows * stride, 18);
    double *expected = copy_of_doubles(rows * stride, x);
    double *scale = doubles(rows * stride, 0.0);
    for (int64_t i = 0; i < rows * stride; i++) {
        expected[i] = i % stride < n ? 0.0 : x[i];
    }
    naive_multiply(rows, n, l, l_stride, x, stride, expected, scale);
    matrix bl = f64_of(b, n, l_stride, l);
    matrix bx = f64_of(b, rows, stride, x);
    assert_ok(matrix_cholesky_multiply(matrix_columns(bl, 0, n), matrix_columns(bx, 0, n)));
    double *actual = results_of(bx);
    assert_all_near(b, "cholesky_multiply", rows * stride, actual, expected, scale,
                    8.0 * DBL_EPSILON * (1.0 + (double)n));
    free_blocks(l, x, expected, scale, actual);
    free_matrices(&bl, &bx);
}

BACKEND_TEST(test_cholesky_multiply_is_the_product_with_the_factored_matrix)
{
    static const int64_t sizes[][2] = {{0, 5}, {1, 1}, {1, 40}, {3, 129}, {61, 64}, {30, 33}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_cholesky_multiply(b, sizes[i][0], sizes[i][1], 0);
        check_cholesky_multiply(b, sizes[i][0], sizes[i][1], 2);
    }
}

/* B (L L^T) (L L^T)^-1 = B */
BACKEND_TEST(test_cholesky_solve_undoes_cholesky_multiply)
{
    enum { ROWS = 17, N = 70 };
    double *l = normal_doubles(N * N, 19);
    double *x = normal_doubles(ROWS * N, 20);
    for (int i = 0; i < N * N; i++) {
        l[i] = i % N == i / N ? 3.0 : 0.1 * l[i];
    }
    matrix bl = f64_of(b, N, N, l);
    matrix bx = f64_of(b, ROWS, N, x);
    assert_ok(matrix_cholesky_multiply(bl, bx));
    assert_ok(matrix_cholesky_solve(bl, bx));
    assert_matrix_near("multiplied and solved", bx, x, 1e-12);
    free_blocks(l, x);
    free_matrices(&bl, &bx);
}
