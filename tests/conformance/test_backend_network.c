/* Conversion, linear, norm, rotary embedding, activations, arithmetic, cross entropy. */
#include "conformance/conformance.h"

#include <string.h>

BACKEND_TEST(test_conversion_is_exact_both_ways)
{
    float values[] = {0.0F, -0.0F, 1.0F, -3.25F, 1e-40F, largest_value(b), INFINITY, 0.1F};
    enum { COUNT = sizeof values / sizeof values[0] };
    OWNED(matrix) x = blank_values(b, 2, COUNT / 2);
    float back[COUNT];
    assert_ok(matrix_upload_f32(x, values));
    assert_ok(matrix_download_f32(x, back));
    for (int i = 0; i < COUNT; i++) {
        values[i] = held(b, values[i]);
    }
    assert_memory_equal(back, values, sizeof values);
    assert_ok(matrix_download_f32(matrix_rows(x, 1, 0), NULL));
}

/* expected = X W^T + bias and scale = |X| |W|^T + |bias|, the size that rounding errors have. */
static void naive_linear(int64_t rows, int64_t in, int64_t out, const float *x, const float *w,
                         const float *bias, double *expected, double *scale)
{
    for (int64_t i = 0; i < rows * out; i++) {
        const float *row = x + i / out * in;
        const float *weight = w + i % out * in;
        expected[i] = bias == NULL ? 0.0 : (double)bias[i % out];
        scale[i] = fabs(expected[i]);
        for (int64_t p = 0; p < in; p++) {
            expected[i] += (double)row[p] * (double)weight[p];
            scale[i] += fabs((double)row[p] * (double)weight[p]);
        }
    }
}

static void check_linear(backend *b, int64_t rows, int64_t in, int64_t out, bool has_bias)
{
    float *x = normals(rows * in, 1, 1.0);
    float *w = normals(out * in, 2, 1.0);
    float *bias = normals(out, 3, 1.0);
    double *expected = doubles(rows * out, 0.0);
    double *scale = doubles(rows * out, 0.0);
    naive_linear(rows, in, out, x, w, has_bias ? bias : NULL, expected, scale);
    matrix bx = values_of(b, rows, in, x);
    matrix bw = values_of(b, out, in, w);
    matrix bbias = values_of(b, 1, out, bias);
    matrix by = blank_values(b, rows, out);
    assert_ok(matrix_linear(bx, bw, has_bias ? bbias : no_matrix, by));
    double *y = results_of(by);
    assert_all_near(b, "linear", rows * out, y, expected, scale, rounding_of_products(b, in));
    free_blocks(x, w, bias, expected, scale, y);
    free_matrices(&bx, &bw, &bbias, &by);
}

BACKEND_TEST(test_linear_matches_its_formula_in_every_shape)
{
    static const int64_t shapes[][3] = {{0, 3, 4},      {3, 4, 0},      {2, 0, 3},
                                        {1, 1, 1},      {1, 7, 5},      {3, 64, 1},
                                        {17, 31, 13},   {129, 257, 67}, {1, 33, 2100},
                                        {1100, 5, 131}, {300, 16, 700}, {259, 200, 193}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_linear(b, shapes[i][0], shapes[i][1], shapes[i][2], false);
        check_linear(b, shapes[i][0], shapes[i][1], shapes[i][2], true);
    }
}

static void check_rms_norm(backend *b, int64_t rows, int64_t width, int64_t group, double epsilon,
                           bool in_place)
{
    float *x = normals(rows * width, 4, 2.0);
    float *w = normals(group, 5, 1.0);
    double *expected = doubles(rows * width, 0.0);
    for (int64_t i = 0; i < rows * width; i++) {
        const float *start = x + i / group * group;
        double squares = 0.0;
        for (int64_t p = 0; p < group; p++) {
            squares += (double)start[p] * (double)start[p];
        }
        expected[i] = (double)w[i % group] * (double)x[i] / sqrt(squares / (double)group + epsilon);
    }
    matrix bw = values_of(b, 1, group, w);
    matrix bx = values_of(b, rows, width, x);
    matrix by = blank_values(b, rows, width);
    const matrix y = in_place ? bx : by;
    assert_ok(matrix_rms_norm(epsilon, bx, bw, y));
    assert_matrix_near("rms_norm", y, expected, 64.0 * rounding(b));
    free_blocks(x, w, expected);
    free_matrices(&bw, &bx, &by);
}

BACKEND_TEST(test_rms_norm_scales_groups_by_their_root_mean_square)
{
    check_rms_norm(b, 0, 8, 8, 1e-5, false);
    check_rms_norm(b, 1, 1, 1, 1e-5, false);
    check_rms_norm(b, 7, 37, 37, 1e-5, false);
    check_rms_norm(b, 3, 36, 12, 0.5, false);
    check_rms_norm(b, 211, 515, 103, 1e-6, true);
    check_rms_norm(b, 5, 4096, 4096, 1e-6, true);
}

