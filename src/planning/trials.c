#include "planning/trials.h"

#include "base/clock.h"
#include "comm/comm.h"

grail_status trials_tell(const grail_plan_options *options, double began,
                         const grail_plan_trial *trial, bool *stopped)
{
    unsigned char ends = 0;
    if (options->observer != NULL && options->observer(options->observer_user, trial) != 0) {
        ends = 1;
    }
    if (options->seconds > 0.0 && clock_seconds() - began >= options->seconds) {
        ends = 1;
    }
    CHECK(comm_broadcast(options->compress.run.comm, 0, &ends, sizeof ends));
    *stopped = *stopped || ends != 0;
    return GRAIL_OK;
}
