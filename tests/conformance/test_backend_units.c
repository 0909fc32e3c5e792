/* Elimination of units: each of its operations against its formula. */
#include "conformance/conformance.h"

#include <float.h>
#include <string.h>

enum { UNITS = 6, PADDING = 2, UNIT = 4 /* the one that is eliminated */ };

static const int64_t sizes[] = {1, 3, 20};

static void for_each_size(backend *b, void (*check)(backend *b, int64_t u))
{
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check(b, sizes[i]);
    }
}

/* X^T X / u + I / 4 in each of `count` blocks [u, u]. */
static double *definite_blocks(int64_t count, int64_t u, uint64_t seed)
{
    OWNED(double) *x = normal_doubles(count * u * u, seed);
    double *blocks = doubles(count * u * u, 0.0);
    for (int64_t at = 0; at < count * u * u; at++) {
        const double *own = x + at / (u * u) * u * u;
        const int64_t i = at / u % u;
        const int64_t j = at % u;
        blocks[at] = i == j ? 0.25 : 0.0;
        for (int64_t k = 0; k < u; k++) {
            blocks[at] += own[k * u + i] * own[k * u + j] / (double)u;
        }
    }
    return blocks;
}

/* T = L^-1 of A + jitter I = L L^T */
static double *naive_inverse_factor(int64_t u, double jitter, const double *a)
{
    OWNED(double) *l = doubles(u * u, 0.0);
    double *t = doubles(u * u, 0.0);
    for (int64_t i = 0; i < u; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double rest = a[i * u + j] + (i == j ? jitter : 0.0);
            for (int64_t k = 0; k < j; k++) {
                rest -= l[i * u + k] * l[j * u + k];
            }
            l[i * u + j] = i == j ? sqrt(rest) : rest / l[j * u + j];
        }
    }
    for (int64_t j = 0; j < u; j++) {
        for (int64_t i = j; i < u; i++) {
            double rest = i == j ? 1.0 : 0.0;
            for (int64_t k = j; k < i; k++) {
                rest -= l[i * u + k] * t[k * u + j];
            }
            t[i * u + j] = rest / l[i * u + i];
        }
    }
    return t;
}

/* C[u, u] = op(A) B */
static double *naive_product(int64_t u, bool transpose, const double *a, const double *b)
{
    double *c = doubles(u * u, 0.0);
    for (int64_t at = 0; at < u * u * u; at++) {
        const int64_t i = at / (u * u);
        const int64_t j = at / u % u;
        const int64_t k = at % u;
        c[i * u + j] += (transpose ? a[k * u + i] : a[i * u + k]) * b[k * u + j];
    }
    return c;
}

/* A[n, n] with `padding` behind, and NaN there and above the diagonal. */
static double *lower_of(int64_t n, uint64_t seed)
{
    double *a = normal_doubles(n * (n + PADDING), seed);
    for (int64_t at = 0; at < n * (n + PADDING); at++) {
        a[at] = at % (n + PADDING) > at / (n + PADDING) ? (double)NAN : a[at];
    }
    return a;
}

static double element_of(int64_t n, const double *a, int64_t i, int64_t j)
{
    return i < j ? a[j * (n + PADDING) + i] : a[i * (n + PADDING) + j];
}

/* Blocks of A, then of M. */
static matrix blocks_of(backend *b, int64_t u, const double *a, const double *m)
{
    const int64_t count = UNITS * u * u;
    OWNED(double) *both = doubles(2 * count, 0.0);
    memcpy(both, a, (size_t)count * sizeof *both);
    memcpy(both + count, m, (size_t)count * sizeof *both);
    const matrix blocks = matrix_of(b, GRAIL_DTYPE_F64, 2 * UNITS, u * u, both);
    return blocks;
}

