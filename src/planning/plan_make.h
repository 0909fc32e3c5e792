/* What choosing the widths takes that those of a plan stand for. */
#ifndef GRAIL_PLANNING_PLAN_MAKE_H
#define GRAIL_PLANNING_PLAN_MAKE_H

#include "pipeline/forecast.h"

#include <grail/plan.h>

/** The trials of the budget `divergence`, of as many samples as they take at most. */
width_trials plan_trials(const grail_plan *plan);

/** grail_plan_forecast for work that was counted. */
double plan_forecast(const grail_plan *plan, const run_work *work, const grail_rates *rates);

#endif
