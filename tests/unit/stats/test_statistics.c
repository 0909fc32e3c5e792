#include "stats/statistics.h"

#include "support/matrices.h"

#include <math.h>

enum { ROWS = 50, WIDTH = 7, OUTPUTS = 3, STRIDE = 9 };

static float inputs[ROWS * STRIDE];
static float targets[ROWS * OUTPUTS];

static int fill(void **state)
{
    support_fill_normal(inputs, ROWS * STRIDE, 1);
    support_fill_normal(targets, ROWS * OUTPUTS, 2);
    return open_backends(state);
}

static grail_statistics *accumulated(int64_t begin, int64_t rows)
{
    grail_statistics *s = NULL;
    assert_ok(grail_statistics_create(WIDTH, OUTPUTS, &s));
    assert_ok(grail_statistics_accumulate(s, rows, inputs + begin * STRIDE, STRIDE,
                                          targets + begin * OUTPUTS, OUTPUTS));
    return s;
}

static double product(const float *a, int64_t a_stride, const float *b, int64_t b_stride)
{
    double sum = 0.0;
    for (int64_t r = 0; r < ROWS; r++) {
        sum += (double)a[r * a_stride] * (double)b[r * b_stride];
    }
    return sum;
}

TEST(sums_equal_their_definitions)
{
    const float one = 1.0F;
    OWNED(grail_statistics) *s = accumulated(0, ROWS);
    assert_int_equal(grail_statistics_width(s), WIDTH);
    assert_int_equal(grail_statistics_outputs(s), OUTPUTS);
    assert_int_equal(grail_statistics_count(s), ROWS);
    for (int64_t i = 0; i < WIDTH; i++) {
        for (int64_t j = 0; j < WIDTH; j++) {
            assert_near(grail_statistics_gram(s, i, j),
                        product(inputs + i, STRIDE, inputs + j, STRIDE), 1e-4);
        }
        for (int64_t o = 0; o < OUTPUTS; o++) {
            assert_near(support_element(s->cross, o, i),
                        product(targets + o, OUTPUTS, inputs + i, STRIDE), 1e-4);
        }
        assert_near(grail_statistics_mean(s, i), product(inputs + i, STRIDE, &one, 0) / ROWS, 1e-6);
    }
    for (int64_t o = 0; o < OUTPUTS; o++) {
        assert_near(support_element(s->target_sum, 0, o), product(targets + o, OUTPUTS, &one, 0),
                    1e-4);
        assert_near(support_element(s->target_square, 0, o),
                    product(targets + o, OUTPUTS, targets + o, OUTPUTS), 1e-4);
    }
}

static void assert_same_matrix(bool lower, matrix a, matrix b, double tolerance)
{
    for (int64_t i = 0; i < a.rows; i++) {
        for (int64_t j = 0; j < (lower ? i + 1 : a.columns); j++) {
            assert_near(support_element(a, i, j), support_element(b, i, j), tolerance);
        }
    }
}

static void assert_same_sums(const grail_statistics *a, const grail_statistics *b, double tolerance)
{
    assert_int_equal(a->count, b->count);
    assert_same_matrix(true, a->gram, b->gram, tolerance);
    assert_same_matrix(false, a->sum, b->sum, tolerance);
    assert_same_matrix(false, a->cross, b->cross, tolerance);
    assert_same_matrix(false, a->target_sum, b->target_sum, tolerance);
    assert_same_matrix(false, a->target_square, b->target_square, tolerance);
}

TEST(sums_add_over_any_split_of_the_rows)
{
    OWNED(grail_statistics) *whole = accumulated(0, ROWS);
    for (int64_t split = 0; split <= ROWS; split += 10) {
        OWNED(grail_statistics) *first = accumulated(0, split);
        OWNED(grail_statistics) *second = accumulated(split, ROWS - split);
        assert_ok(grail_statistics_add(first, second));
        assert_same_sums(first, whole, 1e-4);
    }
}

static grail_statistics *accumulated_on(backend *b)
{
    grail_statistics *s = NULL;
    OWNED(matrix) z = support_rows(b, ROWS, WIDTH, STRIDE, inputs);
    OWNED(matrix) y = support_rows(b, ROWS, OUTPUTS, OUTPUTS, targets);
    assert_ok(statistics_create(b, WIDTH, OUTPUTS, &s));
    assert_ok(statistics_accumulate(s, z, y));
    return s;
}

