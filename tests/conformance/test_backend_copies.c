/* Copies, gathers and folds: of both types, with any stride. */
#include "conformance/conformance.h"

#include <math.h>

static const grail_dtype types[] = {GRAIL_DTYPE_F32, GRAIL_DTYPE_F64};

enum { TYPES = sizeof types / sizeof types[0] };

/* Values that f32 rounds. */
static double *thirds(int64_t count, uint64_t seed)
{
    double *out = normal_doubles(count, seed);
    for (int64_t i = 0; i < count; i++) {
        out[i] /= 3.0;
    }
    return out;
}

/* A value after it was kept in both types. */
static double as_types(const backend *b, grail_dtype from, grail_dtype to, double value)
{
    const bool both = from == GRAIL_DTYPE_F64 && to == GRAIL_DTYPE_F64;
    const bool narrow = element_size(from) == 2 || element_size(to) == 2;
    return both ? value : (double)(narrow ? held(b, (float)value) : (float)value);
}

/* A matrix that a view is taken of: `border` columns on both sides and rows between its rows. */
typedef struct frame {
    int64_t border, step;
} frame;

static const frame frames[] = {{0, 1}, {3, 1}, {0, 2}, {2, 3}};

enum { FRAMES = sizeof frames / sizeof frames[0] };

static int64_t frame_width(frame f, int64_t columns)
{
    return columns + 2 * f.border;
}

static int64_t frame_count(frame f, int64_t rows, int64_t columns)
{
    return rows * f.step * frame_width(f, columns);
}

/* Index in the whole of an element of the view. */
static int64_t frame_index(frame f, int64_t columns, int64_t row, int64_t column)
{
    return row * f.step * frame_width(f, columns) + f.border + column;
}

static matrix whole_of(backend *b, grail_dtype type, frame f, int64_t rows, int64_t columns,
                       const double *values)
{
    return matrix_of(b, type, rows * f.step, frame_width(f, columns), values);
}

static matrix view_in(matrix whole, frame f)
{
    const matrix inner = matrix_columns(whole, f.border, whole.columns - 2 * f.border);
    return f.step == 1 ? inner : matrix_every_row(inner, f.step);
}

/* -- gathers and copies ------------------------------------------------------------------------ */

typedef struct gather_case {
    grail_dtype from, to;
    frame in, out;
    int64_t in_rows, in_columns, out_rows, out_columns;
    const int64_t *rows, *columns;
} gather_case;

static int64_t listed(const int64_t *list, int64_t i)
{
    return list == NULL ? i : list[i];
}

/* The output of a gather within its frame, in which `values` stay. */
static double *naive_gather(const backend *b, const gather_case *c, const double *in,
                            const double *values)
{
    const int64_t count = frame_count(c->out, c->out_rows, c->out_columns);
    double *out = copy_of_doubles(count, values);
    for (int64_t i = 0; i < count; i++) {
        out[i] = as_types(b, c->to, c->to, out[i]);
    }
    for (int64_t at = 0; at < c->out_rows * c->out_columns; at++) {
        const int64_t row = at / c->out_columns;
        const int64_t column = at % c->out_columns;
        const int64_t from =
            frame_index(c->in, c->in_columns, listed(c->rows, row), listed(c->columns, column));
        out[frame_index(c->out, c->out_columns, row, column)] =
            as_types(b, c->from, c->to, in[from]);
    }
    return out;
}

static bool is_copy(const gather_case *c)
{
    return c->rows == NULL && c->columns == NULL && c->in_rows == c->out_rows &&
           c->in_columns == c->out_columns;
}