static void check_blocks(backend *b, int64_t u)
{
    const int64_t n = UNITS * u;
    double *a = lower_of(n, 3);
    double *m = lower_of(n, 4);
    double *expected = doubles(2 * n * u, 0.0);
    for (int64_t at = 0; at < 2 * n * u; at++) {
        const int64_t first = at / (u * u) % UNITS * u;
        expected[at] = element_of(n, at < n * u ? a : m, first + at / u % u, first + at % u);
    }
    matrix ba = matrix_of(b, GRAIL_DTYPE_F64, n, n + PADDING, a);
    matrix bm = matrix_of(b, GRAIL_DTYPE_F64, n, n + PADDING, m);
    matrix blocks = blank_of(b, GRAIL_DTYPE_F64, 2 * UNITS, u * u);
    assert_ok(matrix_unit_blocks(matrix_columns(ba, 0, n), matrix_columns(bm, 0, n), blocks));
    assert_matrix_near("unit_blocks", blocks, expected, 0.0);
    free_blocks(a, m, expected);
    free_matrices(&ba, &bm, &blocks);
}

BACKEND_TEST(test_blocks_are_those_on_the_diagonal)
{
    for_each_size(b, check_blocks);
}

/* -- values ------------------------------------------------------------------------------------ */

static double naive_value(int64_t u, unit_value kind, double jitter, const double *a,
                          const double *m)
{
    double value = 0.0;
    double *t = naive_inverse_factor(u, jitter, a);
    double *inverse = naive_product(u, true, t, t);
    for (int64_t i = 0; i < u; i++) {
        for (int64_t j = 0; j < u && kind == VALUE_EXACT; j++) {
            value += inverse[i * u + j] * m[i * u + j];
        }
        value += kind == VALUE_CHOLESKY ? m[i * u + i] * t[i * u + i] * t[i * u + i] : 0.0;
    }
    free_blocks(t, inverse);
    return fmax(value, 0.0);
}

/* Unit 1 is gone, 2 has a block that is not definite, and 3 would be worth less than 0. */
static void check_values_of(backend *b, int64_t u, unit_value kind, double jitter, double missing)
{
    double gone[UNITS] = {0.0, INFINITY};
    double *a = definite_blocks(UNITS, u, 4);
    double *m = definite_blocks(UNITS, u, 5);
    double *expected = doubles(UNITS, 0.0);
    a[u * u] = -1.0;
    a[3 * u * u - 1] = -1.0;
    for (int64_t i = 3 * u * u; i < 4 * u * u; i++) {
        m[i] = -m[i];
    }
    for (int64_t j = 0; j < UNITS; j++) {
        expected[j] = j == 1   ? 0.0
                      : j == 2 ? missing
                               : naive_value(u, kind, jitter, a + j * u * u, m + j * u * u);
    }
    matrix blocks = blocks_of(b, u, a, m);
    matrix bg = matrix_of(b, GRAIL_DTYPE_F64, 1, UNITS, gone);
    matrix values = blank_of(b, GRAIL_DTYPE_F64, 1, UNITS);
    assert_ok(matrix_unit_values(kind, jitter, missing, blocks, bg, values));
    double *actual = results_of(values);
    assert_true(actual[2] == missing);
    actual[2] = expected[2] = 0.0;
    assert_all_near(b, "unit_values", UNITS, actual, expected, NULL,
                    1e3 * DBL_EPSILON * (double)(u * u));
    free_blocks(a, m, expected, actual);
    free_matrices(&blocks, &bg, &values);
}

static void check_values(backend *b, int64_t u)
{
    for (int kind = VALUE_EXACT; kind <= VALUE_CHOLESKY; kind++) {
        check_values_of(b, u, (unit_value)kind, 0.0, -(double)INFINITY);
        check_values_of(b, u, (unit_value)kind, 0.125, 0.0);
    }
}

BACKEND_TEST(test_values_are_quotients_of_blocks)
{
    for_each_size(b, check_values);
}

