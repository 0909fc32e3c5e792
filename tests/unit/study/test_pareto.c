/* The points that no other beats in both coordinates. */
#include "support/support.h"

#include "study/page/pareto.h"

#include <math.h>

static void assert_points(const pareto_point *points, int count, const pareto_point *expected,
                          int expected_count)
{
    assert_int_equal(count, expected_count);
    for (int i = 0; i < count; i++) {
        assert_near(points[i].x, expected[i].x, 0.0);
        assert_near(points[i].y, expected[i].y, 0.0);
    }
}

static void dominated_points_are_left_out(void **state)
{
    (void)state;
    pareto_point points[] = {{50, 80}, {0, 95}, {30, 90}, {30, 85}, {40, 90}, {70, 20}, {60, 80}};
    static const pareto_point expected[] = {{0, 95}, {40, 90}, {60, 80}, {70, 20}};
    assert_points(points, pareto_front(points, 7, false, false), expected, 4);
}

/* A cut may be better than the dense network, which then is not on the line. */
static void a_better_and_smaller_point_takes_the_place_of_all(void **state)
{
    (void)state;
    pareto_point points[] = {{0, 95}, {30, 96}, {10, 95.5}};
    static const pareto_point expected[] = {{30, 96}};
    assert_points(points, pareto_front(points, 3, false, false), expected, 1);
}

static void less_can_be_better_in_either_coordinate(void **state)
{
    (void)state;
    pareto_point times[] = {{5, 90}, {3, 80}, {4, 79}, {6, 90}};
    static const pareto_point fast[] = {{3, 80}, {5, 90}};
    assert_points(times, pareto_front(times, 4, true, false), fast, 2);
    pareto_point perplexities[] = {{0, 6}, {20, 8}, {20, 7}, {10, 9}, {50, 30}};
    static const pareto_point low[] = {{0, 6}, {20, 7}, {50, 30}};
    assert_points(perplexities, pareto_front(perplexities, 5, false, true), low, 3);
}

static void equal_points_count_once_and_unknown_ones_not_at_all(void **state)
{
    (void)state;
    pareto_point points[] = {{1, 1}, {(double)NAN, 9}, {1, 1}, {9, (double)NAN}};
    static const pareto_point expected[] = {{1, 1}};
    assert_points(points, pareto_front(points, 4, false, false), expected, 1);
    assert_int_equal(pareto_front(points, 0, false, false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dominated_points_are_left_out),
        cmocka_unit_test(a_better_and_smaller_point_takes_the_place_of_all),
        cmocka_unit_test(less_can_be_better_in_either_coordinate),
        cmocka_unit_test(equal_points_count_once_and_unknown_ones_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
