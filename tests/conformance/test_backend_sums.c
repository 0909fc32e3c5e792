/* Gram, cross products and column sums: f64 totals that are added to what is there. */
#include "conformance/conformance.h"

#include <float.h>
#include <string.h>

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

/* What products of this many multiplications are off by: f32 errors of a panel are bounded by its
 * rows but behave like their root; large ones of two parts of bf16 by 3 * 2^-16 (test_cpu_split.c).
 */
static double sum_rounding(const backend *b, int64_t multiplications)
{
    enum { LEAST_OF_PARTS = 1 << 27 };
    const char *precision = backend_precision(b);
    const bool in_parts = multiplications > LEAST_OF_PARTS &&
                          (strcmp(precision, "bf16") == 0 || strcmp(precision, "bf16x3") == 0);
    return 24.0 * rounding(b) + (in_parts ? 3.0 * 0x1p-16 : 0.0);
}

static void assert_sum(backend *b, double rounding_of_sum, const char *what, int64_t i, int64_t j,
                       double actual, double sum, double size)
{
    const double allowed = rounding_of_sum * size + 1e-14 * initial;
    if (!(fabs(actual - initial - sum) <= allowed)) {
        fail_msg("%s %s[%lld, %lld] is %.17g, expected %.17g within %.3g", backend_name(b), what,
                 (long long)i, (long long)j, actual, initial + sum, allowed);
    }
}

/* The values, which the backend was given as they were, become those that it adds up. */
static void take_as_summed(const backend *b, int64_t count, float *x)
{
    for (int64_t i = 0; i < count; i++) {
        x[i] = as_summed(b, x[i]);
    }
}

/* Checks all entries of small results and every 97th of large ones, where every entry would take
 * the naive loops too long; 97 is prime to the tile sizes, so all places in a tile occur. */
static bool is_checked(int64_t index, int64_t count)
{
    return count <= 40000 || index % 97 == 0;
}

static void check_gram(backend *b, int64_t rows, int64_t width, int64_t stride)
{
    float *x = normals(rows * stride, 1, 1.0);
    double *g = doubles(width * width, initial);
    for (int64_t i = 0; i < width * width; i++) {
        g[i] = i % width > i / width ? untouched : initial;
    }
    matrix bx = values_of(b, rows, stride, x);
    matrix bg = matrix_of(b, GRAIL_DTYPE_F64, width, width, g);
    take_as_summed(b, rows * stride, x);
    assert_ok(matrix_gram(matrix_columns(bx, 0, width), bg));
    memory_free(g);
    g = results_of(bg);
    for (int64_t at = 0; at < width * width; at++) {
        const int64_t i = at / width;
        const int64_t j = at % width;
        if (j > i) {
            assert_true(g[at] == untouched);
        } else if (is_checked(at, width * width)) {
            double size = 0.0;
            const double sum = naive_product(rows, x, stride, i, x, stride, j, &size);
            assert_sum(b, sum_rounding(b, rows * width * width), "gram", i, j, g[at], sum, size);
        }
    }
    free_blocks(g, x);
    free_matrices(&bx, &bg);
}

BACKEND_TEST(test_gram_adds_to_the_lower_triangle_alone)
{
    static const int64_t shapes[][3] = {
        {0, 5, 5},      {3, 0, 0},        {1, 1, 1},       {1, 7, 9},      {7, 5, 5},
        {13, 31, 40},   {100, 127, 127},  {2049, 3, 3},    {9001, 17, 20}, {33, 768, 768},
        {50, 769, 769}, {61, 1601, 1610}, {513, 100, 103}, {2050, 64, 64},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_gram(b, shapes[i][0], shapes[i][1], shapes[i][2]);
    }
}

BACKEND_TEST(test_gram_of_many_rows_in_several_tiles)
{
    check_gram(b, 4099, 781, 781);
}