/* Rounding may make a value negative, but what is no number must be seen. */
static void check_bad_values(backend *b, int64_t u)
{
    double gone[UNITS] = {0.0};
    double *a = definite_blocks(UNITS, u, 4);
    double *m = definite_blocks(UNITS, u, 5);
    a[0] = (double)NAN;
    m[2 * u * u - 1] = (double)NAN;
    matrix blocks = blocks_of(b, u, a, m);
    matrix bg = matrix_of(b, GRAIL_DTYPE_F64, 1, UNITS, gone);
    matrix values = blank_of(b, GRAIL_DTYPE_F64, 1, UNITS);
    assert_ok(matrix_unit_values(VALUE_EXACT, 0.0, -(double)INFINITY, blocks, bg, values));
    double *actual = results_of(values);
    for (int64_t j = 0; j < UNITS; j++) {
        assert_int_equal(isfinite(actual[j]) != 0, j > 1);
    }
    assert_true(isnan(actual[1]));
    free_blocks(a, m, actual);
    free_matrices(&blocks, &bg, &values);
}

BACKEND_TEST(test_a_value_that_is_no_number_stays_one)
{
    for_each_size(b, check_bad_values);
}

static void check_choice(backend *b, bool largest, const double *order, int64_t count)
{
    const double values[] = {4.0, -1.0, 2.0, -1.0, 7.0, 7.0, 3.0};
    double gone[] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, INFINITY};
    matrix bv = matrix_of(b, GRAIL_DTYPE_F64, 1, 7, values);
    matrix bg = matrix_of(b, GRAIL_DTYPE_F64, 1, 7, gone);
    matrix chosen = blank_of(b, GRAIL_DTYPE_F64, 1, count);
    for (int64_t i = 0; i < count; i++) {
        assert_ok(matrix_choose_unit(largest, bv, bg, matrix_columns(chosen, i, 1)));
        gone[(int64_t)order[i]] = INFINITY;
        OWNED(double) *actual = results_of(bg);
        assert_memory_equal(actual, gone, sizeof gone);
    }
    assert_matrix_near("choose_unit", chosen, order, 0.0);
    free_matrices(&bv, &bg, &chosen);
}

BACKEND_TEST(test_the_first_of_the_best_units_is_chosen_and_gone)
{
    const double ascending[] = {1.0, 3.0, 2.0, 0.0, 4.0, 5.0};
    const double descending[] = {4.0, 5.0, 0.0, 2.0, 1.0, 3.0};
    check_choice(b, false, ascending, 6);
    check_choice(b, true, descending, 6);
}

/* -- one unit's elimination -------------------------------------------------------------------- */

/* What is read of a unit of two matrices. */
typedef struct reading {
    double *a, *m; /* [n u, n u], as lower_of */
    double *blocks_a, *blocks_m;
    double *pairs; /* [2 PAIRS, n u] */
    matrix in_a, in_m, blocks, in_pairs, unit;
    matrix rows, factors, transform;
} reading;

enum { PAIRS = 5 };

static reading reading_of(backend *b, int64_t u, int64_t unit, bool definite)
{
    const int64_t n = UNITS * u;
    const double number = (double)unit;
    reading r = {.a = lower_of(n, 6),
                 .m = lower_of(n, 7),
                 .blocks_a = definite_blocks(UNITS, u, 9),
                 .blocks_m = definite_blocks(UNITS, u, 10),
                 .pairs = normal_doubles(2 * PAIRS * n, 8)};
    r.blocks_a[(unit + 1) * u * u - 1] *= definite ? 1.0 : -1.0;
    r.in_a = matrix_of(b, GRAIL_DTYPE_F64, n, n + PADDING, r.a);
    r.in_m = matrix_of(b, GRAIL_DTYPE_F64, n, n + PADDING, r.m);
    r.blocks = blocks_of(b, u, r.blocks_a, r.blocks_m);
    r.in_pairs = matrix_of(b, GRAIL_DTYPE_F64, 2 * PAIRS, n, r.pairs);
    r.unit = matrix_of(b, GRAIL_DTYPE_F64, 1, 1, &number);
    r.rows = blank_of(b, GRAIL_DTYPE_F64, 2 * u, n);
    r.factors = blank_of(b, GRAIL_DTYPE_F64, 2 * u, 2 * PAIRS);
    r.transform = blank_of(b, GRAIL_DTYPE_F64, 2 * u, 2 * u);
    return r;
}