static void check_rope(backend *b, int64_t sequences, int64_t length, int64_t heads,
                       int64_t head_dim, double base)
{
    const int64_t half = head_dim / 2;
    const int64_t count = sequences * length * heads * head_dim;
    float *x = normals(count, 6, 1.0);
    double *frequency = doubles(half, 0.0);
    double *expected = doubles(count, 0.0);
    for (int64_t k = 0; k < half; k++) {
        frequency[k] = pow(base, -(double)k / (double)half);
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t d = i % head_dim;
        const double angle =
            (double)(i / (heads * head_dim) % length) * frequency[d < half ? d : d - half];
        expected[i] = d < half ? (double)x[i] * cos(angle) - (double)x[i + half] * sin(angle)
                               : (double)x[i] * cos(angle) + (double)x[i - half] * sin(angle);
    }
    const rope_shape shape = {.sequences = sequences,
                              .length = length,
                              .head_dim = head_dim,
                              .turned = head_dim,
                              .factor = 1.0,
                              .frequency = frequency};
    OWNED(matrix) bx = values_of(b, sequences * length, heads * head_dim, x);
    assert_ok(matrix_rope(&shape, bx));
    assert_matrix_near("rope", bx, expected, 32.0 * rounding(b));
    free_blocks(x, frequency, expected);
}

BACKEND_TEST(test_rope_rotates_pairs_by_position_within_each_sequence)
{
    check_rope(b, 0, 5, 2, 4, 1e4);
    check_rope(b, 1, 1, 1, 2, 1e4);
    check_rope(b, 3, 37, 3, 10, 1e4);
    check_rope(b, 2, 9, 2, 258, 1e4);
    check_rope(b, 1, 9001, 1, 6, 10.0); /* large angles: fails when formed in f32 */
}

/* The first 6 of 10 features, times 1.5. */
TEST(test_rope_turns_and_scales_the_first_features_of_each_head)
{
    enum { LENGTH = 7, HEADS = 2, HEAD_DIM = 10, HALF = 3, COUNT = LENGTH * HEADS * HEAD_DIM };
    static const double frequency[HALF] = {1.0, 0.3, 0.1};
    const rope_shape shape = {.sequences = 1,
                              .length = LENGTH,
                              .head_dim = HEAD_DIM,
                              .turned = 2 * HALF,
                              .factor = 1.5,
                              .frequency = frequency};
    float *x = normals(COUNT, 6, 1.0);
    double *expected = doubles(COUNT, 0.0);
    for (int i = 0; i < COUNT; i++) {
        const int d = i % HEAD_DIM;
        const double angle = (double)(i / (HEADS * HEAD_DIM)) * frequency[d % HALF];
        const double other = d < HALF ? -(double)x[i + HALF] : (double)x[i - HALF];
        expected[i] =
            d < 2 * HALF ? 1.5 * ((double)x[i] * cos(angle) + other * sin(angle)) : (double)x[i];
    }
    FOR_EACH_BACKEND(b)
    {
        OWNED(matrix) bx = values_of(b, LENGTH, HEADS * HEAD_DIM, x);
        assert_ok(matrix_rope(&shape, bx));
        assert_matrix_near("rope", bx, expected, 32.0 * rounding(b));
    }
    free_blocks(x, expected);
}

/* Angles of a table, from its second position on, by pairs side by side and of both halves. */
TEST(test_rope_turns_by_a_table_and_neighbours)
{
    enum { LENGTH = 5, HEADS = 2, HEAD_DIM = 6, HALF = 2, COUNT = 2 * LENGTH * HEADS * HEAD_DIM };
    double *angles = doubles((LENGTH + 1) * HALF, 0.0);
    float *x = normals(COUNT, 6, 1.0);
    double *expected = doubles(COUNT, 0.0);
    for (int i = 0; i < (LENGTH + 1) * HALF; i++) {
        angles[i] = sin(3.0 * i) * 2.0;
    }
    for (int neighbours = 0; neighbours < 2; neighbours++) {
        const rope_shape shape = {.sequences = 2,
                                  .length = LENGTH,
                                  .first = 1,
                                  .head_dim = HEAD_DIM,
                                  .turned = 2 * HALF,
                                  .factor = 1.0,
                                  .angles = angles,
                                  .neighbours = neighbours != 0};
        for (int i = 0; i < COUNT; i++) {
            const int d = i % HEAD_DIM;
            const int apart = neighbours ? 1 : HALF;
            const bool is_first = neighbours ? d % 2 == 0 : d < HALF;
            const int row = i / (HEADS * HEAD_DIM) % LENGTH;
            const double angle = angles[(row + 1) * HALF + (neighbours ? d / 2 : d % HALF)];
            expected[i] = d >= 2 * HALF ? (double)x[i]
                          : is_first
                              ? (double)x[i] * cos(angle) - (double)x[i + apart] * sin(angle)
                              : (double)x[i] * cos(angle) + (double)x[i - apart] * sin(angle);
        }
        FOR_EACH_BACKEND(b)
        {
            OWNED(matrix) bx = values_of(b, 2 * LENGTH, HEADS * HEAD_DIM, x);
            assert_ok(matrix_rope(&shape, bx));
            assert_matrix_near("rope", bx, expected, 32.0 * rounding(b));
        }
    }
    free_blocks(angles, x, expected);
}

