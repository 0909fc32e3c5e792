/* How a time is divided: by hand, on made-up costs. */
#include "planning/division.h"

#include "support/support.h"

#include <math.h>

/* A closed form of 10 s and 1 s a sample, quicker 2 s and 0.25 s, widths 5 s and 0.5 s, and healing
 * of a thousand tokens a second. */
static division_costs costs_for(double time)
{
    return (division_costs){.time = time,
                            .closed = {10.0, 1.0},
                            .quick = {2.0, 0.25},
                            .may_be_quick = true,
                            .widths = {{{5.0, 0.5}, 128, false}},
                            .width_count = 1,
                            .token = 1e-3,
                            .least_tokens = 20000.0,
                            .heals = true,
                            .least = 8,
                            .most = 128};
}

static division divided(const division_costs *costs)
{
    division d = {0};
    double least = 0.0;
    assert_ok(division_make(costs, &d, &least));
    return d;
}

TEST(a_long_time_has_all_samples_and_heals_with_the_rest)
{
    const division_costs costs = costs_for(1000.0);
    const division d = divided(&costs);
    assert_true(!d.is_quick);
    assert_int_equal(d.samples, 128);
    assert_near(d.closed, 138.0, 1e-12);
    assert_near(d.widths, 69.0, 1e-12);
    assert_near(d.healing, 1000.0 - 138.0 - 69.0, 1e-12);
    assert_near(d.tokens, 793e3, 1e-6);
}

TEST(a_shorter_one_has_fewer_samples)
{
    const division_costs costs = costs_for(100.0);
    const division d = divided(&costs);
    assert_int_equal(d.samples, 40); /* half of the time, less 10 s, for a third of 128 */
    assert_near(d.widths, 25.0, 1e-12);
    assert_near(d.healing, 25.0, 1e-12);
}

static int64_t samples_in(double time)
{
    const division_costs costs = costs_for(time);
    return divided(&costs).samples;
}

/* A third of the samples, until a quarter of the time suffices for more. */
TEST(healing_goes_before_more_samples)
{
    assert_int_equal(samples_in(150.0), 42);
    assert_int_equal(samples_in(200.0), 42);
    assert_int_equal(samples_in(400.0), 90);
}

TEST(widths_give_way_to_healing)
{
    division_costs costs = costs_for(100.0);
    costs.widths[0].seconds.fixed = 20.0; /* 40 s where 0.75 of 50 s are left for them */
    const division d = divided(&costs);
    assert_true(d.widths == 0.0);
    assert_near(d.shortest_widths, 40.0, 1e-12);
    assert_near(d.healing, 50.0, 1e-12);
}

/* Trials of fewer samples than the closed form take no more with these; 40 samples here. */
TEST(where_long_trials_do_not_fit_shorter_ones_are_taken)
{
    division_costs costs = costs_for(100.0);
    costs.least_tokens = 1e3; /* a second */
    costs.widths[0] = (width_cost){{20.0, 0.5}, 128, false};
    costs.widths[1] = (width_cost){{20.0, 0.5}, 32, false};
    costs.widths[2] = (width_cost){{20.0, 0.5}, 16, false};
    costs.width_count = 3;
    const division d = divided(&costs);
    assert_int_equal(d.way, 1);
    assert_near(d.widths, 36.0, 1e-12);
    assert_near(d.healing, 14.0, 1e-9);
    costs.least_tokens = 20e3; /* which the second way leaves no time for */
    assert_int_equal(divided(&costs).way, 2);
    assert_near(divided(&costs).healing, 22.0, 1e-9);
    costs.least_tokens = 1e3;
    costs.time = 160.0; /* 42 samples, and 108 s left */
    assert_int_equal(divided(&costs).way, 0);
    costs.time = 90.0; /* 35 samples, and 45 s left */
    assert_int_equal(divided(&costs).way, 2);
    costs.time = 70.0; /* 25 samples, and 35 s left */
    const division without = divided(&costs);
    assert_true(without.widths == 0.0);
    assert_near(without.shortest_widths, 28.0, 1e-12);
}