TEST(the_cpu_backend_agrees_with_the_reference)
{
    OWNED(grail_statistics) *reference = accumulated_on(on_ref);
    OWNED(grail_statistics) *cpu = accumulated_on(on_cpu);
    assert_ptr_equal(reference->owner, on_ref);
    assert_ptr_equal(reference->gram.owner, on_ref);
    assert_same_sums(cpu, reference, 1e-4);
}

enum { GROUPS = 3, IN_GROUP = 2 };

/* Statistics of the first six features and all outputs in three groups; with weights of rows. */
static grail_statistics *grouped_on(backend *b, bool weighted)
{
    grail_statistics *s = NULL;
    double roots[ROWS];
    OWNED(matrix) root = no_matrix;
    OWNED(matrix) z = support_rows(b, ROWS, GROUPS * IN_GROUP, STRIDE, inputs);
    OWNED(matrix) y = support_rows(b, ROWS, OUTPUTS, OUTPUTS, targets);
    for (int64_t r = 0; r < ROWS; r++) {
        roots[r] = 0.5 + (double)(r % 4);
    }
    assert_ok(matrix_import(b, GRAIL_DTYPE_F64, 1, ROWS, ROWS, roots, &root));
    assert_ok(statistics_create_grouped(b, GROUPS * IN_GROUP, OUTPUTS, GROUPS, &s));
    assert_int_equal(s->gram.columns, IN_GROUP);
    assert_ok(weighted ? statistics_accumulate_weighted(s, root, z, y, z)
                       : statistics_accumulate(s, z, y));
    return s;
}

/* Statistics of the features and outputs of one group alone. */
static grail_statistics *of_group_on(backend *b, int64_t group, bool weighted)
{
    grail_statistics *s = NULL;
    double roots[ROWS];
    OWNED(matrix) root = no_matrix;
    OWNED(matrix) z = support_rows(b, ROWS, IN_GROUP, STRIDE, inputs + group * IN_GROUP);
    OWNED(matrix) y = support_rows(b, ROWS, 1, OUTPUTS, targets + group);
    for (int64_t r = 0; r < ROWS; r++) {
        roots[r] = 0.5 + (double)(r % 4);
    }
    assert_ok(matrix_import(b, GRAIL_DTYPE_F64, 1, ROWS, ROWS, roots, &root));
    assert_ok(statistics_create(b, IN_GROUP, 1, &s));
    assert_ok(weighted ? statistics_accumulate_weighted(s, root, z, y, z)
                       : statistics_accumulate(s, z, y));
    return s;
}

/* What holds of the sums holds of what a bias leaves of the target, too. */
TEST(sums_in_groups_are_those_of_each_group)
{
    static const double bias[OUTPUTS] = {0.5, -2.0, 1.0};
    for (int i = 0; i < 4; i++) {
        backend *b = i % 2 == 0 ? on_ref : on_cpu;
        OWNED(grail_statistics) *s = grouped_on(b, i > 1);
        for (int64_t g = 0; g < GROUPS; g++) {
            OWNED(grail_statistics) *own = of_group_on(b, g, i > 1);
            const grail_statistics group = statistics_group(s, g);
            assert_same_sums(&group, own, 1e-9);
        }
        assert_ok(statistics_shift_target(s, bias));
        for (int64_t g = 0; g < GROUPS; g++) {
            OWNED(grail_statistics) *own = of_group_on(b, g, i > 1);
            assert_ok(statistics_shift_target(own, bias + g));
            OPENED(grail_statistics, copy, statistics_of_group(s, g, &copy));
            assert_same_sums(copy, own, 1e-9);
        }
    }
}

TEST(a_non_finite_sum_of_a_group_is_found)
{
    grail_statistics *s = grouped_on(on_ref, false);
    assert_ok(statistics_check_finite(s));
    support_set_element(s->gram, 5, 0, (double)NAN);
    assert_fails(statistics_check_finite(s), GRAIL_ERROR_NUMERIC, "is not finite");
    grail_statistics_free(s);
    s = grouped_on(on_ref, false);
    grail_statistics *other = accumulated_on(on_ref);
    other->width = s->width;
    assert_fails(grail_statistics_add(s, other), GRAIL_ERROR_SHAPE, "statistics: cannot add sums");
    grail_statistics_free(other);
    grail_statistics_free(s);
}

