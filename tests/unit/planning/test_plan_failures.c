/* Plans that run out of memory at any place. */
#include "plans.h"

#include "../pipeline/lab.h"

/* Each allocation or so fails once, until the plan is made: the one of a run that nothing failed
 * in. */
static void assert_survives(const grail_plan_options *o, const char *expected)
{
    grail_status status = GRAIL_ERROR_MEMORY;
    for (int64_t n = 1; status != GRAIL_OK; n = support_next_failure(n)) {
        OWNED(grail_plan) *p = NULL;
        memory_fail_after(n);
        status = grail_plan_make(o, &p);
        memory_fail_after(-1);
        assert_true(status == GRAIL_OK || status == GRAIL_ERROR_MEMORY);
        assert_int_equal(p != NULL, status == GRAIL_OK);
        if (status == GRAIL_OK) {
            assert_string_equal(grail_plan_text(p), expected);
        }
    }
}

/* What a plan measured half is not kept for the next one of its session. */
LAB_TEST(failing_allocations_are_survived)
{
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    for (int way = 0; way < 2; way++) {
        grail_plan_options o = plan_for(&run, "search", way == 0 ? 0.8 : 0.5);
        o.compress.read.samples = 4;
        o.tries = way == 0 ? 2 : 12; /* sublayers are dropped behind the first widths */
        o.drop_sublayers = way;
        OWNED(grail_plan) *alone = made(&o);
        if (way == 0) {
            assert_ok(grail_session_open(lab_golden("llama3"), NULL, &o.compress.read.session));
        }
        assert_survives(&o, grail_plan_text(alone));
        if (way == 0) {
            assert_int_equal(o.compress.read.session->kept.count, 1 + o.tries);
        }
        grail_session_close(o.compress.read.session);
    }
}
