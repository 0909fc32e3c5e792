/* Costs of removing and gains of keeping, from statistics and weights, and the order in which units
 * are taken. */
#include "reduce/removal.h"

#include "observed.h"
#include "stats/constant_features.h"
#include "stats/statistics.h"
#include "support/matrices.h"

#include <math.h>
#include <string.h>

static const removal_options exact = {.kind = VALUE_EXACT};

/* G = [2 1 0; 1 2 1; 0 1 2] and W = [1 1 1], with poison above the diagonal. */
static const float three_ones[] = {1, 1, 1};

static void three_units(backend *b, hand_site *f)
{
    static const double gram[] = {2, NAN, NAN, 1, 2, NAN, 0, 1, 2};
    hand_begin(f, SITE_FFN, 3, 1);
    hand_add_consumer(f, 1, 1, three_ones);
    f->inputs[0] =
        (input_statistics){.width = 3, .weight = 4.0, .gram = support_matrix(b, 3, 3, gram)};
    f->view.backend = b;
}

static void assert_values(removal *r, double first, double second, double third)
{
    double values[3];
    assert_ok(removal_values(r, values));
    assert_near(values[0], first, 1e-12);
    assert_near(values[1], second, 1e-12);
    assert_near(values[2], third, 1e-12);
}

/* The inverse has the diagonal 3/4, 1, 3/4. Without unit 1 the weights become 3/2 and 3/2, and the
 * inverse 1/2 I: both cost 9/2, so the first goes. */
TEST(the_worked_example_of_three_units)
{
    backend *const instances[] = {on_ref, on_cpu};
    for (int i = 0; i < 2; i++) {
        hand_site f;
        removal r = {0};
        double at[2];
        three_units(instances[i], &f);
        assert_ok(removal_init(&f.view, &exact, &r));
        assert_false(matrix_exists(f.inputs[0].gram));
        assert_values(&r, 4.0 / 3.0, 1.0, 4.0 / 3.0);
        assert_ok(removal_take(&r, 1, 1, false, batch_of_one, at));
        assert_near(at[0], 1.0, 1e-12);
        assert_values(&r, 4.5, 0.0, 4.5);
        assert_ok(removal_take(&r, 1, 1, false, batch_of_one, at));
        assert_near(at[0], 4.5, 1e-12);
        assert_true(r.taken[0] && r.taken[1] && !r.taken[2]);
        assert_values(&r, 0.0, 0.0, 4.5);
        removal_fini(&r);
        forget_inputs(&f);
    }
}

/* H = G + 0.2 I; without unit 1 the weights become 1 + 1 / 2.2, each at 2.2. */
TEST(damping_is_relative_to_the_mean_diagonal)
{
    hand_site f;
    removal r = {0};
    const removal_options damped = {.kind = VALUE_EXACT, .damping = 0.1};
    const double repaired = 1.0 + 1.0 / 2.2;
    three_units(on_cpu, &f);
    assert_ok(removal_init(&f.view, &damped, &r));
    const double end = 2.2 - 1.0 / (2.2 - 1.0 / 2.2); /* 1 / Hi_00 */
    assert_values(&r, end, 2.2 - 2.0 / 2.2, end);
    assert_ok(removal_take(&r, 1, 1, false, batch_of_one, NULL));
    assert_values(&r, repaired * repaired * 2.2, 0.0, repaired * repaired * 2.2);
    removal_fini(&r);
    forget_inputs(&f);
}

/* W G = [3 4 3]: a unit explains 9/2, 8, 9/2 of 10. After unit 1 each of the others explains what
 * is left, 2: the residual of G is [3/2 -1/2; -1/2 3/2], that of W G is [1 1], 1 / (3/2). */
TEST(gains_of_keeping_by_hand)
{
    backend *const instances[] = {on_ref, on_cpu};
    for (int i = 0; i < 2; i++) {
        hand_site f;
        removal r = {0};
        double at[2];
        three_units(instances[i], &f);
        assert_ok(removal_init(&f.view, NULL, &r));
        double values[3];
        assert_ok(removal_values(&r, values));
        assert_near(values[0], 4.5, 1e-8);
        assert_near(values[1], 8.0, 1e-8);
        assert_near(values[2], 4.5, 1e-8);
        assert_ok(removal_take(&r, 1, 2, true, batch_of_one, at));
        assert_near(at[0], 8.0, 1e-8);
        assert_near(at[1], 1.0 / 1.5, 1e-8);
        assert_true(r.taken[0] && r.taken[1] && !r.taken[2]);
        removal_fini(&r);
        forget_inputs(&f);
    }
}