static void check_gather(backend *b, const gather_case *c)
{
    double *in = thirds(frame_count(c->in, c->in_rows, c->in_columns), 1);
    double *values = normal_doubles(frame_count(c->out, c->out_rows, c->out_columns), 2);
    double *expected = naive_gather(b, c, in, values);
    matrix from = whole_of(b, c->from, c->in, c->in_rows, c->in_columns, in);
    matrix to = whole_of(b, c->to, c->out, c->out_rows, c->out_columns, values);
    assert_ok(matrix_gather(c->rows, c->columns, view_in(from, c->in), view_in(to, c->out)));
    assert_matrix_near("gather", to, expected, 0.0);
    if (is_copy(c)) {
        OWNED(matrix) copy = whole_of(b, c->to, c->out, c->out_rows, c->out_columns, values);
        assert_ok(matrix_copy(view_in(from, c->in), view_in(copy, c->out)));
        assert_matrix_near("copy", copy, expected, 0.0);
    }
    free_blocks(in, values, expected);
    free_matrices(&from, &to);
}

/* Large matrices are for threads; their frames are not combined. */
static bool is_combined(int64_t elements, frame in, frame out)
{
    return elements < 1000 || (in.border == out.border && in.step == out.step);
}

/* In all types and frames. */
static void check_gathers(backend *b, gather_case c)
{
    for (int i = 0; i < TYPES * TYPES * FRAMES * FRAMES; i++) {
        c.from = types[i % TYPES];
        c.to = types[i / TYPES % TYPES];
        c.in = frames[i / (TYPES * TYPES) % FRAMES];
        c.out = frames[i / (TYPES * TYPES * FRAMES)];
        if (is_combined(c.in_rows * c.in_columns, c.in, c.out)) {
            check_gather(b, &c);
        }
    }
}

static gather_case copy_case(int64_t rows, int64_t columns)
{
    return (gather_case){
        .in_rows = rows, .in_columns = columns, .out_rows = rows, .out_columns = columns};
}

BACKEND_TEST(test_a_copy_has_the_values_in_the_type_of_the_output)
{
    static const int64_t shapes[][2] = {{0, 4}, {4, 0}, {1, 1}, {1, 7}, {13, 1}, {5, 6}, {70, 900}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_gathers(b, copy_case(shapes[i][0], shapes[i][1]));
    }
}

BACKEND_TEST(test_a_gather_takes_the_listed_rows_and_columns)
{
    static const int64_t rows[] = {4, 0, 6, 6};
    static const int64_t columns[] = {8, 2, 2, 0, 1};
    enum { ROWS = sizeof rows / sizeof rows[0], COLUMNS = sizeof columns / sizeof columns[0] };
    check_gathers(b, (gather_case){.in_rows = 7,
                                   .in_columns = 9,
                                   .out_rows = ROWS,
                                   .out_columns = COLUMNS,
                                   .rows = rows,
                                   .columns = columns});
    check_gathers(
        b, (gather_case){
               .in_rows = 7, .in_columns = 9, .out_rows = ROWS, .out_columns = 9, .rows = rows});
    check_gathers(b, (gather_case){.in_rows = 7,
                                   .in_columns = 9,
                                   .out_rows = 7,
                                   .out_columns = COLUMNS,
                                   .columns = columns});
    check_gathers(b, (gather_case){.in_rows = 7,
                                   .in_columns = 9,
                                   .out_rows = 0,
                                   .out_columns = COLUMNS,
                                   .rows = rows,
                                   .columns = columns});
}

BACKEND_TEST(test_a_gather_without_lists_takes_the_first_rows_and_columns)
{
    check_gathers(b, (gather_case){.in_rows = 7, .in_columns = 9, .out_rows = 5, .out_columns = 4});
}

TEST(test_a_gather_may_grow_a_matrix)
{
    enum { COUNT = 300 };
    int64_t rows[COUNT];
    int64_t columns[COUNT];
    for (int64_t i = 0; i < COUNT; i++) {
        rows[i] = (i * 7 + 3) % 11;
        columns[i] = i * i % 5;
    }
    FOR_EACH_BACKEND(b)
    {
        const gather_case c = {.from = backend_type(b),
                               .to = GRAIL_DTYPE_F64,
                               .in = {0, 1},
                               .out = {0, 1},
                               .in_rows = 11,
                               .in_columns = 5,
                               .out_rows = COUNT,
                               .out_columns = COUNT,
                               .rows = rows,
                               .columns = columns};
        check_gather(b, &c);
    }
}