/* All products are 1.1 * 1.1 or so, the worst case for a running f32 sum, which is off by 1e-6. */
BACKEND_TEST(test_gram_totals_are_f64)
{
    enum { ROWS = 1000000, WIDTH = 3 };
    float *x = normals(ROWS * WIDTH, 2, 1e-3);
    for (int64_t i = 0; i < ROWS * WIDTH; i++) {
        x[i] = held(b, x[i] + 1.1F);
    }
    static const double zeros[WIDTH * WIDTH] = {0.0};
    matrix bx = values_of(b, ROWS, WIDTH, x);
    matrix bg = matrix_of(b, GRAIL_DTYPE_F64, WIDTH, WIDTH, zeros);
    assert_ok(matrix_gram(bx, bg));
    double *g = results_of(bg);
    double size = 0.0;
    take_as_summed(b, ROWS * WIDTH, x);
    const double sum = naive_product(ROWS, x, WIDTH, 2, x, WIDTH, 1, &size);
    /* In 16 bits the values are all the same, and so are the errors of a panel's sum. */
    const bool are_same =
        element_size(bx.type) == 2 || strcmp(backend_precision(b), "bf16-gram") == 0;
    assert_near(g[2 * WIDTH + 1] / sum, 1.0, are_same ? backend_gram_rounding(b, ROWS) : 1e-7);
    free_blocks(g, x);
    free_matrices(&bx, &bg);
}

static void check_cross(backend *b, int64_t rows, int64_t m, int64_t y_stride, int64_t n,
                        int64_t x_stride)
{
    float *y = normals(rows * y_stride, 3, 1.0);
    float *x = normals(rows * x_stride, 4, 1.0);
    double *before = doubles(m * n, initial);
    matrix by = values_of(b, rows, y_stride, y);
    matrix bx = values_of(b, rows, x_stride, x);
    matrix bc = matrix_of(b, GRAIL_DTYPE_F64, m, n, before);
    take_as_summed(b, rows * y_stride, y);
    take_as_summed(b, rows * x_stride, x);
    assert_ok(matrix_cross(matrix_columns(by, 0, m), matrix_columns(bx, 0, n), bc));
    double *c = results_of(bc);
    for (int64_t at = 0; at < m * n; at++) {
        if (is_checked(at, m * n)) {
            double size = 0.0;
            const double sum = naive_product(rows, y, y_stride, at / n, x, x_stride, at % n, &size);
            assert_sum(b, sum_rounding(b, rows * m * n), "cross", at / n, at % n, c[at], sum, size);
        }
    }
    free_blocks(y, x, before, c);
    free_matrices(&by, &bx, &bc);
}

BACKEND_TEST(test_cross_adds_products_of_columns)
{
    static const int64_t shapes[][5] = {
        {0, 2, 2, 3, 3},          {4, 0, 1, 3, 3},        {4, 3, 3, 0, 1},
        {1, 1, 1, 1, 1},          {7, 5, 6, 3, 4},        {4099, 11, 11, 2, 7},
        {100, 31, 31, 127, 130},  {20, 1, 1, 1700, 1700}, {30, 1543, 1550, 2, 2},
        {40, 800, 801, 900, 911},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_cross(b, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], shapes[i][4]);
    }
}

static void check_column_sums(backend *b, int64_t rows, int64_t width, int64_t stride, bool sums,
                              bool squares, bool weighs)
{
    float *x = normals(rows * stride, 5, 1.0);
    double *weights = normal_doubles(rows, 6);
    double *before = doubles(width, initial);
    double *expected_sum = doubles(width, initial);
    double *expected_square = doubles(width, initial);
    for (int64_t i = 0; i < rows * width; i++) {
        const double value = (double)as_summed(b, x[i / width * stride + i % width]);
        const double weight = weighs ? weights[i / width] : 1.0;
        expected_sum[i % width] += sums ? weight * value : 0.0;
        expected_square[i % width] += squares ? weight * value * value : 0.0;
    }
    matrix bx = values_of(b, rows, stride, x);
    matrix weight = matrix_of(b, GRAIL_DTYPE_F64, 1, rows, weights);
    matrix sum = matrix_of(b, GRAIL_DTYPE_F64, 1, width, before);
    matrix square = matrix_of(b, GRAIL_DTYPE_F64, 1, width, before);
    assert_ok(matrix_column_sums(matrix_columns(bx, 0, width), weighs ? weight : no_matrix,
                                 sums ? sum : no_matrix, squares ? square : no_matrix));
    assert_matrix_near("column sums", sum, expected_sum, 1e-11);
    assert_matrix_near("column squares", square, expected_square, 1e-10);
    free_blocks(x, weights, before, expected_sum, expected_square);
    free_matrices(&bx, &weight, &sum, &square);
}

