/* The public fit, on a worked example: G = [[2,1,0],[1,2,1],[0,1,2]]. */
#include <grail/ridge.h>

#include "support/matrices.h"

#include <math.h>

enum { ROWS = 4, UNITS = 3 };

static const float x[ROWS * UNITS] = {1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1};
static const float identity[UNITS * UNITS] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
static const int64_t kept[] = {0, 2};
static const int64_t labels[] = {0, 0, 1};

static grail_statistics *statistics_of(int64_t width, const float *z, const float *y)
{
    grail_statistics *s = NULL;
    assert_ok(grail_statistics_create(width, y == NULL ? 0 : UNITS, &s));
    assert_ok(grail_statistics_accumulate(s, ROWS, z, width, y, UNITS));
    return s;
}

/* W' for W = I, that is the map B[3, 2] itself. */
static grail_compensate_result fit_selection(int prior, double alpha, float *weight)
{
    OWNED(grail_statistics) *s = statistics_of(UNITS, x, NULL);
    grail_compensate_result result;
    grail_compensate_options options;
    grail_compensate_options_init(&options);
    options.prior = prior;
    options.alpha = alpha;
    OPENED(grail_reducer, reducer, grail_reducer_from_selection(UNITS, 2, kept, &reducer));
    assert_ok(
        grail_compensate(s, NULL, reducer, 1, UNITS, identity, &options, weight, NULL, &result));
    return result;
}

static void assert_map(const float *weight, const double *expected, double tolerance)
{
    for (int i = 0; i < 6; i++) {
        assert_near((double)weight[i], expected[i], tolerance);
    }
}

TEST(the_defaults_are_the_choices_of_the_paper)
{
    grail_compensate_options options;
    grail_compensate_options_init(&options);
    assert_int_equal(options.prior, 0);
    assert_int_equal(options.bias, 0);
    assert_int_equal(options.diagonal, 0);
    assert_near(options.alpha, 1e-3, 0.0);
}

TEST(the_example_without_ridge_splits_the_removed_unit_in_halves)
{
    float weight[6];
    const double expected[] = {1, 0, 0.5, 0.5, 0, 1};
    const grail_compensate_result result = fit_selection(0, 0.0, weight);
    assert_map(weight, expected, 1e-7);
    assert_near(result.lambda, 0.0, 0.0);
    assert_near(result.condition, 1.0, 1e-12);
    assert_int_equal(result.fallback, 0);
    /* Unit 1 is lost without a fit: 2 of the squares 2 + 2 + 2; with it 2 - 2 * 0.5 is left. */
    assert_near(result.error_before, 2.0 / 6.0, 1e-7);
    assert_near(result.error_after, 1.0 / 6.0, 1e-7);
}

/* The example with its last unit doubled: G[:, P] = [[2, 0], [1, 2], [0, 8]]. */
TEST(a_penalty_by_the_diagonal_shrinks_all_kept_units_alike)
{
    float doubled[ROWS * UNITS];
    float weight[6];
    const double expected[] = {1 / 1.1, 0, 0.5 / 1.1, 0.25 / 1.1, 0, 1 / 1.1};
    for (int i = 0; i < ROWS * UNITS; i++) {
        doubled[i] = x[i] * (i % UNITS == 2 ? 2.0F : 1.0F);
    }
    OWNED(grail_statistics) *s = statistics_of(UNITS, doubled, NULL);
    grail_compensate_result result;
    const grail_compensate_options options = {.alpha = 0.1, .diagonal = 1};
    OPENED(grail_reducer, reducer, grail_reducer_from_selection(UNITS, 2, kept, &reducer));
    assert_ok(
        grail_compensate(s, NULL, reducer, 1, UNITS, identity, &options, weight, NULL, &result));
    assert_map(weight, expected, 1e-7);
    assert_near(result.lambda, 0.5, 1e-12);
}

TEST(the_zero_ridge_shrinks_the_kept_units_too)
{
    float weight[6];
    const double expected[] = {1 / 1.1, 0, 0.5 / 1.1, 0.5 / 1.1, 0, 1 / 1.1};
    const grail_compensate_result result = fit_selection(0, 0.1, weight);
    assert_map(weight, expected, 1e-7);
    assert_near(result.lambda, 0.2, 1e-12);
}