static void check_repeated_copy(backend *b, grail_dtype from, grail_dtype to)
{
    enum { ROWS = 6, COLUMNS = 5 };
    double *values = thirds(COLUMNS, 3);
    double expected[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        expected[i] = as_types(b, from, to, values[i % COLUMNS]);
    }
    matrix row = matrix_of(b, from, 1, COLUMNS, values);
    matrix out = blank_of(b, to, ROWS, COLUMNS);
    assert_ok(matrix_copy(matrix_repeat_row(row, ROWS), out));
    assert_matrix_near("copy of a repeated row", out, expected, 0.0);
    memory_free(values);
    free_matrices(&row, &out);
}

BACKEND_TEST(test_a_copy_spreads_a_repeated_row)
{
    for (int i = 0; i < TYPES * TYPES; i++) {
        check_repeated_copy(b, types[i % TYPES], types[i / TYPES]);
    }
}

/* out begins where in does; its rows lie `stride` apart. */
static void check_gather_in_place(backend *b, grail_dtype type, const int64_t *rows,
                                  int64_t out_rows, const int64_t *columns, int64_t out_columns,
                                  int64_t stride)
{
    enum { ROWS = 40, COLUMNS = 9 };
    double *values = normal_doubles(ROWS * COLUMNS, 4);
    double *expected = doubles(out_rows * out_columns, 0.0);
    for (int64_t at = 0; at < out_rows * out_columns; at++) {
        expected[at] =
            values[listed(rows, at / out_columns) * COLUMNS + listed(columns, at % out_columns)];
    }
    OWNED(matrix) m = matrix_of(b, type, ROWS, COLUMNS, values);
    matrix packed = matrix_reshape(m, 1, ROWS * COLUMNS);
    packed = matrix_reshape(matrix_columns(packed, 0, out_rows * stride), out_rows, stride);
    const matrix out = matrix_columns(packed, 0, out_columns);
    assert_ok(matrix_gather(rows, columns, m, out));
    assert_matrix_near("gather in place", out, expected, 0.0);
    free_blocks(values, expected);
}

BACKEND_TEST(test_a_gather_may_narrow_a_matrix_in_place)
{
    static const int64_t rows[] = {0, 1, 5, 6, 7, 20, 38, 39};
    static const int64_t columns[] = {1, 2, 5, 8};
    enum { ALL_ROWS = 40, ALL_COLUMNS = 9, ROWS = 8, COLUMNS = 4 };
    for (int t = 0; t < TYPES; t++) {
        check_gather_in_place(b, types[t], rows, ROWS, columns, COLUMNS, COLUMNS);
        check_gather_in_place(b, types[t], rows, ROWS, NULL, ALL_COLUMNS, ALL_COLUMNS);
        check_gather_in_place(b, types[t], NULL, ALL_ROWS, columns, COLUMNS, COLUMNS);
        check_gather_in_place(b, types[t], NULL, ALL_ROWS, NULL, 6, 6);
        check_gather_in_place(b, types[t], rows, ROWS, columns, COLUMNS, ALL_COLUMNS);
        check_gather_in_place(b, types[t], NULL, ALL_ROWS, columns, COLUMNS, COLUMNS + 2);
    }
}

/* Large enough for several threads: they may not overtake each other. */
TEST(test_a_large_matrix_is_narrowed_in_place)
{
    enum { ROWS = 3000, COLUMNS = 100, KEPT = 60 };
    int64_t columns[KEPT];
    for (int64_t j = 0; j < KEPT; j++) {
        columns[j] = j * COLUMNS / KEPT;
    }
    double *values = normal_doubles(ROWS * COLUMNS, 5);
    double *expected = doubles(ROWS * KEPT, 0.0);
    for (int64_t at = 0; at < ROWS * KEPT; at++) {
        expected[at] = values[at / KEPT * COLUMNS + columns[at % KEPT]];
    }
    FOR_EACH_BACKEND(b)
    {
        OWNED(matrix) m = matrix_of(b, GRAIL_DTYPE_F64, ROWS, COLUMNS, values);
        const matrix all = matrix_reshape(m, 1, ROWS * COLUMNS);
        const matrix out = matrix_reshape(matrix_columns(all, 0, ROWS * KEPT), ROWS, KEPT);
        assert_ok(matrix_gather(NULL, columns, m, out));
        assert_matrix_near("large gather in place", out, expected, 0.0);
    }
    free_blocks(values, expected);
}

