#include "base/median.h"

#include "support/support.h"

TEST(the_median_of_an_even_count_is_the_upper_one)
{
    const double values[] = {5, 1, 4, 2, 3};
    double median = -1.0;
    for (int64_t count = 0; count <= 5; count++) {
        static const double expected[] = {0, 5, 5, 4, 4, 3};
        assert_ok(median_of(count, values, &median));
        assert_true(median == expected[count]);
    }
    assert_true(values[0] == 5); /* they stay as they were */
}
