/* When a long command says how far it is, driven by a clock that the test turns. */
#include "support/support.h"

#include "pace.h"

#include <math.h>

TEST(a_log_has_a_line_a_minute)
{
    pace p = pace_start(1000.0);
    int lines = 0;
    for (int second = 0; second < 59; second++) { /* a short command has none */
        assert_false(pace_is_due(&p, 1000.0 + second, 60.0));
    }
    for (int second = 59; second <= 600; second++) {
        lines += pace_is_due(&p, 1000.0 + second, 60.0) ? 1 : 0;
    }
    assert_int_equal(lines, 10);
}

TEST(other_lines_count)
{
    pace p = pace_start(0.0);
    pace_note(&p, 50.0);
    assert_false(pace_is_due(&p, 100.0, 60.0));
    assert_true(pace_is_due(&p, 110.0, 60.0));
    assert_false(pace_is_due(&p, 110.0, 60.0));
}

TEST(a_rare_word_is_said_at_once)
{
    pace p = pace_start(0.0);
    assert_true(pace_is_due(&p, 300.0, 60.0));
    assert_true(pace_is_due(&p, 600.0, 60.0));
}

TEST(the_time_left_follows_from_the_pace)
{
    pace p = pace_start(0.0);
    assert_true(isnan(pace_left(&p, 100.0, 0.2))); /* such as a run that goes on from there */
    assert_true(fabs(pace_left(&p, 110.0, 0.4) - 30.0) < 1e-9);
    assert_true(isnan(pace_left(&p, 115.0, (double)NAN)));
    assert_true(fabs(pace_left(&p, 130.0, 0.6) - 30.0) < 1e-9);
    assert_true(isnan(pace_left(&p, 160.0, 1.0)));
}

TEST(each_part_has_a_pace_of_its_own)
{
    pace p = pace_start(0.0);
    assert_true(isnan(pace_left(&p, 10.0, 0.5)));
    assert_true(isnan(pace_left(&p, 20.0, 1.0)));
    assert_true(isnan(pace_left(&p, 1000.0, 0.5))); /* behind one that ended */
    assert_true(fabs(pace_left(&p, 1001.0, 0.75) - 1.0) < 1e-9);
    assert_true(isnan(pace_left(&p, 2000.0, 0.1))); /* behind one that did not */
    assert_true(fabs(pace_left(&p, 2001.0, 0.2) - 8.0) < 1e-9);
}