static double naive_activation(activation_kind kind, double x)
{
    switch (kind) {
    case ACTIVATION_SILU:
        return x / (1.0 + exp(-x));
    case ACTIVATION_GELU:
        return x * 0.5 * erfc(-x / sqrt(2.0));
    case ACTIVATION_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case ACTIVATION_RELU:
        return fmax(x, 0.0);
    case ACTIVATION_QUICK_GELU:
        return x / (1.0 + exp(-1.702 * x));
    case ACTIVATION_RELU6:
        return fmin(fmax(x, 0.0), 6.0);
    case ACTIVATION_SIGMOID:
        return 0.5 * (1.0 + tanh(0.5 * x));
    case ACTIVATION_HARD_SIGMOID:
        return fmin(fmax(x / 6.0 + 0.5, 0.0), 1.0);
    case ACTIVATION_TANH:
        return tanh(x);
    case ACTIVATION_ERF:
        return erf(x);
    case ACTIVATION_ELU:
        return fmax(x, expm1(fmin(x, 0.0)));
    case ACTIVATION_SOFTPLUS:
        return x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x));
    case ACTIVATION_KINDS:
        break;
    }
    return NAN;
}

static void check_activation(backend *b, activation_kind kind, bool in_place)
{
    enum { ROWS = 7, COLUMNS = 10001, COUNT = ROWS * COLUMNS, SPECIAL = 7 };
    static const float special[SPECIAL] = {0.0F, 1e-20F, -1e-20F, 50.0F, -50.0F, 1e4F, -1e4F};
    float *x = normals(COUNT, 7, 3.0);
    memcpy(x, special, sizeof special);
    double *expected = doubles(COUNT, 0.0);
    double *scale = doubles(COUNT, 0.0);
    for (int64_t i = 0; i < COUNT; i++) {
        expected[i] = naive_activation(kind, (double)x[i]);
        scale[i] = fmax(fabs((double)x[i]), fabs(expected[i]));
    }
    matrix bx = values_of(b, ROWS, COLUMNS, x);
    matrix by = blank_values(b, ROWS, COLUMNS);
    assert_ok(matrix_activate(kind, bx, in_place ? bx : by));
    double *y = results_of(in_place ? bx : by);
    assert_all_near(b, "activation", COUNT, y, expected, scale, 8.0 * rounding(b));
    free_blocks(x, expected, scale, y);
    free_matrices(&bx, &by);
}

BACKEND_TEST(test_activations_match_their_formulas)
{
    for (int kind = ACTIVATION_SILU; kind < ACTIVATION_KINDS; kind++) {
        check_activation(b, (activation_kind)kind, false);
        check_activation(b, (activation_kind)kind, true);
    }
}

/* tanh is bounded by its argument and by 1. */
BACKEND_TEST(test_a_soft_cap_bounds_values)
{
    enum { SPECIAL = 7, COUNT = 3001 };
    static const float special[SPECIAL] = {0.0F, 1e-20F, -1e-20F, 50.0F, -50.0F, 1e30F, NAN};
    static const double caps[] = {0.5, 30.0};
    for (int c = 0; c < 2; c++) {
        float *x = normals(COUNT, 7, 3.0);
        double *expected = doubles(COUNT, 0.0);
        double *scale = doubles(COUNT, 0.0);
        memcpy(x, special, (SPECIAL - 1) * sizeof x[0]);
        for (int64_t i = 0; i < COUNT; i++) {
            x[i] = held(b, fminf(x[i], largest_value(b)));
            expected[i] = caps[c] * tanh((double)x[i] / caps[c]);
            scale[i] = fabs(expected[i]);
        }
        matrix bx = values_of(b, 1, COUNT, x);
        assert_ok(matrix_soft_cap(caps[c], bx, bx));
        double *y = results_of(bx);
        assert_all_near(b, "soft_cap", COUNT, y, expected, scale, 8.0 * rounding(b));
        matrix nan = values_of(b, 1, 1, &special[SPECIAL - 1]);
        float found = 0.0F;
        assert_ok(matrix_soft_cap(caps[c], nan, nan));
        assert_ok(matrix_download_f32(nan, &found));
        assert_true(isnan(found));
        free_blocks(x, expected, scale, y);
        free_matrices(&bx, &nan);
    }
}