static void assert_batches(int64_t wanted, int count, const int64_t *expected)
{
    int64_t done = 0;
    for (int i = 0; done < wanted; i++) {
        const int64_t left = wanted - done;
        const int64_t batch = batch_shrinking(wanted, done);
        assert_int_equal(batch, i < count ? expected[i] : 64);
        done += batch < left ? batch : left;
    }
    assert_int_equal(done, wanted);
    assert_int_equal(batch_of_one(wanted, 0), 1);
}

/* 0.2 and 0.5 of 11008 */
TEST(batches_shrink_as_published)
{
    static const int64_t of_2202[] = {845, 166, 64};
    static const int64_t of_5504[] = {1024, 992, 240, 64};
    assert_batches(2202, 3, of_2202);
    assert_batches(5504, 4, of_5504);
    assert_batches(100, 0, NULL);
    assert_batches(1, 0, NULL);
}

/* Unit j costs its own squared weight: the features are independent and of one size. */
static void independent_units(hand_site *f, int64_t units, const float *weights)
{
    hand_begin(f, SITE_FFN, units, 1);
    hand_add_consumer(f, 1, 1, weights);
    f->inputs[0] = (input_statistics){.width = units, .weight = 1.0};
    assert_ok(matrix_new_zero(on_cpu, GRAIL_DTYPE_F64, units, units, &f->inputs[0].gram));
    assert_ok(matrix_shift_diagonal(1.0, f->inputs[0].gram));
    f->view.backend = on_cpu;
}

static void assert_taken(const removal *r, const char *pattern)
{
    for (int64_t j = 0; j < r->units; j++) {
        assert_int_equal(r->taken[j], pattern[j] == '1');
    }
}

static void check_taking(int64_t groups, int64_t count, bool largest, batch_rule batch,
                         const char *pattern)
{
    static const float weights[] = {1, 2, 2, 3, 4, 5, 4, 9};
    hand_site f;
    removal r = {0};
    grail_reducer *reducer = NULL;
    independent_units(&f, 8, weights);
    assert_ok(removal_init(&f.view, &exact, &r));
    assert_ok(removal_take(&r, groups, count, largest, batch, NULL));
    assert_taken(&r, pattern);
    if (count < 8) {
        assert_ok(removal_reducer(&r, false, &reducer));
        assert_int_equal(grail_reducer_kept(reducer), 8 - count);
        assert_int_equal(grail_reducer_label(reducer, 7) >= 0, pattern[7] == '0');
        grail_reducer_free(reducer);
    }
    assert_ok(removal_reducer(&r, true, &reducer));
    assert_kept(reducer, pattern);
    grail_reducer_free(reducer);
    removal_fini(&r);
    forget_inputs(&f);
}

TEST(the_least_or_largest_values_are_taken)
{
    check_taking(1, 3, false, batch_of_one, "11100000");
    check_taking(1, 3, true, batch_of_one, "00001101");
    check_taking(1, 3, false, batch_shrinking, "11100000");
    check_taking(1, 8, false, batch_of_one, "11111111");
}

TEST(of_equal_values_the_lower_index_goes_first)
{
    check_taking(1, 2, false, batch_of_one, "11000000");
    check_taking(1, 2, false, batch_shrinking, "11000000");
    check_taking(1, 5, false, batch_shrinking, "11111000");
    check_taking(1, 3, true, batch_shrinking, "00001101");
}

TEST(groups_lose_equally_many)
{
    check_taking(2, 4, false, batch_of_one, "11001010");
    check_taking(2, 4, false, batch_shrinking, "11001010");
    check_taking(4, 4, true, batch_of_one, "01010101");
}

