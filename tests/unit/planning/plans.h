/* Plans that the tests of planning make. */
#ifndef GRAIL_TESTS_UNIT_PLANNING_PLANS_H
#define GRAIL_TESTS_UNIT_PLANNING_PLANS_H

#include <grail/plan.h>

/** For a run by obs, with 8 trials. */
grail_plan_options plan_for(const grail_compress_options *run, const char *budget, double ratio);

/** The plan, owned: grail_plan_free. The test fails when it cannot be made. */
grail_plan *made(const grail_plan_options *options);

#endif