TEST(rows_of_the_caller_give_the_sums_of_rows_on_an_instance)
{
    OWNED(grail_statistics) *given = accumulated(0, ROWS);
    OWNED(grail_statistics) *cpu = accumulated_on(on_cpu);
    assert_same_sums(given, cpu, 0.0);
}

TEST(a_nan_in_strided_rows_of_an_instance_is_named)
{
    const float z[] = {1, NAN, 2, 3, 4, 5, 6, INFINITY, 8};
    backend *const backends[] = {on_ref, on_cpu};
    for (int b = 0; b < 2; b++) {
        OWNED(matrix) rows = support_rows(backends[b], 3, 3, 3, z);
        OPENED(grail_statistics, s, statistics_create(backends[b], 2, 0, &s));
        const matrix wide = matrix_columns(rows, 1, 2);
        assert_fails(backend_settle(backends[b], statistics_accumulate(s, wide, no_matrix)),
                     GRAIL_ERROR_NUMERIC, "input is not finite at row 0, feature 0");
        assert_ok(statistics_accumulate(s, matrix_rows(wide, 1, 1), no_matrix));
        assert_fails(backend_settle(backends[b],
                                    statistics_accumulate(s, matrix_rows(wide, 1, 2), no_matrix)),
                     GRAIL_ERROR_NUMERIC, "input is not finite at row 1, feature 0");
        assert_true(b > 0 || grail_statistics_count(s) == 1);
    }
}

TEST(statistics_of_different_shapes_do_not_add)
{
    OPENED(grail_statistics, a, grail_statistics_create(4, 2, &a));
    OPENED(grail_statistics, b, grail_statistics_create(4, 0, &b));
    assert_fails(grail_statistics_add(a, b), GRAIL_ERROR_SHAPE, "4 features and 0 outputs");
}

TEST(a_nan_is_named_and_nothing_is_added)
{
    float z[] = {1, 2, 3, 4, NAN, 6};
    OPENED(grail_statistics, s, grail_statistics_create(3, 0, &s));
    assert_fails(grail_statistics_accumulate(s, 2, z, 3, NULL, 0), GRAIL_ERROR_NUMERIC,
                 "input is not finite at row 1, feature 1");
    assert_int_equal(grail_statistics_count(s), 0);
    assert_true(grail_statistics_gram(s, 0, 0) == 0.0);
}

TEST(an_infinite_target_is_named)
{
    const float z[] = {1, 2};
    const float y[] = {1, INFINITY};
    OPENED(grail_statistics, s, grail_statistics_create(1, 1, &s));
    assert_fails(grail_statistics_accumulate(s, 2, z, 1, y, 1), GRAIL_ERROR_NUMERIC,
                 "target is not finite at row 1, feature 0");
    assert_true(support_element(s->cross, 0, 0) == 0.0);
}

TEST(a_nan_in_weighted_rows_is_named_and_nothing_is_added)
{
    const float good[] = {1, 2};
    float z[] = {1, 2, 3, NAN};
    float y[] = {1, INFINITY};
    const double roots[] = {1.0, 0.0}; /* which hide no row */
    OPENED(grail_statistics, s, grail_statistics_create(2, 1, &s));
    assert_ok(grail_statistics_accumulate_weighted(s, 1, roots, good, 2, good, 1));
    assert_fails(grail_statistics_accumulate_weighted(s, 2, roots, z, 2, good, 1),
                 GRAIL_ERROR_NUMERIC, "input is not finite at row 1, feature 1");
    z[3] = 4.0F;
    assert_fails(grail_statistics_accumulate_weighted(s, 2, roots, z, 2, y, 1), GRAIL_ERROR_NUMERIC,
                 "target is not finite at row 1, feature 0");
    assert_int_equal(grail_statistics_count(s), 1);
    assert_true(support_element(s->sum, 0, 1) == 2.0);
    assert_true(support_element(s->target_sum, 0, 0) == 1.0);
    assert_true(support_element(s->target_square, 0, 0) == 1.0);
}

