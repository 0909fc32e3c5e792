/* Statistics of weighted rows, against plain loops. */
#include "stats/statistics.h"

#include "support/matrices.h"

#include <math.h>

enum { ROWS = 40, WIDTH = 6, OUTPUTS = 3 };

static float inputs[ROWS * WIDTH];
static float targets[ROWS * OUTPUTS];
static double roots[ROWS]; /* about 0.3 to 3 */

static int fill(void **state)
{
    support_fill_normal(inputs, ROWS * WIDTH, 1);
    support_fill_normal(targets, ROWS * OUTPUTS, 2);
    /* eighths, of which sums and products are exact in f64 */
    for (int64_t i = 0; i < ROWS * WIDTH; i++) {
        inputs[i] = roundf(8.0F * inputs[i]) / 8.0F;
    }
    for (int64_t i = 0; i < ROWS * OUTPUTS; i++) {
        targets[i] = roundf(8.0F * targets[i]) / 8.0F;
    }
    for (int64_t t = 0; t < ROWS; t++) {
        roots[t] = 0.3 + 0.07 * (double)(t * 17 % ROWS);
    }
    return open_backends(state);
}

static void add_weighted(grail_statistics *s, int64_t begin, int64_t rows, const double *root)
{
    OWNED(matrix) z = support_rows(s->owner, rows, WIDTH, WIDTH, inputs + begin * WIDTH);
    OWNED(matrix) y = support_rows(s->owner, rows, OUTPUTS, OUTPUTS, targets + begin * OUTPUTS);
    OWNED(matrix) of = support_matrix(s->owner, 1, rows, root);
    assert_ok(statistics_accumulate_weighted(s, of, z, y, z));
    assert_ok(statistics_read_weight(s));
}

static void add_plain(grail_statistics *s, int64_t begin, int64_t rows)
{
    OWNED(matrix) z = support_rows(s->owner, rows, WIDTH, WIDTH, inputs + begin * WIDTH);
    OWNED(matrix) y = support_rows(s->owner, rows, OUTPUTS, OUTPUTS, targets + begin * OUTPUTS);
    assert_ok(statistics_accumulate(s, z, y));
}

static grail_statistics *empty_on(backend *b)
{
    grail_statistics *s = NULL;
    assert_ok(statistics_create(b, WIDTH, OUTPUTS, &s));
    return s;
}

/* sum_t w_t a_t b_t; NULL stands for ones. */
static double product(const float *a, int64_t a_stride, const float *b, int64_t b_stride)
{
    double sum = 0.0;
    for (int64_t t = 0; t < ROWS; t++) {
        const double left = a == NULL ? 1.0 : (double)a[t * a_stride];
        const double right = b == NULL ? 1.0 : (double)b[t * b_stride];
        sum += roots[t] * roots[t] * left * right;
    }
    return sum;
}

static void assert_sums(const grail_statistics *s, double tolerance)
{
    assert_int_equal(s->count, ROWS);
    assert_near(s->weight, product(NULL, 0, NULL, 0), 1e-12);
    for (int64_t i = 0; i < WIDTH; i++) {
        const double sum = product(inputs + i, WIDTH, NULL, 0);
        assert_near(support_element(s->sum, 0, i), sum, tolerance);
        assert_near(grail_statistics_mean(s, i), sum / product(NULL, 0, NULL, 0), tolerance);
        for (int64_t j = 0; j < WIDTH; j++) {
            assert_near(grail_statistics_gram(s, i, j),
                        product(inputs + i, WIDTH, inputs + j, WIDTH), tolerance);
        }
        for (int64_t o = 0; o < OUTPUTS; o++) {
            assert_near(support_element(s->cross, o, i),
                        product(targets + o, OUTPUTS, inputs + i, WIDTH), tolerance);
        }
    }
    for (int64_t o = 0; o < OUTPUTS; o++) {
        assert_near(support_element(s->target_sum, 0, o), product(targets + o, OUTPUTS, NULL, 0),
                    tolerance);
        assert_near(support_element(s->target_square, 0, o),
                    product(targets + o, OUTPUTS, targets + o, OUTPUTS), tolerance);
    }
}

