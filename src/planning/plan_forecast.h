/* What choosing the widths takes that those of a plan stand for. */
#ifndef GRAIL_PLANNING_PLAN_FORECAST_H
#define GRAIL_PLANNING_PLAN_FORECAST_H

#include "base/buffer.h"
#include "pipeline/forecast.h"

#include <grail/plan.h>

/** What grail_plan_make has made. */
struct grail_plan {
    buffer text;   /* the document */
    char *formula; /* owned */
    char *reason;  /* owned */
    grail_plan_facts facts;
    double most_seconds; /* of a search; 0: no limit */
    width_trials trials; /* of measured widths; at most so many samples */
    bool searches;
};

/** The trials of the budget `divergence`, of as many samples as they take at most. */
width_trials plan_trials(const grail_plan *plan);

/** grail_plan_forecast for work that was counted. */
double plan_forecast(const grail_plan *plan, const run_work *work, const grail_rates *rates);

#endif