/* More of them than are scaled and summed at once. */
TEST(weighted_sums_are_those_of_all_rows)
{
    enum { MANY = 300, WIDE = 1024 };
    OWNED(float) *z = NULL;
    double roots[MANY];
    double sum = 0.0;
    double squares = 0.0;
    assert_ok(memory_new(&z, (size_t)MANY * WIDE, sizeof z[0]));
    OPENED(grail_statistics, s, grail_statistics_create(WIDE, 1, &s));
    for (int r = 0; r < MANY; r++) {
        roots[r] = 1.0 + r % 3;
        z[r * WIDE + 7] = (float)(r % 5);
        sum += roots[r] * roots[r] * (r % 5);
        squares += roots[r] * roots[r] * (r % 5) * (r % 5);
    }
    assert_ok(grail_statistics_accumulate_weighted(s, MANY, roots, z, WIDE, z + 7, WIDE));
    assert_near(support_element(s->sum, 0, 7), sum, 0.0);
    assert_near(support_element(s->target_sum, 0, 0), sum, 0.0);
    assert_near(support_element(s->target_square, 0, 0), squares, 0.0);
    assert_near(grail_statistics_gram(s, 7, 7), squares, 0.0);
}

TEST(what_lies_between_rows_is_not_read)
{
    const float z[] = {1, NAN, 2, NAN};
    OPENED(grail_statistics, s, grail_statistics_create(1, 0, &s));
    assert_ok(grail_statistics_accumulate(s, 2, z, 2, NULL, 0));
    assert_near(grail_statistics_gram(s, 0, 0), 5.0, 0.0);
}

TEST(a_target_is_required_exactly_when_there_are_outputs)
{
    const float z[] = {1, 2};
    OPENED(grail_statistics, with, grail_statistics_create(2, 1, &with));
    OPENED(grail_statistics, without, grail_statistics_create(2, 0, &without));
    assert_fails(grail_statistics_accumulate(with, 1, z, 2, NULL, 0), GRAIL_ERROR_ARGUMENT,
                 "without a target");
    assert_fails(grail_statistics_accumulate(without, 1, z, 2, z, 2), GRAIL_ERROR_ARGUMENT,
                 "with a target");
    assert_fails(grail_statistics_accumulate(without, 1, z, 1, NULL, 0), GRAIL_ERROR_ARGUMENT,
                 "row stride of 2 or more, found 1");
}

TEST(impossible_shapes_are_refused)
{
    grail_statistics *s = NULL;
    assert_fails(grail_statistics_create(0, 0, &s), GRAIL_ERROR_ARGUMENT,
                 "expected 1 or more features");
    assert_fails(grail_statistics_create(1, -1, &s), GRAIL_ERROR_ARGUMENT, "-1");
    assert_fails(grail_statistics_create(INT64_MAX, 0, &s), GRAIL_ERROR_MEMORY, "too large");
    assert_null(s);
}

TEST(a_non_finite_sum_names_its_feature)
{
    OWNED(grail_statistics) *s = accumulated(0, ROWS);
    assert_ok(statistics_check_finite(s));
    support_set_element(s->target_square, 0, 2, NAN);
    assert_fails(statistics_check_finite(s), GRAIL_ERROR_NUMERIC, "target sums of output 2");
    support_set_element(s->cross, 1, 4, INFINITY);
    assert_fails(statistics_check_finite(s), GRAIL_ERROR_NUMERIC, "output 1 and feature 4");
    support_set_element(s->sum, 0, 6, NAN);
    assert_fails(statistics_check_finite(s), GRAIL_ERROR_NUMERIC, "sum of feature 6");
    support_set_element(s->gram, 3, 5, NAN); /* above the diagonal: nothing */
    assert_fails(statistics_check_finite(s), GRAIL_ERROR_NUMERIC, "sum of feature 6");
    support_set_element(s->gram, 5, 3, NAN);
    assert_fails(statistics_check_finite(s), GRAIL_ERROR_NUMERIC, "feature 5 and feature 3");
}

static grail_status create_and_accumulate(void *context)
{
    OWNED(grail_statistics) *s = NULL;
    grail_status status = grail_statistics_create(WIDTH, OUTPUTS, &s);
    if (status == GRAIL_OK) {
        status = grail_statistics_accumulate(s, ROWS, inputs, STRIDE, targets, OUTPUTS);
    }
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(create_and_accumulate, NULL);
}

CMFixtureFunction support_setup = fill, support_teardown = close_backends;