TEST(sums_equal_their_definitions)
{
    OWNED(grail_statistics) *reference = empty_on(on_ref);
    OWNED(grail_statistics) *cpu = empty_on(on_cpu);
    add_weighted(reference, 0, ROWS, roots);
    add_weighted(cpu, 0, ROWS, roots);
    assert_sums(reference, 1e-11);
    assert_sums(cpu, 2e-4);
}

TEST(sums_add_over_batches_and_statistics)
{
    OWNED(grail_statistics) *s = empty_on(on_ref);
    OWNED(grail_statistics) *more = empty_on(on_ref);
    add_weighted(s, 0, 11, roots);
    add_weighted(s, 11, 9, roots + 11);
    add_weighted(more, 20, ROWS - 20, roots + 20);
    assert_ok(grail_statistics_add(s, more));
    assert_sums(s, 1e-11);
}

static void assert_same_matrix(bool lower, matrix a, matrix b)
{
    for (int64_t i = 0; i < a.rows; i++) {
        for (int64_t j = 0; j < (lower ? i + 1 : a.columns); j++) {
            assert_near(support_element(a, i, j), support_element(b, i, j), 0.0);
        }
    }
}

/* Row 3 counts four times, row 5 not at all, every other row once. */
TEST(a_weight_is_a_number_of_rows)
{
    double root[ROWS];
    OWNED(grail_statistics) *weighted = empty_on(on_ref);
    OWNED(grail_statistics) *repeated = empty_on(on_ref);
    for (int64_t t = 0; t < ROWS; t++) {
        root[t] = t == 3 ? 2.0 : t == 5 ? 0.0 : 1.0;
        for (int i = 0; i < (int)(root[t] * root[t]); i++) {
            add_plain(repeated, t, 1);
        }
    }
    add_weighted(weighted, 0, ROWS, root);
    assert_true(repeated->weight == ROWS + 2 && weighted->weight == ROWS + 2);
    assert_same_matrix(true, weighted->gram, repeated->gram);
    assert_same_matrix(false, weighted->sum, repeated->sum);
    assert_same_matrix(false, weighted->cross, repeated->cross);
    assert_same_matrix(false, weighted->target_sum, repeated->target_sum);
    assert_same_matrix(false, weighted->target_square, repeated->target_square);
}

TEST(without_a_target_only_the_input_is_weighted)
{
    OWNED(matrix) z = support_rows(on_cpu, ROWS, WIDTH, WIDTH, inputs);
    OWNED(matrix) y = support_rows(on_cpu, ROWS, OUTPUTS, OUTPUTS, targets);
    matrix root = support_matrix(on_cpu, 1, ROWS, roots);
    OPENED(grail_statistics, s, statistics_create(on_cpu, WIDTH, 0, &s));
    assert_fails(statistics_accumulate_weighted(s, root, z, y, z), GRAIL_ERROR_ARGUMENT,
                 "give a target exactly when there are outputs");
    assert_ok(statistics_accumulate_weighted(s, root, z, no_matrix, z));
    matrix_free(&root);
    assert_near(grail_statistics_gram(s, 1, 0), product(inputs, WIDTH, inputs + 1, WIDTH), 2e-4);
}

TEST(a_nan_is_named_before_anything_is_added)
{
    const float bad[] = {1, 2, 3, NAN};
    OWNED(matrix) root = support_matrix(on_ref, 1, 2, (const double[]){0.0, 0.0});
    OWNED(matrix) z = support_rows(on_ref, 2, 2, 2, bad);
    OPENED(grail_statistics, s, statistics_create(on_ref, 2, 0, &s));
    assert_fails(statistics_accumulate_weighted(s, root, z, no_matrix, z), GRAIL_ERROR_NUMERIC,
                 "input is not finite at row 1, feature 1");
    assert_true(s->count == 0 && grail_statistics_gram(s, 0, 0) == 0.0);
}

CMFixtureFunction support_setup = fill, support_teardown = close_backends;