TEST(a_count_that_does_not_fit_the_groups_is_refused)
{
    hand_site f;
    removal r = {0};
    three_units(on_cpu, &f);
    assert_ok(removal_init(&f.view, &exact, &r));
    assert_fails(removal_take(&r, 3, 2, false, batch_of_one, NULL), GRAIL_ERROR_ARGUMENT,
                 "2 of 3 units evenly from 3 groups");
    assert_fails(removal_take(&r, 1, 4, false, batch_of_one, NULL), GRAIL_ERROR_ARGUMENT,
                 "4 of 3 units");
    removal_fini(&r);
    forget_inputs(&f);
}

/* Features 1 and 4 are always 0; their weights are the largest. */
TEST(dead_features_cost_nothing_and_go_first)
{
    backend *const instances[] = {on_ref, on_cpu};
    for (int i = 0; i < 2; i++) {
        const removal_options options = {.kind = VALUE_EXACT, .damping = 1e-2, .refits = i == 1};
        double values[6];
        hand_site f;
        removal r = {0};
        observed o = observe(30, 6, 3, 1, 5);
        for (int64_t row = 0; row < o.rows; row++) {
            o.x[row * o.width + 1] = o.x[row * o.width + 4] = 0.0;
        }
        o.stored[1] = o.stored[4] = o.stored[o.width + 4] = 100.0F;
        observed_add_target(&o, 9);
        hand_begin(&f, SITE_FFN, 6, 3);
        hand_add_consumer(&f, 1, o.outputs, o.stored);
        give_input(instances[i], &o, 0, &f);
        assert_ok(removal_init(&f.view, &options, &r));
        assert_ok(removal_values(&r, values));
        for (int64_t j = 0; j < 6; j++) {
            assert_int_equal(values[j] == 0.0, j == 1 || j == 4);
        }
        assert_ok(removal_take(&r, 1, 2, false, batch_of_one, NULL));
        assert_taken(&r, "010010");
        removal_fini(&r);
        forget_inputs(&f);
        observed_free(&o);
    }
}

/* A bias replaces a feature that is always 7, but no other. */
TEST(constant_features_cost_nothing_beside_a_bias)
{
    for (int biased = 0; biased < 2; biased++) {
        const removal_options options = {.kind = VALUE_EXACT, .damping = 1e-2, .refits = true};
        double values[5];
        hand_site f;
        removal r = {0};
        observed o = observe(30, 5, 3, 1, 6);
        for (int64_t row = 0; row < o.rows; row++) {
            o.x[row * o.width + 2] = 7.1;
        }
        hand_begin(&f, SITE_FFN, 5, 3);
        hand_add_consumer(&f, 1, o.outputs, o.stored);
        give_input(on_cpu, &o, 0, &f);
        f.view.fits_bias = biased == 1;
        assert_ok(removal_init(&f.view, &options, &r));
        assert_ok(removal_values(&r, values));
        for (int64_t j = 0; j < 5; j++) {
            assert_int_equal(values[j] == 0.0, biased == 1 && j == 2);
        }
        removal_fini(&r);
        forget_inputs(&f);
        observed_free(&o);
    }
}

/* -- a metric ---------------------------------------------------------------------------------- */

enum { METRIC_OUTPUTS = 4, METRIC_UNITS = 6 };

/* R, with F = R^T R. */
static const double metric_root[METRIC_OUTPUTS * METRIC_OUTPUTS] = {2, 1, 0, 0,    0, 0.5, -1, 0,
                                                                    0, 0, 3, 0.25, 1, 0,   0,  0};

/* rows[outputs * taps, columns] <- R rows, tap by tap. */
static void multiply_by_root(int64_t taps, int64_t columns, double *rows)
{
    for (int64_t place = 0; place < taps * columns; place++) {
        double before[METRIC_OUTPUTS];
        for (int64_t o = 0; o < METRIC_OUTPUTS; o++) {
            before[o] = rows[o * taps * columns + place];
        }
        for (int64_t o = 0; o < METRIC_OUTPUTS; o++) {
            double sum = 0.0;
            for (int64_t i = 0; i < METRIC_OUTPUTS; i++) {
                sum += metric_root[o * METRIC_OUTPUTS + i] * before[i];
            }
            rows[o * taps * columns + place] = sum;
        }
    }
}