BACKEND_TEST(test_column_sums_are_f64_and_optional)
{
    for (int weighs = 0; weighs < 2; weighs++) {
        check_column_sums(b, 0, 3, 3, true, true, weighs);
        check_column_sums(b, 1, 1, 1, true, true, weighs);
        check_column_sums(b, 1009, 31, 37, true, true, weighs);
        check_column_sums(b, 17, 1301, 1301, true, false, weighs);
        check_column_sums(b, 17, 1301, 1301, false, true, weighs);
        check_column_sums(b, 17, 1301, 1301, false, false, weighs);
    }
}

static void check_repeated_sums(backend *b, matrix x, matrix row)
{
    enum { WIDTH = 5 };
    const matrix repeated = matrix_repeat_row(row, x.rows);
    double *zeros = doubles(2 * WIDTH * WIDTH, 0.0);
    matrix sums[4]; /* gram, cross and column sums of the repeated row, then of its copies */
    for (int i = 0; i < 4; i++) {
        sums[i] = matrix_of(b, GRAIL_DTYPE_F64, 2 * WIDTH, WIDTH, zeros);
    }
    for (int i = 0; i < 2; i++) {
        const matrix y = i == 0 ? repeated : x;
        assert_ok(matrix_gram(y, matrix_rows(sums[2 * i], 0, WIDTH)));
        assert_ok(matrix_cross(x, y, matrix_rows(sums[2 * i], WIDTH, WIDTH)));
        assert_ok(matrix_cross(y, x, matrix_rows(sums[2 * i + 1], 0, WIDTH)));
        assert_ok(matrix_column_sums(y, no_matrix, matrix_rows(sums[2 * i + 1], WIDTH, 1),
                                     matrix_rows(sums[2 * i + 1], WIDTH + 1, 1)));
    }
    for (int i = 0; i < 2; i++) {
        OWNED(double) *expected = results_of(sums[2 + i]);
        assert_matrix_near("sums of a repeated row", sums[i], expected, 1e-4);
    }
    memory_free(zeros);
    free_matrices(&sums[0], &sums[1], &sums[2], &sums[3]);
}

/* rows[rows, VALUES] of values that differ from column to column only, and weights of the rows. */
enum { VALUES = 48, WEIGHTED_ROWS = 10001 };

static void fill_constants(int64_t rows, float *x)
{
    OWNED(float) *value = normals(VALUES, 11, 1.0);
    for (int64_t i = 0; i < rows * VALUES; i++) {
        x[i] = i % VALUES == 0 ? 1000.0F : value[i % VALUES] * (float)(1 + i % VALUES);
    }
}

/* root[rows] of weights, as roots of weights of tokens: of many sizes, not of f32; powers of two
 * for values of 16 bits. */
static double *roots_of(const backend *b, int64_t rows)
{
    double *root = normal_doubles(rows, 12);
    for (int64_t i = 0; i < rows; i++) {
        root[i] = exp(0.5 * root[i]);
        root[i] = element_size(backend_type(b)) == 2 ? exp2(rint(log2(root[i]))) : root[i];
    }
    return root;
}

/* The sums of a constant feature, weighted as statistics weight their rows (root NULL: not), leave
 * no more than the bound that the backend states. */
