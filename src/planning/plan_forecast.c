#include "planning/plan_forecast.h"

#include "planning/search.h"
#include "planning/slot_weights.h"

#include <math.h>

/* A search runs compressions as its trials, and two that judge; `measured` are its trials of sites
 * alone. */
static double search_forecast(const grail_plan *p, const run_work *work, double measured,
                              const grail_rates *rates)
{
    const double part = fmin(1.0, (double)p->trials.samples / (double)work->samples);
    const double alone = slot_weights_compressions(p->trials.alone, part);
    const bool weighs = width_search_weighs(p->facts.trials, alone);
    const double once = run_work_seconds(work->closed, rates);
    return (p->facts.trials + 2.0) * once + (weighs ? measured : 0.0);
}

width_trials plan_trials(const grail_plan *p)
{
    return p->trials;
}

double plan_forecast(const grail_plan *p, const run_work *work, const grail_rates *rates)
{
    const double curves = run_work_seconds(work->curves, rates);
    if (p->facts.stands_in == 0 || !work->uses_data) {
        return p->facts.stands_in == 0 ? 0.0 : (double)NAN;
    }
    if (p->facts.trials == 0) {
        return curves;
    }
    const double measured = run_work_of_trials(work, p->trials, rates);
    const double all = p->searches ? curves + search_forecast(p, work, measured, rates) : measured;
    return p->most_seconds > 0.0 ? fmin(all, curves + p->most_seconds) : all;
}

grail_status grail_plan_forecast(const grail_plan *p, const grail_compression *compression,
                                 const grail_compress_options *options, const grail_rates *rates,
                                 double *seconds)
{
    run_work work = {0};
    CHECK(run_work_count(compression, options, compression->request->graph->block_count, &work));
    *seconds = plan_forecast(p, &work, rates);
    return GRAIL_OK;
}