/* The same rows, as a consumer W' = R W sees them, whose target is Y R^T. */
static void become_root(int64_t taps, observed *o)
{
    multiply_by_root(taps, o->width, o->w);
    for (int64_t row = 0; row < o->rows; row++) {
        multiply_by_root(taps, 1, o->y + row * o->outputs);
    }
    for (int64_t i = 0; i < o->outputs * o->width; i++) {
        const int64_t row = i / o->width;
        o->stored[(row / taps * o->width + i % o->width) * taps + row % taps] = (float)o->w[i];
    }
}

/* values[units], before any unit is taken and behind two. */
static void value_units(backend *b, const observed *o, int64_t taps, matrix metric, double *values)
{
    const removal_options options = {.kind = VALUE_EXACT, .damping = 1e-2, .refits = true};
    hand_site f;
    removal r = {0};
    hand_begin(&f, taps > 1 ? SITE_CONV : SITE_FFN, METRIC_UNITS, 3);
    if (taps > 1) {
        hand_add_convolution(&f, taps, METRIC_OUTPUTS, o->stored);
    } else {
        hand_add_consumer(&f, 1, METRIC_OUTPUTS, o->stored);
    }
    give_input(b, o, 0, &f);
    f.inputs[0].metric = metric;
    f.view.fits_bias = true;
    assert_ok(removal_init(&f.view, &options, &r));
    assert_ok(removal_values(&r, values));
    assert_ok(removal_take(&r, 1, 2, false, batch_of_one, NULL));
    assert_ok(removal_values(&r, values + METRIC_UNITS));
    removal_fini(&r);
    forget_inputs(&f);
}

/* What errors cost by the metric R^T R is what they cost once R has multiplied the outputs. */
TEST(a_metric_counts_as_its_root_behind_the_outputs)
{
    backend *const instances[] = {on_ref, on_cpu};
    double metric[METRIC_OUTPUTS * METRIC_OUTPUTS] = {0};
    for (int64_t i = 0; i < METRIC_OUTPUTS * METRIC_OUTPUTS; i++) {
        for (int64_t k = 0; k < METRIC_OUTPUTS; k++) {
            metric[i] += metric_root[k * METRIC_OUTPUTS + i / METRIC_OUTPUTS] *
                         metric_root[k * METRIC_OUTPUTS + i % METRIC_OUTPUTS];
        }
    }
    for (int64_t i = 0; i < 4; i++) {
        backend *b = instances[i % 2];
        const int64_t taps = i < 2 ? 1 : 3;
        double by_metric[2 * METRIC_UNITS];
        double by_root[2 * METRIC_UNITS];
        double plain[2 * METRIC_UNITS];
        observed o = observe(40, METRIC_UNITS, METRIC_OUTPUTS * taps, taps, 31);
        matrix f = support_matrix(b, METRIC_OUTPUTS, METRIC_OUTPUTS, metric);
        observed_add_target(&o, 32);
        value_units(b, &o, taps, f, by_metric);
        value_units(b, &o, taps, no_matrix, plain);
        become_root(taps, &o);
        value_units(b, &o, taps, no_matrix, by_root);
        for (int64_t j = 0; j < 2 * METRIC_UNITS; j++) {
            assert_near(by_metric[j], by_root[j], 1e-5 * by_root[j]);
            assert_true(by_root[j] == 0.0 || fabs(plain[j] - by_root[j]) > 0.01 * by_root[j]);
        }
        matrix_free(&f);
        observed_free(&o);
    }
}

enum { LONG_ROWS = 10000, LONG_WIDTH = 6 };

/* The first `width` features of 10,000 rows as statistics in f32: the last two are of the mean 1000
 * with a deviation of 1 % of it, and always `constant`. */