BACKEND_TEST(test_a_clamp_bounds_values_and_adds)
{
    enum { COUNT = 40001 };
    static const clamp_attributes bounds[] = {{-0.5, 2.0, 1.0}, {-HUGE_VAL, 0.25, 0.0}};
    const float nan = NAN;
    for (int c = 0; c < 2; c++) {
        float *x = normals(COUNT, 7, 3.0);
        double *expected = doubles(COUNT, 0.0);
        for (int64_t i = 0; i < COUNT; i++) {
            expected[i] = fmin(fmax((double)x[i], bounds[c].low), bounds[c].high);
            expected[i] += bounds[c].offset;
        }
        matrix bx = values_of(b, 1, COUNT, x);
        matrix by = values_of(b, 1, 1, &nan);
        float found = 0.0F;
        assert_ok(matrix_clamp(&bounds[c], bx, bx));
        assert_matrix_near("clamp", bx, expected, 4.0 * rounding(b));
        assert_ok(matrix_clamp(&bounds[c], by, by));
        assert_ok(matrix_download_f32(by, &found));
        assert_true(isnan(found));
        free_blocks(x, expected);
        free_matrices(&bx, &by);
    }
}

BACKEND_TEST(test_activations_pass_nan_on)
{
    const float nan = NAN;
    for (int kind = ACTIVATION_SILU; kind < ACTIVATION_KINDS; kind++) {
        OWNED(matrix) x = values_of(b, 1, 1, &nan);
        float y = 0.0F;
        assert_ok(matrix_activate((activation_kind)kind, x, x));
        assert_ok(matrix_download_f32(x, &y));
        assert_true(isnan(y));
    }
}

typedef grail_status (*arithmetic)(matrix a, matrix b, matrix y);

static const arithmetic arithmetics[] = {matrix_multiply, matrix_add, matrix_subtract};

enum { ARITHMETICS = sizeof arithmetics / sizeof arithmetics[0] };

static double arithmetic_of(arithmetic operation, double a, double b)
{
    return operation == matrix_multiply ? a * b : operation == matrix_add ? a + b : a - b;
}

/* Which operand the output of an operation is. */
typedef enum aliasing { ALIAS_NONE, ALIAS_A, ALIAS_B } aliasing;

static void check_arithmetic(backend *b, arithmetic operation, int64_t rows, int64_t columns,
                             aliasing alias)
{
    const int64_t count = rows * columns;
    float *x = normals(count, 8, 1.0);
    float *y = normals(count, 9, 1.0);
    double *expected = doubles(count, 0.0);
    for (int64_t i = 0; i < count; i++) {
        expected[i] = arithmetic_of(operation, (double)x[i], (double)y[i]);
    }
    matrix bx = values_of(b, rows, columns, x);
    matrix by = values_of(b, rows, columns, y);
    matrix apart = blank_values(b, rows, columns);
    const matrix out = alias == ALIAS_A ? bx : alias == ALIAS_B ? by : apart;
    assert_ok(operation(bx, by, out));
    assert_matrix_near("arithmetic", out, expected, 16.0 * rounding(b));
    free_blocks(x, y, expected);
    free_matrices(&bx, &by, &apart);
}

BACKEND_TEST(test_arithmetic_may_overwrite_either_operand)
{
    static const int64_t shapes[][2] = {{0, 3}, {1, 1}, {1, 17}, {1, 65539}, {7, 9363}};
    enum { SHAPES = sizeof shapes / sizeof shapes[0], ALIASES = 3 };
    for (int i = 0; i < SHAPES * ALIASES * ARITHMETICS; i++) {
        const int64_t *shape = shapes[i / (ALIASES * ARITHMETICS)];
        check_arithmetic(b, arithmetics[i % ARITHMETICS], shape[0], shape[1],
                         (aliasing)(i / ARITHMETICS % ALIASES));
    }
}

/* B[rows, columns] is spread over [12, 300]; the elements of B lie one column apart from each
 * other.
 */
