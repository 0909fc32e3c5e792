/* Medians, and the intervals of the median that samples are drawn from. */
#include "support/support.h"

#include "base/median.h"
#include "base/random.h"

#include <math.h>

enum { MOST = 2000 };

static void number(double values[], int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        values[i] = (double)(count - i);
    }
    median_sort(values, count);
}

static void test_median_lies_in_the_middle(void **state)
{
    (void)state;
    double values[MOST];
    number(values, 1);
    assert_true(median_of_sorted(values, 1) == 1);
    number(values, 4);
    assert_true(median_of_sorted(values, 4) == 2.5);
    number(values, 5);
    assert_true(median_of_sorted(values, 5) == 3);
}

/* Ranks of published tables of the sign test. */
static void test_ranks_of_the_interval(void **state)
{
    (void)state;
    static const struct {
        int64_t count, low;
    } known[] = {{MEDIAN_INTERVAL_LEAST, 1}, {8, 1}, {9, 2}, {20, 6}, {50, 18}, {100, 40}};
    double values[MOST];
    double low = 0;
    double high = 0;
    number(values, MEDIAN_INTERVAL_LEAST - 1);
    assert_false(median_interval(values, MEDIAN_INTERVAL_LEAST - 1, &low, &high));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        number(values, known[i].count);
        assert_true(median_interval(values, known[i].count, &low, &high));
        assert_true(low == (double)known[i].low);
        assert_true(high == (double)(known[i].count + 1 - known[i].low));
    }
    number(values, MOST); /* 2^-2000 is no f64; here k is count / 2 - 0.98 sqrt(count) */
    assert_true(median_interval(values, MOST, &low, &high));
    assert_true(low > 954 && low < 959);
}

/* The samples are of a skewed distribution whose median is 1. */
static void test_interval_holds_the_median_at_least_as_often_as_promised(void **state)
{
    (void)state;
    enum { TRIALS = 2000, COUNT = 20 };
    random_state random;
    double values[COUNT];
    double low = 0;
    double high = 0;
    int held = 0;
    random_seed(&random, 1, 0);
    for (int trial = 0; trial < TRIALS; trial++) {
        for (int i = 0; i < COUNT; i++) {
            values[i] = exp(random_normal(&random));
        }
        median_sort(values, COUNT);
        assert_true(median_interval(values, COUNT, &low, &high));
        held += low <= 1 && 1 <= high ? 1 : 0;
    }
    assert_true(held >= 0.945 * TRIALS); /* 95.9 % are expected, with a deviation of 0.44 % */
    assert_true(held < 0.98 * TRIALS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_median_lies_in_the_middle),
        cmocka_unit_test(test_ranks_of_the_interval),
        cmocka_unit_test(test_interval_holds_the_median_at_least_as_often_as_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