static void give_long_input(int64_t width, float constant, hand_site *f)
{
    static float x[LONG_ROWS * LONG_WIDTH];
    double *means = NULL;
    support_fill_normal(x, LONG_ROWS * LONG_WIDTH, 21);
    for (int64_t i = 0; i < LONG_ROWS * LONG_WIDTH; i++) {
        const int64_t j = i % LONG_WIDTH;
        x[i] = j == 5 ? constant : j == 4 ? 1000.0F + 10.0F * x[i] : x[i] + 0.5F * x[i - j];
    }
    OWNED(matrix) rows = support_rows(on_cpu, LONG_ROWS, width, LONG_WIDTH, x);
    OPENED(grail_statistics, s, statistics_create(on_cpu, width, 0, &s));
    assert_ok(statistics_accumulate(s, rows, no_matrix));
    assert_ok(memory_new(&means, (size_t)width, sizeof *means));
    for (int64_t j = 0; j < width; j++) {
        means[j] = grail_statistics_mean(s, j);
    }
    f->inputs[0] = (input_statistics){.width = width,
                                      .weight = (double)LONG_ROWS,
                                      .rounding = sums_rounding(on_cpu, LONG_ROWS),
                                      .gram = s->gram,
                                      .means = means};
    s->gram = no_matrix;
    f->view.backend = on_cpu;
    f->view.input_count = 1;
    f->view.fits_bias = true;
}

/* The costs are those of the site without it: neither lambda nor another unit feels what centring
 * left. lambda is relative to the mean over all features. */
static void check_constant(float constant)
{
    static const float w[LONG_WIDTH] = {1, 2, -1, 3, 0.01F, 50};
    double values[2][LONG_WIDTH];
    for (int without = 0; without < 2; without++) {
        const int64_t width = LONG_WIDTH - without;
        const double damping = 1e-2 * (double)width / LONG_WIDTH;
        const removal_options options = {.kind = VALUE_EXACT, .damping = damping, .refits = true};
        hand_site f;
        removal r = {0};
        hand_begin(&f, SITE_FFN, width, 1);
        hand_add_consumer(&f, 1, 1, w);
        give_long_input(width, constant, &f);
        assert_ok(removal_init(&f.view, &options, &r));
        assert_ok(removal_values(&r, values[without]));
        if (without == 0) {
            assert_ok(removal_take(&r, 1, 1, false, batch_of_one, NULL));
            assert_taken(&r, "000001");
        }
        removal_fini(&r);
        forget_inputs(&f);
    }
    assert_true(values[0][5] == 0.0);
    for (int64_t j = 0; j < 5; j++) {
        assert_true(values[1][j] > 0.0);
        assert_near(values[0][j], values[1][j], 1e-9 * values[1][j]);
    }
}

/* Rounding leaves more than nothing of some of these, and less of others. */
TEST(a_constant_of_inexact_sums_goes_first_and_moves_nothing)
{
    static const float constants[] = {1.0F, 1.1F, 1.3F, 1.7F, 1000.1F, 777.7F, 1333.3F, 12345.6F};
    for (int i = 0; i < 8; i++) {
        check_constant(constants[i]);
    }
}

TEST(a_bias_leaves_nothing_of_constant_features)
{
    const removal_options options = {.kind = VALUE_EXACT, .damping = 1e-2, .refits = true};
    hand_site f;
    removal r = {0};
    observed o = observe(30, 3, 1, 1, 6);
    for (int64_t i = 0; i < o.rows * o.width; i++) {
        o.x[i] = 0.7 + (double)(i % o.width);
    }
    hand_begin(&f, SITE_FFN, 3, 1);
    hand_add_consumer(&f, 1, o.outputs, o.stored);
    give_input(on_cpu, &o, 0, &f);
    f.view.fits_bias = true;
    assert_fails(removal_init(&f.view, &options, &r), GRAIL_ERROR_NUMERIC,
                 "no feature varies in the calibration data");
    forget_inputs(&f);
    observed_free(&o);
}

static void check_gram_is_refused(int64_t n, const double *gram, const char *text, bool gains)
{
    hand_site f;
    removal r = {0};
    hand_begin(&f, SITE_FFN, n, 1);
    hand_add_consumer(&f, 1, 1, three_ones);
    f.inputs[0] =
        (input_statistics){.width = n, .weight = 1.0, .gram = support_matrix(on_cpu, n, n, gram)};
    f.view.backend = on_cpu;
    if (gains) {
        grail_status status = removal_init(&f.view, NULL, &r);
        double values[3];
        status = status == GRAIL_OK ? removal_values(&r, values) : status;
        assert_fails(status, GRAIL_ERROR_NUMERIC, text);
    } else {
        assert_fails(removal_init(&f.view, &exact, &r), GRAIL_ERROR_NUMERIC, text);
        assert_null(r.elimination);
    }
    removal_fini(&r);
    forget_inputs(&f);
}

