/* Plans that the tests of planning make. */
#ifndef GRAIL_TESTS_UNIT_PLANNING_PLANS_H
#define GRAIL_TESTS_UNIT_PLANNING_PLANS_H

#include "pipeline/network/network.h"
#include "planning/widths.h"

#include <grail/plan.h>

/** For a run by obs, with 8 trials. */
grail_plan_options plan_for(const grail_compress_options *run, const char *budget, double ratio);

/** The plan, owned: grail_plan_free. The test fails when it cannot be made. */
grail_plan *made(const grail_plan_options *options);

/* The space of a network's widths below a share of its parameters. */
typedef struct spaced {
    compression_request *request;
    calibration_network *network;
    loss_curves curves;
    cost_table costs;
    width_space space;
} spaced;

/** At 0.8 of the parameters; spaced_close frees. */
void spaced_open(const grail_compress_options *run, width_sharing sharing, spaced *s);
void spaced_close(spaced *s);

#endif
