/* Values with intervals: shares, means of runs, differences. */
#include "support/support.h"

#include "study/page/estimate.h"

#include <math.h>

static const double nan_value = (double)NAN;

static void a_share_has_wilsons_interval(void **state)
{
    (void)state;
    const estimate e = estimate_of_share(81.0 / 263.0, 263.0, nan_value);
    assert_near(e.value, 81.0 / 263.0, 1e-12);
    assert_near(e.low, 0.2553, 5e-5); /* Newcombe 1998, table I */
    assert_near(e.high, 0.3662, 5e-5);
    const estimate all = estimate_of_share(1.0, 10.0, nan_value);
    assert_near(all.low, 0.722467, 5e-6);
    assert_near(all.high, 1.0, 0.0);
}

/* Numbers of scipy 1: t.ppf and norm.ppf in the formulas of docs/numerics.md. */
static void pairs_have_the_interval_of_their_differences(void **state)
{
    (void)state;
    const double a[] = {1.5, 0.9, 2.0, 1.1};
    const double b[] = {1.3, 1.0, 1.6, 1.05};
    const estimate e = estimate_of_pairs(a, b, 4, false);
    assert_near(e.value, 0.1375, 1e-12);
    assert_near(e.low, -0.2023854, 1e-6);
    assert_near(e.high, 0.4773854, 1e-6);
    const estimate one = estimate_of_pairs(a, b, 1, false);
    assert_true(estimate_is_known(&one) && !estimate_has_interval(&one));
}

static void pairs_of_hits_that_agree_still_have_a_width(void **state)
{
    (void)state;
    double a[100] = {0.0};
    double b[100] = {0.0};
    const estimate alike = estimate_of_pairs(a, b, 100, true);
    assert_near(alike.value, 0.0, 0.0);
    assert_near(alike.low, -0.01921533, 1e-6);
    assert_near(alike.high, 0.01921533, 1e-6);
    for (int i = 0; i < 15; i++) { /* 12 that a alone has right, and 3 that b has */
        *(i < 12 ? &a[i] : &b[i]) = 1.0;
    }
    const estimate e = estimate_of_pairs(a, b, 100, true);
    assert_near(e.value, 0.09, 1e-12);
    assert_near(e.low, 0.01330564, 1e-6);
    assert_near(e.high, 0.16316495, 1e-6);
}

static void a_share_without_a_count_takes_the_half_width(void **state)
{
    (void)state;
    const estimate e = estimate_of_share(0.95, nan_value, 0.1);
    assert_near(e.low, 0.85, 1e-12);
    assert_near(e.high, 1.0, 0.0);
    const estimate bare = estimate_of_share(0.95, nan_value, nan_value);
    assert_true(estimate_is_known(&bare));
    assert_false(estimate_has_interval(&bare));
    const estimate nothing = estimate_of_share(nan_value, 100.0, 0.1);
    assert_false(estimate_is_known(&nothing));
    assert_false(estimate_has_interval(&nothing));
}

static void a_single_run_keeps_its_interval(void **state)
{
    (void)state;
    const estimate run = {0.5, 0.45, 0.57};
    const estimate e = estimate_of_runs(&run, 1);
    assert_near(e.low, 0.45, 0.0);
    assert_near(e.high, 0.57, 0.0);
    const estimate none = estimate_of_runs(NULL, 0);
    assert_false(estimate_is_known(&none));
}

/* 1, 2, 3: standard deviation 1, of the mean 1 / sqrt(3); Student's quantile for 2 is 4.302653 */
static void the_distance_of_runs_is_added_to_their_intervals(void **state)
{
    (void)state;
    const double reach = 4.302653 / sqrt(3.0);
    estimate runs[] = {
        {1.0, nan_value, nan_value}, {2.0, nan_value, nan_value}, {3.0, nan_value, nan_value}};
    estimate e = estimate_of_runs(runs, 3);
    assert_near(e.value, 2.0, 1e-12);
    assert_near(e.low, 2.0 - reach, 1e-6);
    assert_near(e.high, 2.0 + reach, 1e-6);
    for (int i = 0; i < 3; i++) {
        runs[i] = (estimate){runs[i].value, runs[i].value - 3.0, runs[i].value + 4.0};
    }
    e = estimate_of_runs(runs, 3);
    assert_near(e.low, 2.0 - hypot(3.0, reach), 1e-6);
    assert_near(e.high, 2.0 + hypot(4.0, reach), 1e-6);
}

/* Runs on the same samples: equal ones together tell no more than one of them. */
static void equal_runs_keep_the_interval_of_one(void **state)
{
    (void)state;
    estimate runs[40];
    for (int i = 0; i < 40; i++) {
        runs[i] = (estimate){0.5, 0.4, 0.6};
    }
    const estimate e = estimate_of_runs(runs, 40);
    assert_near(e.low, 0.4, 1e-12);
    assert_near(e.high, 0.6, 1e-12);
}

/* 1 .. n with n - 1 degrees of freedom; quantiles of published tables: 10: 2.228139, 30: 2.042272
 */
static void many_runs_use_students_quantiles(void **state)
{
    (void)state;
    static const struct {
        int count;
        double quantile;
    } known[] = {{11, 2.228139}, {12, 2.200985}, {31, 2.042272}, {61, 2.000298}};
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        estimate runs[64];
        const int n = known[k].count;
        for (int i = 0; i < n; i++) {
            runs[i] = (estimate){i, nan_value, nan_value};
        }
        const double deviation = sqrt(n * (n + 1.0) / 12.0);
        const estimate e = estimate_of_runs(runs, n);
        assert_near((e.high - e.value) / (deviation / sqrt(n)), known[k].quantile, 2e-4);
    }
}

/* Newcombe 1998, Interval estimation for the difference, table II, method 10: 56/70 - 48/80 */
static void a_difference_has_newcombes_interval(void **state)
{
    (void)state;
    const estimate a = estimate_of_share(56.0 / 70.0, 70.0, nan_value);
    const estimate b = estimate_of_share(48.0 / 80.0, 80.0, nan_value);
    const estimate d = estimate_difference(&a, &b);
    assert_near(d.value, 0.2, 1e-12);
    assert_near(d.low, 0.0524, 5e-5);
    assert_near(d.high, 0.3339, 5e-5);
}

static void above_means_that_intervals_are_apart(void **state)
{
    (void)state;
    const estimate high = {0.9, 0.85, 0.95};
    const estimate low = {0.7, 0.6, 0.8};
    const estimate middle = {0.8, 0.75, 0.86};
    const estimate bare = {0.1, nan_value, nan_value};
    assert_true(estimate_is_above(&high, &low));
    assert_false(estimate_is_above(&low, &high));
    assert_false(estimate_is_above(&high, &middle));
    assert_false(estimate_is_above(&high, &bare));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_has_wilsons_interval),
        cmocka_unit_test(pairs_have_the_interval_of_their_differences),
        cmocka_unit_test(pairs_of_hits_that_agree_still_have_a_width),
        cmocka_unit_test(a_share_without_a_count_takes_the_half_width),
        cmocka_unit_test(a_single_run_keeps_its_interval),
        cmocka_unit_test(the_distance_of_runs_is_added_to_their_intervals),
        cmocka_unit_test(equal_runs_keep_the_interval_of_one),
        cmocka_unit_test(many_runs_use_students_quantiles),
        cmocka_unit_test(a_difference_has_newcombes_interval),
        cmocka_unit_test(above_means_that_intervals_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