TEST(gram_matrices_without_sense_are_refused)
{
    static const double zero[4] = {0};
    static const double indefinite[] = {1, 0, 2, 1};
    static const double negative[] = {2, 0, 0, -1};
    static const double broken[] = {1, 0, 0, NAN};
    check_gram_is_refused(2, zero, "no feature varies in the calibration data", false);
    check_gram_is_refused(2, zero, "no feature varies in the calibration data", true);
    check_gram_is_refused(2, indefinite,
                          "the Gram matrix is indefinite: its factorisation fails at feature 1 "
                          "even with 0.001 added to its diagonal",
                          false);
    check_gram_is_refused(2, negative, "unit 1 is not positive definite", true);
    check_gram_is_refused(2, broken, "the diagonal of the Gram matrix is not finite", false);
    check_gram_is_refused(2, broken, "the diagonal of the Gram matrix is not finite", true);
}

/* Dependent features: the factorisation succeeds once lambda is raised to 1e-8 of the mean. */
TEST(a_singular_gram_matrix_raises_lambda)
{
    static const double gram[] = {1, 0, 1, 1};
    static const float weights[] = {1, 1};
    hand_site f;
    removal r = {0};
    double values[2];
    hand_begin(&f, SITE_FFN, 2, 1);
    hand_add_consumer(&f, 1, 1, weights);
    f.inputs[0] =
        (input_statistics){.width = 2, .weight = 1.0, .gram = support_matrix(on_cpu, 2, 2, gram)};
    f.view.backend = on_cpu;
    assert_ok(removal_init(&f.view, &exact, &r));
    assert_ok(removal_values(&r, values)); /* 1 / Hi_jj = 2 lambda to first order */
    assert_near(values[0], 2e-8, 1e-13);
    removal_fini(&r);
    forget_inputs(&f);
}

TEST(weights_that_are_not_numbers_are_refused)
{
    static const float broken[] = {1, 1, (float)NAN};
    for (int gains = 0; gains < 2; gains++) {
        hand_site f;
        removal r = {0};
        three_units(on_cpu, &f);
        f.weights[0] = broken;
        assert_ok(gains == 1 ? removal_init(&f.view, NULL, &r) : removal_init(&f.view, &exact, &r));
        assert_fails(removal_take(&r, 1, 1, gains == 1, batch_of_one, NULL), GRAIL_ERROR_NUMERIC,
                     gains == 1 ? "the value of unit 0 is not finite"
                                : "the value of unit 2 is not finite");
        removal_fini(&r);
        forget_inputs(&f);
    }
}

TEST(statistics_of_another_width_are_refused)
{
    hand_site f;
    removal r = {0};
    three_units(on_cpu, &f);
    f.inputs[0].width = 2;
    assert_fails(removal_init(&f.view, &exact, &r), GRAIL_ERROR_INTERNAL,
                 "statistics of 2 features for a consumer of 3");
    f.inputs[0].width = 3;
    forget_inputs(&f);
}

enum { ROWS = 40, UNITS = 6, OUTPUTS = 4 };

/* Removes unit after unit; each value must be the growth of the loss on explicit rows. */
static void check_refits(backend *b, int64_t u, int64_t outputs, bool with_target, bool biased)
{
    const removal_options options = {.kind = VALUE_EXACT, .damping = 1e-2, .refits = true};
    const int64_t width = UNITS * u;
    bool kept[UNITS * 3];
    hand_site f;
    removal r = {0};
    observed o = observe(ROWS, width, outputs, 1, 17);
    if (with_target) {
        observed_add_target(&o, 18);
    }
    memset(kept, true, sizeof kept);
    hand_begin(&f, SITE_FFN, UNITS, 1);
    hand_add_consumer(&f, u, outputs, o.stored);
    give_input(b, &o, 0, &f);
    f.view.fits_bias = biased;
    const double lambda = observed_lambda(&o, biased, options.damping);
    assert_ok(removal_init(&f.view, &options, &r));
    for (int64_t step = 0; step < UNITS - 1; step++) {
        double values[UNITS];
        const double before = observed_loss(&o, biased, lambda, kept);
        assert_ok(removal_values(&r, values));
        for (int64_t j = 0; j < UNITS; j++) {
            if (kept[j * u]) {
                memset(kept + j * u, false, (size_t)u);
                const double loss = observed_loss(&o, biased, lambda, kept);
                assert_near(values[j], loss - before, 1e-9 * loss);
                memset(kept + j * u, true, (size_t)u);
            }
        }
        assert_ok(removal_take(&r, 1, 1, false, batch_of_one, NULL));
        for (int64_t j = 0; j < width; j++) {
            kept[j] = !r.taken[j / u];
        }
    }
    removal_fini(&r);
    forget_inputs(&f);
    observed_free(&o);
}

