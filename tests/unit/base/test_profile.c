#include "base/profile.h"

#include "base/clock.h"
#include "support/support.h"

static const double moment = 0.002;

static void spend(void)
{
    const double end = clock_seconds() + moment;
    while (clock_seconds() < end) {
    }
}

TEST(one_clock_runs_at_a_time)
{
    profile p;
    const double begun = clock_seconds();
    profile_start(&p);
    assert_null(profile_use(&p));
    spend();
    const profile_kind outer = profile_enter(PROFILE_FITS);
    spend();
    const profile_kind inner = profile_enter(PROFILE_SELECTION);
    assert_int_equal(inner, PROFILE_FITS);
    profile_add_operations(8.0);
    spend();
    profile_enter(inner);
    profile_add_operations(2.0);
    spend();
    profile_enter(outer);
    spend();
    assert_true(profile_use(NULL) == &p);
    profile_read(&p);
    const double passed = clock_seconds() - begun;
    double sum = 0.0;
    for (int kind = 0; kind < PROFILE_KINDS; kind++) {
        const double least = kind == PROFILE_FITS || kind == PROFILE_REST ? 2.0 * moment
                             : kind == PROFILE_SELECTION                  ? moment
                                                                          : 0.0;
        assert_true(p.seconds[kind] >= least && p.seconds[kind] <= passed - 5.0 * moment + least);
        sum += p.seconds[kind];
    }
    assert_true(sum <= passed && sum >= p.since - begun - moment);
    assert_true(p.operations[PROFILE_SELECTION] == 8.0 && p.operations[PROFILE_FITS] == 2.0);
}

TEST(a_thread_without_a_profile_counts_nothing)
{
    profile p;
    profile_start(&p);
    assert_false(profile_is_on());
    assert_int_equal(profile_enter(PROFILE_FITS), PROFILE_FITS);
    profile_use(&p);
    assert_true(profile_is_on());
    assert_int_equal(p.now, PROFILE_REST);
    assert_true(profile_use(NULL) == &p);
    assert_int_equal(profile_enter(PROFILE_FITS), PROFILE_FITS);
    assert_int_equal(p.now, PROFILE_REST);
}