TEST(the_prior_ridge_shrinks_only_what_is_added)
{
    float weight[6];
    const double expected[] = {1, 0, 0.5 / 1.1, 0.5 / 1.1, 0, 1};
    fit_selection(1, 0.1, weight);
    assert_map(weight, expected, 1e-7);
}

/* The folded producer emits the mean of units 0 and 1; A = [[1.5, 0.5], [0.5, 2]]. */
TEST(a_folding_is_fitted_on_what_the_folded_producer_emits)
{
    float z[ROWS * 2];
    float weight[6];
    for (int t = 0; t < ROWS; t++) {
        z[2 * t] = (x[3 * t] + x[3 * t + 1]) / 2.0F;
        z[2 * t + 1] = x[3 * t + 2];
    }
    OWNED(grail_statistics) *s = statistics_of(2, z, x);
    grail_compensate_result result;
    const grail_compensate_options options = {.reduced = 1, .alpha = 0.0};
    const double expected[] = {12.0 / 11, -3.0 / 11, 10.0 / 11, 3.0 / 11, 0, 1};
    OPENED(grail_reducer, reducer, grail_reducer_from_labels(UNITS, 2, labels, &reducer));
    assert_ok(
        grail_compensate(s, NULL, reducer, 1, UNITS, identity, &options, weight, NULL, &result));
    assert_map(weight, expected, 1e-6);
    assert_true(result.error_after < result.error_before);
}

/* As an expert that no row was routed to. */
TEST(without_rows_the_consumer_is_cut_and_no_more)
{
    static const float consumer[UNITS * UNITS] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const double cut[] = {1, 3, 4, 6, 7, 9};
    for (int i = 0; i < 4; i++) {
        float weight[6];
        double bias_change[UNITS] = {NAN, NAN, NAN};
        grail_compensate_result result;
        grail_compensate_options options;
        grail_compensate_options_init(&options);
        options.prior = i % 2;
        options.bias = i / 2;
        OPENED(grail_statistics, s, grail_statistics_create(UNITS, 0, &s));
        OPENED(grail_reducer, reducer, grail_reducer_from_selection(UNITS, 2, kept, &reducer));
        assert_ok(grail_compensate(s, NULL, reducer, 1, UNITS, consumer, &options, weight,
                                   options.bias != 0 ? bias_change : NULL, &result));
        assert_map(weight, cut, 0.0);
        for (int o = 0; o < UNITS && options.bias != 0; o++) {
            assert_near(bias_change[o], 0.0, 0.0);
        }
        assert_near(result.error_before, 0.0, 0.0);
        assert_near(result.error_after, 0.0, 0.0);
    }
}

TEST(statistics_are_not_changed)
{
    OWNED(grail_statistics) *s = statistics_of(UNITS, x, x);
    float weight[2][6];
    double change[2][UNITS];
    grail_compensate_result result;
    const grail_compensate_options options = {.prior = 1, .bias = 1, .alpha = 1e-2};
    OPENED(grail_reducer, reducer, grail_reducer_from_selection(UNITS, 2, kept, &reducer));
    for (int i = 0; i < 2; i++) {
        assert_ok(grail_compensate(s, NULL, reducer, 1, UNITS, identity, &options, weight[i],
                                   change[i], &result));
    }
    assert_memory_equal(weight[0], weight[1], sizeof weight[0]);
    assert_memory_equal(change[0], change[1], sizeof change[0]);
    assert_int_equal(grail_statistics_count(s), ROWS);
    assert_near(grail_statistics_gram(s, 0, 1), 1.0, 0.0);
}

/* The target is its own mean plus what unit 1 adds: 1, whatever the kept units do. */
TEST(a_bias_change_is_computed_when_asked_for)
{
    const float z[ROWS * UNITS] = {1, 3, 0, -1, 3, 0, 1, 3, 0, -1, 3, 0};
    OWNED(grail_statistics) *s = statistics_of(UNITS, z, NULL);
    float weight[6];
    double change[UNITS];
    grail_compensate_result result;
    const grail_compensate_options options = {.prior = 1, .bias = 1, .alpha = 1e-3};
    OPENED(grail_reducer, reducer, grail_reducer_from_selection(UNITS, 2, kept, &reducer));
    assert_ok(
        grail_compensate(s, NULL, reducer, 1, UNITS, identity, &options, weight, change, &result));
    assert_near(change[0], 0.0, 1e-12);
    assert_near(change[1], 3.0, 1e-12);
    assert_near(result.error_after, 0.0, 1e-12);
}