/* 50 s are left for both: a long trial has 12.5 s at most, others 37.5 s; all that is left
 * where nothing is healed. */
TEST(long_trials_leave_more_to_healing)
{
    division_costs costs = costs_for(100.0);
    costs.widths[0] = (width_cost){{20.0, 0.0}, 128, false};
    costs.widths[1] = (width_cost){{10.0, 0.0}, 32, true};
    costs.width_count = 2;
    assert_int_equal(divided(&costs).way, 0);
    costs.widths[0].is_long = true;
    assert_int_equal(divided(&costs).way, 1);
    costs.heals = false;
    assert_int_equal(divided(&costs).way, 0);
}

/* What would go to a healing too short to be worth it goes to samples and widths. */
TEST(without_time_to_heal_it_is_divided_among_the_others)
{
    division_costs costs = costs_for(100.0);
    costs.least_tokens = 1e6;
    const division d = divided(&costs);
    assert_true(d.healing == 0.0 && d.tokens == 0.0);
    assert_int_equal(d.samples, 40); /* half of the time, less 10 s */
    assert_near(d.widths, 25.0, 1e-12);
    costs.width_count = 0;
    assert_int_equal(divided(&costs).samples, 73); /* five sixths */
}

TEST(samples_have_what_neither_widths_nor_healing_take)
{
    division_costs costs = costs_for(100.0);
    costs.heals = false;
    costs.widths[0].seconds.fixed = 30.0; /* 50 s where 33 s are left for them */
    const division d = divided(&costs);
    assert_true(d.widths == 0.0);
    assert_near(d.shortest_widths, 50.0, 1e-12);
    assert_int_equal(d.samples, 73); /* five sixths of the time, less 10 s */
}

TEST(the_quick_form_takes_the_place_of_one_that_does_not_fit)
{
    const division_costs costs = costs_for(12.0);
    const division d = divided(&costs);
    assert_true(d.is_quick && d.widths == 0.0 && d.healing == 0.0);
    assert_int_equal(d.samples, 32); /* five sixths of the time, less 2 s */
}

TEST(no_part_exceeds_the_time)
{
    for (double time = 5.0; time < 2000.0; time *= 1.07) {
        for (int kind = 0; kind < 8; kind++) {
            division_costs costs = costs_for(time);
            costs.heals = (kind & 1) != 0;
            costs.width_count = (kind & 2) != 0 ? 1 : 0;
            costs.least_tokens = (kind & 4) != 0 ? 1e3 : 1e5;
            const division d = divided(&costs);
            assert_true(d.closed + d.widths + d.healing <= time * (1.0 + 1e-12));
            assert_true(d.samples >= costs.least && d.samples <= costs.most);
            assert_true(d.healing > 0.0 || d.closed + d.widths <= time * 5.0 / 6.0 + 1e-9);
        }
    }
}

TEST(the_least_time_is_told_and_suffices)
{
    division d = {0};
    double least = 0.0;
    for (int quick = 0; quick < 2; quick++) {
        division_costs costs = costs_for(1.0);
        costs.may_be_quick = quick != 0;
        assert_int_equal(division_make(&costs, &d, &least), GRAIL_ERROR_ARGUMENT);
        assert_near(least, (quick != 0 ? 4.0 : 18.0) * 6.0 / 5.0, 1e-9);
        costs.time = least * (1.0 + 1e-9);
        assert_int_equal(divided(&costs).samples, costs.least);
        costs.time = least * (1.0 - 1e-6);
        assert_int_equal(division_make(&costs, &d, &least), GRAIL_ERROR_ARGUMENT);
    }
    division_costs costs = costs_for((double)NAN);
    assert_int_equal(division_make(&costs, &d, &least), GRAIL_ERROR_ARGUMENT);
}