/* -- folds ------------------------------------------------------------------------------------- */

typedef struct fold_case {
    grail_dtype type;
    frame in, out;
    bool by_columns;
    int64_t other; /* size of the side that is not folded */
    int64_t features;
} fold_case;

enum { UNITS = 7, FOLDED = 3 };

static const int64_t labels[UNITS] = {2, 0, 2, 1, 1, 2, 0};
static const double share[FOLDED] = {0.5, 0.25, 1.0 / 3.0};

/* Element of a view of the case by folded feature and the other index. */
static int64_t fold_index(const fold_case *c, frame f, int64_t units, int64_t feature,
                          int64_t other)
{
    return c->by_columns ? frame_index(f, units * c->features, other, feature)
                         : frame_index(f, c->other, feature, other);
}

static double *naive_fold(const fold_case *c, const double *in, const double *before, int64_t count)
{
    double *out = copy_of_doubles(count, before);
    for (int64_t at = 0; at < UNITS * c->features * c->other; at++) {
        const int64_t feature = at / c->other;
        const int64_t label = labels[feature / c->features];
        const int64_t folded = label * c->features + feature % c->features;
        out[fold_index(c, c->out, FOLDED, folded, at % c->other)] +=
            share[label] * in[fold_index(c, c->in, UNITS, feature, at % c->other)];
    }
    return out;
}

static void check_fold(backend *b, const fold_case *c)
{
    const int64_t in_rows = c->by_columns ? c->other : UNITS * c->features;
    const int64_t in_columns = c->by_columns ? UNITS * c->features : c->other;
    const int64_t out_rows = c->by_columns ? c->other : FOLDED * c->features;
    const int64_t out_columns = c->by_columns ? FOLDED * c->features : c->other;
    const int64_t count = frame_count(c->out, out_rows, out_columns);
    double *in = normal_doubles(frame_count(c->in, in_rows, in_columns), 6);
    double *before = normal_doubles(count, 7);
    double *expected = naive_fold(c, in, before, count);
    matrix from = whole_of(b, c->type, c->in, in_rows, in_columns, in);
    matrix to = whole_of(b, c->type, c->out, out_rows, out_columns, before);
    const matrix view = view_in(from, c->in);
    const matrix out = view_in(to, c->out);
    assert_ok(c->by_columns ? matrix_fold_columns(UNITS, labels, share, view, out)
                            : matrix_fold_rows(UNITS, labels, share, view, out));
    assert_matrix_near(c->by_columns ? "fold_columns" : "fold_rows", to, expected,
                       32.0 * rounding_of(c->type));
    free_blocks(in, before, expected);
    free_matrices(&from, &to);
}

static void check_folds(backend *b, bool by_columns)
{
    static const int64_t sizes[][2] = {{0, 3}, {1, 1}, {5, 1}, {6, 4}, {300, 50}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] * TYPES * FRAMES * FRAMES; i++) {
        const int64_t *size = sizes[i / (TYPES * FRAMES * FRAMES)];
        const fold_case c = {.type = types[i % TYPES],
                             .in = frames[i / TYPES % FRAMES],
                             .out = frames[i / (TYPES * FRAMES) % FRAMES],
                             .by_columns = by_columns,
                             .other = size[0],
                             .features = size[1]};
        if (is_combined(c.other * c.features, c.in, c.out)) {
            check_fold(b, &c);
        }
    }
}

BACKEND_TEST(test_folded_columns_add_up_with_their_shares)
{
    check_folds(b, true);
}

BACKEND_TEST(test_folded_rows_add_up_with_their_shares)
{
    check_folds(b, false);
}

