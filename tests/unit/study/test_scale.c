/* Axes: round ticks, and values to positions. */
#include "support/support.h"

#include "study/page/scale.h"

#include <math.h>

static void ticks_are_round_and_cover_the_range(void **state)
{
    (void)state;
    const scale s = scale_linear(0.0, 86.0, 5, 200.0, 40.0);
    assert_int_equal(s.tick_count, 6);
    assert_near(s.ticks[1], 20.0, 1e-12);
    assert_near(s.to, 100.0, 1e-12);
    assert_int_equal(s.decimals, 0);
    const scale t = scale_linear(-0.013, 0.27, 6, 0.0, 1.0);
    assert_near(t.from, -0.05, 1e-12);
    assert_near(t.to, 0.3, 1e-12);
    assert_int_equal(t.decimals, 2);
}

/* Many ranges: ends on ticks, equal steps, few ticks. */
static void every_range_gets_an_axis(void **state)
{
    (void)state;
    random_state numbers;
    random_seed(&numbers, 7, 0);
    for (int i = 0; i < 20000; i++) {
        const double low = random_normal(&numbers) * pow(10.0, i % 30 - 5);
        const double high = low + fabs(random_normal(&numbers)) * pow(10.0, i % 31 - 8);
        const scale s = scale_linear(low, high, 5, 0.0, 100.0);
        assert_true(s.tick_count >= 2 && s.tick_count <= 9);
        const double step = s.ticks[1] - s.ticks[0];
        assert_true(s.from <= low + 1e-5 * step && s.to >= high - 1e-5 * step);
        assert_near(s.ticks[s.tick_count - 1], s.to, 1e-9 * fmax(fabs(s.to), step));
        assert_true(s.decimals >= 0 && scale_at(&s, low) >= 0.0 && scale_at(&s, high) <= 100.0);
    }
}

static void an_empty_range_gets_one_unit(void **state)
{
    (void)state;
    const scale zero = scale_linear(0.0, 0.0, 5, 0.0, 10.0);
    assert_near(zero.to, 1.0, 1e-12);
    const scale large = scale_linear(1e15, 1e15, 5, 0.0, 10.0);
    assert_true(large.to > large.from && large.tick_count >= 2);
}

static void positions_follow_the_scale_and_stop_at_its_ends(void **state)
{
    (void)state;
    const scale s = scale_linear(0.0, 100.0, 5, 200.0, 40.0);
    assert_near(scale_at(&s, 0.0), 200.0, 1e-12);
    assert_near(scale_at(&s, 25.0), 160.0, 1e-12);
    assert_near(scale_at(&s, 140.0), 40.0, 1e-12);
    assert_near(scale_at(&s, -3.0), 200.0, 1e-12);
}

static void an_axis_can_begin_between_ticks(void **state)
{
    (void)state;
    scale s = scale_linear(-1.0, 60.0, 6, 0.0, 61.0);
    scale_begin_at(&s, -1.0);
    assert_near(s.from, -1.0, 1e-12);
    assert_near(s.ticks[0], 0.0, 1e-12);
    assert_near(scale_at(&s, 0.0), 1.0, 1e-9);
    assert_near(scale_at(&s, 60.0), 61.0, 1e-9);
    scale untouched = scale_linear(0.0, 60.0, 6, 0.0, 60.0);
    scale_begin_at(&untouched, 0.0);
    assert_int_equal(untouched.tick_count, 7);
}

static void doublings_are_equally_far_apart(void **state)
{
    (void)state;
    const scale s = scale_doubling(8.0, 1024.0, 0.0, 70.0);
    assert_int_equal(s.tick_count, 8);
    assert_near(s.ticks[3], 64.0, 1e-12);
    assert_near(scale_at(&s, 64.0), 30.0, 1e-9);
    const scale one = scale_doubling(100.0, 100.0, 0.0, 1.0);
    assert_near(one.from, 64.0, 1e-12);
    assert_near(one.to, 128.0, 1e-12);
    const scale wide = scale_doubling(1.0, 1e18, 0.0, 1.0);
    assert_true(wide.tick_count <= 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_round_and_cover_the_range),
        cmocka_unit_test(every_range_gets_an_axis),
        cmocka_unit_test(an_empty_range_gets_one_unit),
        cmocka_unit_test(positions_follow_the_scale_and_stop_at_its_ends),
        cmocka_unit_test(an_axis_can_begin_between_ticks),
        cmocka_unit_test(doublings_are_equally_far_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
