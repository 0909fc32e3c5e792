/* Medians. */
#include "support/support.h"

#include "base/median.h"

enum { MOST = 5 };

static void number(double values[], int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        values[i] = (double)(count - i);
    }
    median_sort(values, count);
}

TEST(test_median_lies_in_the_middle)
{
    double values[MOST];
    number(values, 1);
    assert_true(median_of_sorted(values, 1) == 1);
    number(values, 4);
    assert_true(median_of_sorted(values, 4) == 2.5);
    number(values, 5);
    assert_true(median_of_sorted(values, 5) == 3);
}