BACKEND_TEST(test_zero_reaches_the_view_and_nothing_else)
{
    for (int t = 0; t < TYPES; t++) {
        double *values = thirds(7 * 5, 3);
        matrix whole = matrix_of(b, types[t], 7, 5, values);
        double *before = results_of(whole);
        assert_ok(matrix_zero(matrix_every_row(matrix_columns(whole, 1, 3), 2)));
        double *after = results_of(whole);
        for (int64_t i = 0; i < 7 * 5; i++) {
            const bool inside = i / 5 % 2 == 0 && i % 5 >= 1 && i % 5 < 4;
            assert_true(after[i] == (inside ? 0.0 : before[i]));
        }
        free_blocks(values, before, after);
        free_matrices(&whole);
    }
}

BACKEND_TEST(test_rows_are_taken_by_a_list_of_the_instance)
{
    enum { ROWS = 9, WIDE = 7, FEW = 4 };
    static const double list[FEW] = {7, 0, 3, 8};
    float *x = normals(ROWS * WIDE, 31, 1.0);
    matrix bx = values_of(b, ROWS, WIDE, x);
    matrix index = matrix_of(b, GRAIL_DTYPE_F64, 1, FEW, list);
    matrix y = blank_values(b, FEW, WIDE - 2);
    const matrix in = matrix_columns(bx, 1, WIDE - 2);
    assert_ok(matrix_take_rows(index, in, y));
    assert_ok(matrix_take_rows(matrix_columns(index, 1, 0), in, matrix_rows(y, 0, 0)));
    double *actual = results_of(y);
    for (int i = 0; i < FEW * (WIDE - 2); i++) {
        const int row = (int)list[i / (WIDE - 2)];
        assert_true(actual[i] == (double)x[row * WIDE + 1 + i % (WIDE - 2)]);
    }
    free_blocks(x, actual);
    free_matrices(&bx, &index, &y);
}

/* Rows that are not in the list keep their values. */
static void check_added_rows(backend *b, bool has_shares)
{
    enum { ROWS = 9, WIDE = 7, FEW = 4 };
    static const double list[FEW] = {7, 0, 3, 8};
    static const double shares[FEW] = {0.25, 1.0, 0.5, 0.75};
    float *x = normals(FEW * WIDE, 31, 1.0);
    float *y = normals(ROWS * WIDE, 32, 1.0);
    matrix bx = values_of(b, FEW, WIDE, x);
    matrix by = values_of(b, ROWS, WIDE, y);
    matrix index = matrix_of(b, GRAIL_DTYPE_F64, 1, FEW, list);
    matrix factor = has_shares ? matrix_of(b, GRAIL_DTYPE_F64, 1, FEW, shares) : no_matrix;
    double *scale = doubles(ROWS * WIDE, 1.0);
    double *expected = results_of(by);
    for (int i = 0; i < FEW * WIDE; i++) {
        expected[(int)list[i / WIDE] * WIDE + i % WIDE] +=
            (has_shares ? shares[i / WIDE] : 1.0) * (double)x[i];
    }
    assert_ok(matrix_add_rows(index, factor, bx, by));
    assert_ok(matrix_add_rows(matrix_columns(index, 0, 0), no_matrix, matrix_rows(bx, 0, 0), by));
    double *actual = results_of(by);
    assert_all_near(b, "add_rows", ROWS * WIDE, actual, expected, scale, 8.0 * rounding(b));
    free_blocks(x, y, scale, expected, actual);
    free_matrices(&bx, &by, &index, &factor);
}

BACKEND_TEST(test_rows_are_added_by_a_list_of_the_instance)
{
    check_added_rows(b, true);
    check_added_rows(b, false);
}