TEST(keeping_every_unit_returns_the_consumer_bit_for_bit)
{
    const int64_t all[] = {0, 1, 2};
    const float consumer[] = {0.1F, -0.0F, 3e-41F, 7, -8, 9e30F};
    float weight[6];
    OWNED(grail_statistics) *s = statistics_of(UNITS, x, NULL);
    grail_compensate_result result;
    grail_compensate_options options;
    grail_compensate_options_init(&options);
    OPENED(grail_reducer, reducer, grail_reducer_from_selection(UNITS, 3, all, &reducer));
    assert_ok(grail_compensate(s, NULL, reducer, 1, 2, consumer, &options, weight, NULL, &result));
    assert_memory_equal(weight, consumer, sizeof consumer);
    assert_near(result.error_after, 0.0, 0.0);
}

TEST(shapes_and_options_that_do_not_fit_are_refused)
{
    float weight[6];
    double change[UNITS];
    OWNED(grail_statistics) *s = statistics_of(UNITS, x, NULL);
    OWNED(grail_reducer) *folding = NULL;
    grail_compensate_result result;
    grail_compensate_options options;
    grail_compensate_options_init(&options);
    OPENED(grail_reducer, selection, grail_reducer_from_selection(UNITS, 2, kept, &selection));
    assert_ok(grail_reducer_from_labels(UNITS, 3, (const int64_t[]){0, 1, 2}, &folding));
    assert_fails(
        grail_compensate(s, NULL, selection, 2, UNITS, identity, &options, weight, NULL, &result),
        GRAIL_ERROR_SHAPE, "3 features, expected 3 units of 2");
    options.reduced = 1;
    assert_fails(
        grail_compensate(s, NULL, folding, 1, UNITS, identity, &options, weight, NULL, &result),
        GRAIL_ERROR_SHAPE, "these have 0 outputs, and the consumer 3");
    options.reduced = 0;
    assert_fails(
        grail_compensate(s, NULL, selection, 1, UNITS, identity, &options, weight, change, &result),
        GRAIL_ERROR_ARGUMENT, "bias_change");
    options.alpha = -1.0;
    assert_fails(
        grail_compensate(s, NULL, selection, 1, UNITS, identity, &options, weight, NULL, &result),
        GRAIL_ERROR_ARGUMENT, "alpha is -1");
}

TEST(a_weight_that_does_not_fit_f32_is_an_error)
{
    const float tiny[ROWS * UNITS] = {1e-3F, 1, 0, 1e-3F, 1, 0, 1e-3F, 1, 0, 1e-3F, 1, 0};
    const float huge[UNITS] = {0, 3e38F, 0};
    float weight[2];
    OWNED(grail_statistics) *s = statistics_of(UNITS, tiny, NULL);
    grail_compensate_result result;
    const grail_compensate_options options = {.prior = 0, .bias = 0, .alpha = 1e-6};
    OPENED(grail_reducer, reducer, grail_reducer_from_selection(UNITS, 2, kept, &reducer));
    assert_fails(grail_compensate(s, NULL, reducer, 1, 1, huge, &options, weight, NULL, &result),
                 GRAIL_ERROR_NUMERIC, "of output 0 is outside the range of f32");
}

static grail_status compensate_example(void *context)
{
    OWNED(grail_statistics) *s = NULL;
    OWNED(grail_reducer) *reducer = NULL;
    float weight[6];
    double change[UNITS];
    grail_compensate_result result;
    const grail_compensate_options options = {.prior = 1, .bias = 1, .alpha = 1e-2};
    grail_status status = grail_statistics_create(UNITS, 0, &s);
    if (status == GRAIL_OK) {
        status = grail_statistics_accumulate(s, ROWS, x, UNITS, NULL, 0);
    }
    if (status == GRAIL_OK) {
        status = grail_reducer_from_selection(UNITS, 2, kept, &reducer);
    }
    if (status == GRAIL_OK) {
        status = grail_compensate(s, NULL, reducer, 1, UNITS, identity, &options, weight, change,
                                  &result);
    }
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(compensate_example, NULL);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