static void free_reading(reading *r)
{
    free_blocks(r->a, r->m, r->blocks_a, r->blocks_m, r->pairs);
    free_matrices(&r->in_a, &r->in_m, &r->blocks, &r->in_pairs, &r->unit, &r->rows, &r->factors,
                  &r->transform);
}

OWNS(reading, free_reading)

static void read_unit(double jitter, double missing, bool waits, int64_t u, const reading *r)
{
    const int64_t n = UNITS * u;
    assert_ok(matrix_read_unit(jitter, missing, r->unit, matrix_columns(r->in_a, 0, n),
                               matrix_columns(r->in_m, 0, n), r->blocks,
                               waits ? r->in_pairs : no_matrix, r->rows,
                               waits ? r->factors : no_matrix, r->transform));
}

static void check_rows_of(backend *b, int64_t u, int64_t unit)
{
    const int64_t n = UNITS * u;
    OWNED(reading) r = reading_of(b, u, unit, true);
    OWNED(double) *expected = doubles(2 * u * n, 0.0);
    for (int64_t at = 0; at < 2 * u * n; at++) {
        expected[at] = element_of(n, at < u * n ? r.a : r.m, unit * u + at / n % u, at % n);
    }
    read_unit(0.0, 0.0, false, u, &r);
    assert_matrix_near("rows", r.rows, expected, 0.0);
}

static void check_rows(backend *b, int64_t u)
{
    check_rows_of(b, u, 0);
    check_rows_of(b, u, UNIT);
    check_rows_of(b, u, UNITS - 1);
}

BACKEND_TEST(test_rows_of_a_unit_are_read_from_both_sides_of_the_diagonal)
{
    for_each_size(b, check_rows);
}

static void check_factors(backend *b, int64_t u)
{
    const int64_t n = UNITS * u;
    OWNED(reading) r = reading_of(b, u, UNIT, true);
    OWNED(double) *expected = doubles(2 * u * 2 * PAIRS, 0.0);
    for (int64_t at = 0; at < 2 * u * 2 * PAIRS; at++) {
        const int64_t row = at / (2 * PAIRS);
        const int64_t i = at % (2 * PAIRS);
        const int64_t from = row < u ? i : i + 1 - i % 2 * 2;
        expected[at] = row < u && i % 2 == 1 ? 0.0 : r.pairs[from * n + UNIT * u + row % u];
    }
    read_unit(0.0, 0.0, true, u, &r);
    assert_matrix_near("factors", r.factors, expected, 0.0);
}

BACKEND_TEST(test_factors_are_columns_of_the_pairs)
{
    for_each_size(b, check_factors);
}

static double *naive_transform(int64_t u, double jitter, const double *a, const double *m)
{
    double *t = naive_inverse_factor(u, jitter, a);
    double *inverse = naive_product(u, true, t, t);
    double *product = naive_product(u, false, t, m);
    double *mixed = naive_product(u, false, product, inverse);
    double *transform = doubles(4 * u * u, 0.0);
    for (int64_t at = 0; at < u * u; at++) {
        const int64_t even = at / u * 4 * u + at % u;
        transform[even] = transform[even + 3 * u] = t[at];
        transform[even + 2 * u] = -0.5 * mixed[at];
    }
    free_blocks(t, inverse, product, mixed);
    return transform;
}