static double largest_residue(backend *b, int64_t rows, const double *root)
{
    OWNED(float) *x = NULL;
    double weight = root == NULL ? (double)rows : 0.0;
    double largest = 0.0;
    assert_ok(memory_new(&x, (size_t)(rows * VALUES), sizeof *x));
    fill_constants(rows, x);
    OWNED(matrix) values = values_of(b, rows, VALUES, x);
    OWNED(double) *zeros = doubles(VALUES * VALUES, 0.0);
    OWNED(matrix) gram = matrix_of(b, GRAIL_DTYPE_F64, VALUES, VALUES, zeros);
    OWNED(matrix) sum = matrix_of(b, GRAIL_DTYPE_F64, 1, VALUES, zeros);
    if (root == NULL) {
        assert_ok(matrix_gram(values, gram));
        assert_ok(matrix_column_sums(values, no_matrix, sum, no_matrix));
    } else {
        OWNED(matrix) factors = matrix_of(b, GRAIL_DTYPE_F64, 1, rows, root);
        assert_ok(matrix_scale_rows(factors, values, values));
        assert_ok(matrix_gram(values, gram));
        assert_ok(matrix_column_sums(values, factors, sum, no_matrix));
    }
    for (int64_t i = 0; root != NULL && i < rows; i++) {
        weight += root[i] * root[i];
    }
    OWNED(double) *g = results_of(gram);
    OWNED(double) *s = results_of(sum);
    for (int64_t j = 0; j < VALUES; j++) {
        const double square = g[j * VALUES + j];
        largest = fmax(largest, fabs(square - s[j] * s[j] / weight) / square);
    }
    return largest;
}

BACKEND_TEST(test_sums_of_constant_features_agree_within_the_stated_rounding)
{
    static const int64_t rows[] = {3, 1000, 4096, WEIGHTED_ROWS};
    OWNED(double) *root = roots_of(b, WEIGHTED_ROWS);
    for (int i = 0; i < 8; i++) {
        const int64_t count = rows[i % 4];
        const double residue = largest_residue(b, count, i < 4 ? NULL : root);
        const double bound = backend_gram_rounding(b, count) + (double)(count + 4) * DBL_EPSILON;
        if (!(residue <= bound)) {
            fail_msg("%s %s leaves %g of constant features in %lld rows, states %g",
                     backend_name(b), backend_precision(b), residue, (long long)count, bound);
        }
    }
}

TEST(test_sums_take_a_repeated_row)
{
    enum { ROWS = 50, WIDTH = 5 };
    float values[ROWS * WIDTH];
    OWNED(float) *row = normals(WIDTH, 7, 1.0);
    for (int i = 0; i < ROWS * WIDTH; i++) {
        values[i] = row[i % WIDTH];
    }
    FOR_EACH_BACKEND(b)
    {
        matrix x = values_of(b, ROWS, WIDTH, values);
        matrix one = values_of(b, 1, WIDTH, row);
        check_repeated_sums(b, x, one);
        free_matrices(&x, &one);
    }
}

typedef struct sums_case {
    matrix x, out;
} sums_case;

static grail_status run_gram(void *context)
{
    const sums_case *c = context;
    return matrix_gram(c->x, c->out);
}

static grail_status run_cross(void *context)
{
    const sums_case *c = context;
    return matrix_cross(c->x, c->x, c->out);
}

BACKEND_TEST(test_sums_report_lack_of_memory)
{
    static const int64_t widths[] = {5, 900};
    for (int i = 0; i < 2; i++) {
        OWNED(float) *x = normals(3 * widths[i], 6, 1.0);
        sums_case c = {values_of(b, 3, widths[i], x),
                       blank_of(b, GRAIL_DTYPE_F64, widths[i], widths[i])};
        support_fail_each_allocation(run_gram, &c);
        support_fail_each_allocation(run_cross, &c);
        free_matrices(&c.x, &c.out);
    }
}
