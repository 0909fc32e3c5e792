/* The interval of a share, against published values. */
#include "support/support.h"

#include "base/wilson.h"

TEST(the_interval_is_wilsons)
{
    static const struct {
        double hits, count, low, high;
    } known[] = {
        {0, 10, 0.0, 0.277533},        {5, 10, 0.236593, 0.763407}, {10, 10, 0.722467, 1.0},
        {81, 263, 0.255285, 0.366171}, /* Newcombe 1998, table I: 0.2553 to 0.3662 */
        {15, 148, 0.062388, 0.160519}, /* the same: 0.0624 to 0.1605 */
        {1, 29, 0.006113, 0.171757},   /* the same: 0.0061 to 0.1718 */
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        double low = -1.0;
        double high = -1.0;
        wilson_interval(known[i].hits, known[i].count, &low, &high);
        assert_near(low, known[i].low, 5e-5);
        assert_near(high, known[i].high, 5e-5);
    }
}