BACKEND_TEST(test_rows_with_shares_are_listed)
{
    enum { ROWS = 4, OUTPUTS = 5, ALL = ROWS * OUTPUTS, CHOSEN = 6 };
    static const double shares[ALL] = {0, 0.5, 0, 0.5, 0, 0, 0, 0,   0.75, 0.25,
                                       0, 0,   0, 0,   0, 0, 1, 0.5, 0,    0};
    static const double rows[CHOSEN] = {0, 3, 3, 0, 1, 1};
    static const double found[CHOSEN] = {0.5, 1, 0.5, 0.5, 0.75, 0.25};
    static const double begins[OUTPUTS + 1] = {0, 0, 2, 3, 5, 6};
    double numbers[2][ALL];
    double begin[OUTPUTS + 1];
    matrix s = matrix_of(b, backend_type(b), ROWS, OUTPUTS, shares);
    matrix index = blank_of(b, GRAIL_DTYPE_F64, 1, ALL);
    matrix by = blank_of(b, GRAIL_DTYPE_F64, 1, ALL);
    matrix of = blank_of(b, GRAIL_DTYPE_F64, 1, OUTPUTS + 1);
    assert_ok(matrix_list_rows(s, index, by, of));
    assert_ok(matrix_download(index, numbers[0]));
    assert_ok(matrix_download(by, numbers[1]));
    assert_ok(matrix_download(of, begin));
    for (int i = 0; i < ALL; i++) {
        assert_true(numbers[0][i] == (i < CHOSEN ? rows[i] : 0.0));
        assert_true(numbers[1][i] == (i < CHOSEN ? found[i] : 0.0));
    }
    assert_memory_equal(begin, begins, sizeof begin);
    free_matrices(&s, &index, &by, &of);
}

BACKEND_TEST(test_columns_are_taken_by_a_list_of_the_instance)
{
    enum { ROWS = 5, WIDE = 9, NARROW = 4 };
    static const double list[NARROW] = {7, 0, 3, 8};
    float *x = normals(ROWS * WIDE, 31, 1.0);
    matrix bx = values_of(b, ROWS, WIDE, x);
    matrix index = matrix_of(b, GRAIL_DTYPE_F64, 1, NARROW, list);
    matrix y = blank_values(b, ROWS, NARROW);
    matrix none = blank_values(b, 0, NARROW);
    assert_ok(matrix_take_columns(index, bx, y));
    assert_ok(matrix_take_columns(index, matrix_rows(bx, 0, 0), none));
    double *actual = results_of(y);
    for (int i = 0; i < ROWS * NARROW; i++) {
        assert_true(actual[i] == (double)x[i / NARROW * WIDE + (int)list[i % NARROW]]);
    }
    free_blocks(x, actual);
    free_matrices(&bx, &index, &y, &none);
}

/* Halfway between two numbers it is the even one. What stands beside a view stays. */
BACKEND_TEST(test_values_are_rounded_to_16_bits)
{
    static const double values[] = {1.00390625,    1.01171875, 1.0 / 3.0, -3e38, 1e-30,
                                    1.00048828125, 65504.0,    0x1p-25,   0.1,   0x1.8p-24};
    static const double expected[] = {1.0, 1.015625, 0.333984375, -3e38,           1e-30,
                                      1.0, 65504.0,  0.0,         0.0999755859375, 0x1p-23};
    static const grail_dtype stored[] = {GRAIL_DTYPE_BF16, GRAIL_DTYPE_F16};
    enum { ROWS = 2, COLUMNS = 5, BORDER = 1 };
    for (int r = 0; r < ROWS; r++) {
        static const double zeros[3 * (COLUMNS + 2 * BORDER)];
        matrix whole = matrix_of(b, backend_master_type(b), 3, COLUMNS + 2 * BORDER, zeros);
        const matrix x = matrix_columns(matrix_rows(whole, 1, 1), BORDER, COLUMNS);
        matrix row = matrix_of(b, x.type, 1, COLUMNS, values + r * COLUMNS);
        assert_ok(matrix_copy(row, x));
        assert_ok(matrix_round_to(stored[r], x));
        double *found = results_of(whole);
        for (int i = 0; i < COLUMNS; i++) {
            const double wanted = expected[r * COLUMNS + i];
            const double unit = r == 0 && i > 2 ? 0x1p-8 : 0.0; /* decimal numbers, roughly */
            assert_near(found[(COLUMNS + 2 * BORDER) + BORDER + i], wanted, unit * fabs(wanted));
        }
        assert_true(found[0] == 0.0 && found[COLUMNS + 2 * BORDER] == 0.0);
        memory_free(found);
        free_matrices(&row, &whole);
    }
}