static void check_transform_of(backend *b, int64_t u, double jitter)
{
    OWNED(reading) r = reading_of(b, u, UNIT, true);
    const int64_t at = UNIT * u * u;
    OWNED(double) *expected = naive_transform(u, jitter, r.blocks_a + at, r.blocks_m + at);
    read_unit(jitter, 0.0, true, u, &r);
    assert_matrix_near("transform", r.transform, expected, 1e3 * DBL_EPSILON * (double)(u * u));
}

/* Nothing, or something that is no number. */
static void check_missing(backend *b, int64_t u, double missing)
{
    int64_t bad = -1;
    OWNED(reading) r = reading_of(b, u, UNIT, false);
    OWNED(double) *expected = doubles(4 * u * u, 0.0);
    read_unit(0.0, missing, true, u, &r);
    assert_ok(matrix_find_non_finite(false, r.transform, &bad));
    assert_int_equal(bad >= 0, isnan(missing) != 0);
    if (missing == 0.0) {
        assert_matrix_near("transform of an indefinite block", r.transform, expected, 0.0);
    }
}

static void check_transform(backend *b, int64_t u)
{
    check_transform_of(b, u, 0.0);
    check_transform_of(b, u, 0.125);
    check_missing(b, u, 0.0);
    check_missing(b, u, (double)NAN);
}

BACKEND_TEST(test_a_transform_leads_from_rows_to_pairs)
{
    for_each_size(b, check_transform);
}

static void check_subtract(backend *b, int64_t u)
{
    const int64_t n = UNITS * u;
    double *pairs = normal_doubles(2 * u * n, 11);
    double *blocks = normal_doubles(2 * n * u, 12);
    matrix bp = matrix_of(b, GRAIL_DTYPE_F64, 2 * u, n, pairs);
    matrix bb = matrix_of(b, GRAIL_DTYPE_F64, 2 * UNITS, u * u, blocks);
    for (int64_t at = 0; at < n * u; at++) {
        const int64_t i = at / (u * u) * u + at / u % u;
        const int64_t j = at / (u * u) * u + at % u;
        for (int64_t k = 0; k < 2 * u * n; k += 2 * n) {
            blocks[at] -= pairs[k + i] * pairs[k + j];
            blocks[n * u + at] -= pairs[k + i] * pairs[k + n + j] + pairs[k + n + i] * pairs[k + j];
        }
    }
    assert_ok(matrix_subtract_pairs(bp, bb));
    assert_matrix_near("subtract_pairs", bb, blocks, 100.0 * DBL_EPSILON * (double)u);
    free_blocks(pairs, blocks);
    free_matrices(&bp, &bb);
}

BACKEND_TEST(test_blocks_lose_what_pairs_take)
{
    for_each_size(b, check_subtract);
}

BACKEND_TEST(test_blocks_of_another_size_are_refused)
{
    matrix a = blank_of(b, GRAIL_DTYPE_F64, 6, 6);
    matrix blocks = blank_of(b, GRAIL_DTYPE_F64, 6, 4);
    matrix others = blank_of(b, GRAIL_DTYPE_F64, 6, 3);
    matrix row = blank_of(b, GRAIL_DTYPE_F64, 1, 6);
    const matrix rows = matrix_rows(a, 0, 4);
    const matrix unit = matrix_columns(row, 0, 1);
    assert_fails(matrix_unit_blocks(a, a, others), GRAIL_ERROR_INTERNAL, "unit_blocks");
    assert_fails(matrix_unit_values(VALUE_EXACT, 0.0, 0.0, blocks, row, row), GRAIL_ERROR_INTERNAL,
                 "unit_values");
    assert_fails(matrix_read_unit(0.0, 0.0, unit, a, a, blocks, rows, rows, no_matrix, blocks),
                 GRAIL_ERROR_INTERNAL, "read_unit");
    assert_fails(matrix_subtract_pairs(a, blocks), GRAIL_ERROR_INTERNAL, "subtract_pairs");
    free_matrices(&a, &blocks, &others, &row);
}
