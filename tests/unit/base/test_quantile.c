#include "base/quantile.h"

#include "support/support.h"

TEST(the_median_of_an_even_count_is_the_upper_one)
{
    const double values[] = {5, 1, 4, 2, 3};
    double median = -1.0;
    for (int64_t count = 0; count <= 5; count++) {
        static const double expected[] = {0, 5, 5, 4, 4, 3};
        assert_ok(quantile_of(0.5, count, values, &median));
        assert_true(median == expected[count]);
    }
    assert_true(values[0] == 5); /* they stay as they were */
}

TEST(so_many_values_are_below_a_quantile)
{
    static const double values[] = {7, -2, 9, 0, 5, 3, 8, 1, 6, 4};
    static const double shares[] = {0.0, 0.1, 0.25, 0.99};
    static const double expected[] = {-2, 0, 1, 9};
    for (int i = 0; i < 4; i++) {
        double found = 0.0;
        assert_ok(quantile_of(shares[i], 10, values, &found));
        assert_true(found == expected[i]);
    }
}