static void check_spread(backend *b, arithmetic operation, int64_t rows, int64_t columns,
                         bool in_place)
{
    enum { ROWS = 12, COLUMNS = 300, COUNT = ROWS * COLUMNS };
    float *x = normals(COUNT, 8, 1.0);
    float *y = normals(rows * (columns + 1), 9, 1.0);
    double *expected = doubles(COUNT, 0.0);
    for (int64_t i = 0; i < COUNT; i++) {
        const int64_t row = i / COLUMNS / (ROWS / rows);
        const int64_t at = row * (columns + 1) + (columns == 1 ? 0 : i % COLUMNS);
        expected[i] = arithmetic_of(operation, (double)x[i], (double)y[at]);
    }
    matrix bx = values_of(b, ROWS, COLUMNS, x);
    matrix by = values_of(b, rows, columns + 1, y);
    matrix apart = blank_values(b, ROWS, COLUMNS);
    const matrix out = in_place ? bx : apart;
    assert_ok(operation(bx, matrix_columns(by, 0, columns), out));
    assert_matrix_near("spread", out, expected, 16.0 * rounding(b));
    free_blocks(x, y, expected);
    free_matrices(&bx, &by, &apart);
}

static const int64_t spreads[][2] = {{12, 1}, {4, 300}, {1, 300}, {3, 1}, {1, 1}, {12, 300}};
enum { SPREADS = sizeof spreads / sizeof spreads[0] };

BACKEND_TEST(test_products_and_sums_spread_rows_and_columns)
{
    for (int i = 0; i < SPREADS; i++) {
        check_spread(b, matrix_multiply, spreads[i][0], spreads[i][1], false);
        check_spread(b, matrix_multiply, spreads[i][0], spreads[i][1], true);
        check_spread(b, matrix_add, spreads[i][0], spreads[i][1], i % 2 == 0);
    }
    OWNED(matrix) none = blank_values(b, 0, 7);
    assert_ok(matrix_multiply(none, matrix_columns(none, 0, 1), none));
}

/* The change of sum(dy * f(a, b)) along each element of b, which is linear in it. */
static void check_spread_gradient(backend *b, bool multiplies, int64_t rows, int64_t columns)
{
    enum { ROWS = 12, COLUMNS = 300, COUNT = ROWS * COLUMNS };
    float *x = normals(COUNT, 8, 1.0);
    float *dy = normals(COUNT, 9, 1.0);
    double *expected = doubles(rows * columns, 0.0);
    double *scale = doubles(rows * columns, 1.0);
    for (int64_t i = 0; i < COUNT; i++) {
        const int64_t row = i / COLUMNS / (ROWS / rows);
        const int64_t at = row * columns + (columns == 1 ? 0 : i % COLUMNS);
        const double term = (double)dy[i] * (multiplies ? (double)x[i] : 1.0);
        expected[at] += term;
        scale[at] += fabs(term);
    }
    matrix bx = values_of(b, ROWS, COLUMNS, x);
    matrix bdy = values_of(b, ROWS, COLUMNS, dy);
    matrix db = blank_values(b, rows, columns);
    assert_ok(matrix_spread_gradient(multiplies ? bx : no_matrix, bdy, db));
    double *actual = results_of(db);
    assert_all_near(b, "spread gradient", rows * columns, actual, expected, scale,
                    4.0 * rounding(b));
    free_blocks(x, dy, expected, scale, actual);
    free_matrices(&bx, &bdy, &db);
}

BACKEND_TEST(test_gradients_sum_what_was_spread)
{
    for (int i = 0; i < SPREADS; i++) {
        check_spread_gradient(b, true, spreads[i][0], spreads[i][1]);
        check_spread_gradient(b, false, spreads[i][0], spreads[i][1]);
    }
}

enum { STRIDED_ROWS = 9, STRIDED_COLUMNS = 23, STRIDED_WIDTH = STRIDED_COLUMNS + 5 };

/* Where the rows of an operand lie. */
typedef enum placement {
    PLACED_PACKED,
    PLACED_IN_COLUMNS,
    PLACED_EVERY_OTHER,
    PLACED_REPEATED
} placement;

/* Operand [STRIDED_ROWS, STRIDED_COLUMNS] within a matrix of twice as many rows. */
static matrix placed(placement where, matrix whole)
{
    const int64_t begin = where == PLACED_IN_COLUMNS ? 3 : 0;
    const matrix columns = matrix_columns(whole, begin, STRIDED_COLUMNS);
    switch (where) {
    case PLACED_EVERY_OTHER:
        return matrix_every_row(columns, 2);
    case PLACED_REPEATED:
        return matrix_repeat_row(columns, STRIDED_ROWS);
    case PLACED_PACKED:
        return matrix_reshape(matrix_columns(matrix_reshape(whole, 1, matrix_count(whole)), 0,
                                             STRIDED_ROWS * STRIDED_COLUMNS),
                              STRIDED_ROWS, STRIDED_COLUMNS);
    case PLACED_IN_COLUMNS:
        break;
    }
    return matrix_rows(columns, 0, STRIDED_ROWS);
}