TEST(costs_are_those_of_weights_refitted_to_the_target)
{
    backend *const instances[] = {on_ref, on_cpu};
    for (int i = 0; i < 2; i++) {
        for (int64_t u = 1; u <= 3; u += 2) {
            check_refits(instances[i], u, OUTPUTS, true, false);
            check_refits(instances[i], u, OUTPUTS, true, true);
        }
    }
}

TEST(without_a_target_the_dense_weights_are_the_fit)
{
    check_refits(on_cpu, 1, OUTPUTS, false, false);
    check_refits(on_cpu, 1, OUTPUTS, false, true);
    check_refits(on_ref, 3, OUTPUTS, false, true);
}

/* More outputs than a panel has, and no multiple of it. */
TEST(weights_are_added_panel_by_panel)
{
    check_refits(on_cpu, 1, 2100, true, true);
    check_refits(on_cpu, 1, 2100, false, false);
}

/* Units that cost 1, 4, 4, 9, 16, 25, 16 and 81, alone and in two runs of four. */
TEST(losses_add_up_the_costs)
{
    static const float weights[] = {1, 2, 2, 3, 4, 5, 4, 9};
    static const double alone[] = {156, 75, 50, 34, 18, 9, 5, 1, 0};
    static const double paired[] = {156, 156, 66, 66, 37, 37, 17, 17, 0};
    for (int64_t groups = 1; groups <= 2; groups++) {
        hand_site f;
        removal r = {0};
        double losses[9];
        independent_units(&f, 8, weights);
        assert_ok(removal_init(&f.view, &exact, &r));
        assert_ok(removal_losses(&r, groups, losses));
        for (int k = 0; k <= 8; k++) {
            assert_near(losses[k], groups == 1 ? alone[k] : paired[k], 1e-12);
        }
        removal_fini(&r);
        forget_inputs(&f);
    }
}

/* Everything that allocates: statistics are copied outside the counted part. */
static grail_status decide(void *context)
{
    const observed *o = context;
    const removal_options options = {.kind = VALUE_EXACT, .damping = 1e-2, .refits = true};
    grail_status status = GRAIL_OK;
    hand_site f;
    removal r = {0};
    matrix gram = no_matrix;
    matrix cross = no_matrix;
    grail_reducer *reducer = NULL;
    double means[UNITS] = {0.0};
    hand_begin(&f, SITE_FFN, UNITS, 1);
    hand_add_consumer(&f, 1, OUTPUTS, o->stored);
    f.view.fits_bias = true;
    TRY(matrix_new_zero(on_cpu, GRAIL_DTYPE_F64, UNITS, UNITS, &gram));
    TRY(matrix_shift_diagonal(1.0, gram));
    TRY(matrix_new_zero(on_cpu, GRAIL_DTYPE_F64, OUTPUTS, UNITS, &cross));
    f.inputs[0] = (input_statistics){
        .width = UNITS, .gram = gram, .cross = cross, .means = means, .target_means = means};
    gram = no_matrix;
    f.view.backend = on_cpu;
    status = removal_init(&f.view, &options, &r);
    gram = f.inputs[0].gram; /* what was not taken over */
    TRY(status);
    TRY(removal_take(&r, 1, 2, false, batch_of_one, NULL));
    TRY(removal_reducer(&r, false, &reducer));
out:
    grail_reducer_free(reducer);
    removal_fini(&r);
    matrix_free(&gram);
    matrix_free(&cross);
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    observed o = observe(ROWS, UNITS, OUTPUTS, 1, 2);
    support_fail_each_allocation(decide, &o);
    observed_free(&o);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