/* Index within the whole of element `at` of an operand. */
static int64_t place_of(placement where, int64_t at)
{
    const int64_t row = at / STRIDED_COLUMNS;
    const int64_t column = at % STRIDED_COLUMNS;
    switch (where) {
    case PLACED_PACKED:
        return at;
    case PLACED_IN_COLUMNS:
        return row * STRIDED_WIDTH + 3 + column;
    case PLACED_EVERY_OTHER:
        return 2 * row * STRIDED_WIDTH + column;
    case PLACED_REPEATED:
        break;
    }
    return column;
}

static void check_strided_arithmetic(backend *b, arithmetic operation, placement where_a,
                                     placement where_b, placement where_y)
{
    enum { WHOLE_ROWS = 2 * STRIDED_ROWS, WHOLE = WHOLE_ROWS * STRIDED_WIDTH };
    float *x = normals(WHOLE, 8, 1.0);
    float *y = normals(WHOLE, 9, 1.0);
    float *z = normals(WHOLE, 10, 1.0); /* must stay outside the output */
    double *expected = doubles(WHOLE, 0.0);
    for (int64_t i = 0; i < WHOLE; i++) {
        expected[i] = (double)z[i];
    }
    for (int64_t i = 0; i < STRIDED_ROWS * STRIDED_COLUMNS; i++) {
        expected[place_of(where_y, i)] = arithmetic_of(operation, (double)x[place_of(where_a, i)],
                                                       (double)y[place_of(where_b, i)]);
    }
    matrix bx = values_of(b, WHOLE_ROWS, STRIDED_WIDTH, x);
    matrix by = values_of(b, WHOLE_ROWS, STRIDED_WIDTH, y);
    matrix bz = values_of(b, WHOLE_ROWS, STRIDED_WIDTH, z);
    assert_ok(operation(placed(where_a, bx), placed(where_b, by), placed(where_y, bz)));
    assert_matrix_near("strided arithmetic", bz, expected, 16.0 * rounding(b));
    free_blocks(x, y, z, expected);
    free_matrices(&bx, &by, &bz);
}

TEST(test_arithmetic_takes_strides_and_a_repeated_row)
{
    enum { OPERANDS = 4 * 4 * 3 }; /* the output is not repeated */
    FOR_EACH_BACKEND(b)
    {
        for (int i = 0; i < OPERANDS * ARITHMETICS; i++) {
            const int at = i / ARITHMETICS;
            check_strided_arithmetic(b, arithmetics[i % ARITHMETICS], (placement)(at % 4),
                                     (placement)(at / 4 % 4), (placement)(at / 16));
        }
    }
}

static double plain_cross_entropy(int64_t vocabulary, const float *row, int32_t target)
{
    double largest = -INFINITY;
    double sum = 0.0;
    for (int64_t v = 0; v < vocabulary; v++) {
        largest = fmax(largest, (double)row[v]);
    }
    for (int64_t v = 0; v < vocabulary; v++) {
        sum += exp((double)row[v] - largest);
    }
    return log(sum) + largest - (double)row[target];
}

typedef struct entropy_case {
    int64_t rows, vocabulary, panel; /* classes at once */
    double size;                     /* of the logits */
} entropy_case;

static void check_cross_entropy(backend *b, entropy_case c, const float *x)
{
    int32_t *target = NULL;
    entropy_sums *sums = NULL;
    assert_ok(memory_new(&target, (size_t)c.rows, sizeof *target));
    assert_ok(memory_new(&sums, (size_t)c.rows, sizeof *sums));
    memset(sums, 0xff, (size_t)c.rows * sizeof *sums); /* NaN: the first panel begins anew */
    double *expected = doubles(c.rows, 0.0);
    double *nll = doubles(c.rows, NAN);
    for (int64_t i = 0; i < c.rows; i++) {
        target[i] = (int32_t)(i * 7 % c.vocabulary);
        expected[i] = plain_cross_entropy(c.vocabulary, x + i * c.vocabulary, target[i]);
    }
    OWNED(matrix) bx = values_of(b, c.rows, c.vocabulary, x);
    for (int64_t first = 0; first < c.vocabulary; first += c.panel) {
        const int64_t left = c.vocabulary - first;
        OWNED(matrix) part = blank_values(b, c.rows, left < c.panel ? left : c.panel);
        assert_ok(matrix_copy(matrix_columns(bx, first, part.columns), part));
        assert_ok(matrix_cross_entropy(part, first, target, sums));
    }
    for (int64_t i = 0; i < c.rows; i++) {
        nll[i] = entropy_of(&sums[i]);
    }
    assert_all_near(b, "cross_entropy", c.rows, nll, expected, NULL,
                    16.0 * rounding(b) * (1 + c.size));
    free_blocks(target, sums, expected, nll);
}

BACKEND_TEST(test_cross_entropy_is_the_negative_log_probability_of_the_target)
{
    static const entropy_case cases[] = {
        {0, 5, 5, 1.0},
        {1, 1, 1, 1.0},
        {3, 7, 7, 1.0},
        {3, 7, 1, 1.0},
        {41, 5003, 5003, 3.0},
        {41, 5003, 1000, 3.0},
        {5, 40009, 40009, 1000.0}, /* overflows unless the maximum is taken out */
        {5, 40009, 4096, 1000.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(float) *x = normals(cases[i].rows * cases[i].vocabulary, 10, cases[i].size);
        check_cross_entropy(b, cases[i], x);
    }
}

TEST(test_cross_entropy_takes_panels_whose_maximum_grows_or_falls)
{
    enum { VOCABULARY = 600 };
    float x[2 * VOCABULARY];
    for (int v = 0; v < VOCABULARY; v++) {
        x[v] = 0.01F * (float)v;
        x[VOCABULARY + v] = -0.01F * (float)v;
    }
    FOR_EACH_BACKEND(b)
    {
        check_cross_entropy(b, (entropy_case){2, VOCABULARY, 7, 6.0}, x);
        check_cross_entropy(b, (entropy_case){2, VOCABULARY, VOCABULARY - 1, 6.0}, x);
    }
}

static int64_t found_in(bool lower, matrix m)
{
    int64_t index = -2;
    assert_ok(matrix_find_non_finite(lower, m, &index));
    return index;
}

static int64_t find_at(backend *b, int64_t rows, int64_t columns, int64_t at, float value)
{
    OWNED(float) *x = normals(rows * columns, 11, 1.0);
    if (at >= 0) {
        x[at] = value;
    }
    OWNED(matrix) bx = values_of(b, rows, columns, x);
    return found_in(false, bx);
}

BACKEND_TEST(test_find_non_finite_gives_the_first_index)
{
    enum { ROWS = 11, COLUMNS = 9091, COUNT = ROWS * COLUMNS };
    static const int64_t places[] = {-1, 0, 1, 15, 16, 40000, COUNT - 1};
    assert_int_equal(find_at(b, 0, 4, -1, 0.0F), -1);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        assert_int_equal(find_at(b, ROWS, COLUMNS, places[i], NAN), places[i]);
        assert_int_equal(find_at(b, ROWS, COLUMNS, places[i], -INFINITY), places[i]);
        assert_int_equal(find_at(b, ROWS, COLUMNS, places[i], largest_value(b)), -1);
    }
}

/* Whether a search of a view finds a NaN at element `at` of the whole [7, 9], and at which index.
 */
static int64_t find_in_view(matrix whole, matrix view, int64_t at)
{
    OWNED(double) *values = normal_doubles(matrix_count(whole), 12);
    host_view v = {0};
    values[at] = NAN;
    assert_ok(host_view_open(whole, GRAIL_DTYPE_F64, HOST_WRITES, &v));
    memcpy(v.values, values, (size_t)matrix_count(whole) * sizeof *values);
    assert_ok(host_view_close(&v));
    return found_in(false, view);
}

static void check_find_in_views(backend *b, grail_dtype type)
{
    enum { ROWS = 7, WIDTH = 9 };
    OWNED(matrix) m = blank_of(b, type, ROWS, WIDTH);
    const matrix columns = matrix_columns(m, 2, 4);
    assert_int_equal(find_in_view(m, columns, 0), -1);
    assert_int_equal(find_in_view(m, columns, 3 * WIDTH + 1), -1);
    assert_int_equal(find_in_view(m, columns, 3 * WIDTH + 6), -1);
    assert_int_equal(find_in_view(m, columns, 2), 0);
    assert_int_equal(find_in_view(m, columns, 3 * WIDTH + 4), 3 * 4 + 2);
    assert_int_equal(find_in_view(m, columns, 6 * WIDTH + 5), 6 * 4 + 3);
    assert_int_equal(find_in_view(m, matrix_every_row(m, 3), 5 * WIDTH), -1);
    assert_int_equal(find_in_view(m, matrix_every_row(m, 3), 6 * WIDTH + 8), 2 * WIDTH + 8);
    assert_int_equal(find_in_view(m, matrix_rows(m, 2, 3), 4 * WIDTH), 2 * WIDTH);
}

BACKEND_TEST(test_find_non_finite_searches_views_of_any_type)
{
    check_find_in_views(b, GRAIL_DTYPE_F32);
    check_find_in_views(b, GRAIL_DTYPE_F64);
}

/* A NaN at each element of a square in turn. */
static void check_find_in_lower(backend *b, grail_dtype type, int64_t n, int64_t stride)
{
    for (int64_t at = 0; at < n * n; at++) {
        OWNED(double) *values = normal_doubles(n * stride, 13);
        const int64_t row = at / n;
        const int64_t column = at % n;
        values[row * stride + column] = at % 2 == 0 ? NAN : -INFINITY;
        OWNED(matrix) m = matrix_of(b, type, n, stride, values);
        const matrix square = matrix_columns(m, 0, n);
        assert_int_equal(found_in(true, square), column <= row ? at : -1);
        assert_int_equal(found_in(false, square), at);
    }
}

BACKEND_TEST(test_find_non_finite_may_search_the_lower_triangle_alone)
{
    check_find_in_lower(b, GRAIL_DTYPE_F32, 6, 6);
    check_find_in_lower(b, GRAIL_DTYPE_F32, 5, 8);
    check_find_in_lower(b, GRAIL_DTYPE_F64, 6, 6);
    check_find_in_lower(b, GRAIL_DTYPE_F64, 5, 8);
}

/* -- what is watched --------------------------------------------------------------------------- */

/* The status after a mark with rank 5000 of an f64 matrix whose element `at` is infinite, where it
 * was `before`. */
static double marked(backend *b, bool lower, int64_t at, double before)
{
    enum { N = 9 };
    OWNED(double) *values = normal_doubles(N * N, 14);
    double out = 0.0;
    if (at >= 0) {
        values[at] = at % 2 == 0 ? INFINITY : NAN;
    }
    matrix m = matrix_of(b, GRAIL_DTYPE_F64, N, N, values);
    matrix status = matrix_of(b, GRAIL_DTYPE_F64, 1, 1, &before);
    assert_ok(matrix_mark_non_finite(lower, 5000.0, m, status));
    assert_ok(matrix_download(status, &out));
    free_matrices(&m, &status);
    return out;
}

BACKEND_TEST(test_a_mark_has_the_largest_rank_less_the_first_index)
{
    assert_true(marked(b, false, -1, 0.0) == 0.0 && marked(b, false, -1, 4999.0) == 4999.0);
    assert_true(marked(b, false, 0, 0.0) == 5000.0 && marked(b, false, 80, 0.0) == 4920.0);
    assert_true(marked(b, false, 3, 4999.0) == 4999.0 && marked(b, false, 3, 4990.0) == 4997.0);
    assert_true(marked(b, true, 3, 0.0) == 0.0 && marked(b, true, 27, 0.0) == 4973.0);
}

/* Watches rows of 5 features, the element `at` of which is NaN. */
static grail_status watch_rows(backend *b, int64_t at, const char *text)
{
    OWNED(float) *x = normals(4 * 5, 15, 1.0);
    if (at >= 0) {
        x[at] = NAN;
    }
    OWNED(matrix) m = values_of(b, 4, 5, x);
    return matrix_watch(m, 100, text);
}

BACKEND_TEST(test_the_first_fault_is_told_no_later_than_at_the_end)
{
    for (int i = 0; i < 3; i++) {
        assert_ok(watch_rows(b, -1, "nothing"));
    }
    grail_status status = watch_rows(b, 13, "the second kind");
    status = status == GRAIL_OK ? watch_rows(b, 0, "the third kind") : status;
    assert_fails(backend_settle(b, status), GRAIL_ERROR_NUMERIC,
                 "the second kind at row 2, feature 103");
    assert_ok(watch_rows(b, -1, "nothing"));
    assert_ok(backend_settle(b, GRAIL_OK));
}

BACKEND_TEST(test_rows_of_the_largest_values_are_no_fault)
{
    float x[4 * 5];
    for (int i = 0; i < 4 * 5; i++) {
        x[i] = largest_value(b);
    }
    matrix m = values_of(b, 4, 5, x);
    x[13] = NAN;
    matrix with_nan = values_of(b, 4, 5, x);
    assert_ok(matrix_watch(m, 0, "large values"));
    assert_ok(backend_settle(b, GRAIL_OK));
    assert_int_equal(found_in(false, with_nan), 13);
    free_matrices(&m, &with_nan);
}

BACKEND_TEST(test_a_failure_that_a_fault_led_to_gives_way_to_it)
{
    watch_in("input of 'x'");
    const grail_status first = watch_rows(b, 4, "the rows have a fault");
    watch_in(NULL);
    if (first == GRAIL_OK) { /* a device */
        assert_fails(backend_settle(b, error_set(GRAIL_ERROR_NUMERIC, "no pivot")),
                     GRAIL_ERROR_NUMERIC,
                     "input of 'x': the rows have a fault at row 0, feature 104");
        assert_ok(watch_rows(b, 4, "the rows have a fault"));
        assert_fails(backend_settle(b, error_set(GRAIL_ERROR_MEMORY, "no room")),
                     GRAIL_ERROR_MEMORY, "no room");
    }
    assert_ok(backend_settle(b, GRAIL_OK));
}
