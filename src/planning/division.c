#include "planning/division.h"

#include <math.h>

/* Shares of the time, for the closed form that healing follows, and for one that nothing follows:
 * it cannot be stopped, so it keeps a sixth for what its forecast misses. */
static const double share_before_healing = 0.25;
static const double share_before_widths = 0.5;
static const double share_at_end = 5.0 / 6.0;
/* A part of the samples that gains nearly all that all of them do (docs/results/llm.md: 64 of 192
 * windows lose 1.5 % of perplexity), for which healing waits longer. */
enum { PART_ENOUGH = 3 };
static const double share_for_enough = 0.5;
/* A share of what the closed form leaves, for widths that healing follows: they gain more for their
 * time than it does. */
static const double share_of_widths = 0.75;
static const double share_of_long_trials = 0.25;

static double cost_of(sample_cost c, int64_t samples)
{
    return c.fixed + c.each * (double)samples;
}

static int64_t samples_for(sample_cost c, const division_costs *costs, double seconds)
{
    const double fit = floor((seconds - c.fixed) / c.each);
    return fit < (double)costs->least  ? costs->least
           : fit < (double)costs->most ? (int64_t)fit
                                       : costs->most;
}

static int64_t samples_before_healing(sample_cost c, const division_costs *costs)
{
    const int64_t soon = samples_for(c, costs, share_before_healing * costs->time);
    const int64_t later = samples_for(c, costs, share_for_enough * costs->time);
    const int64_t enough = later < costs->most / PART_ENOUGH ? later : costs->most / PART_ENOUGH;
    return soon > enough ? soon : enough;
}

static grail_status choose_samples(const division_costs *costs, division *out, double *least_time)
{
    const double most = share_at_end * costs->time;
    const double full = cost_of(costs->closed, costs->least);
    const double quick = costs->may_be_quick ? cost_of(costs->quick, costs->least) : full;
    *least_time = fmin(full, quick) / share_at_end;
    if (!(fmin(full, quick) <= most)) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the time does not suffice for the closed form");
    }
    out->is_quick = full > most;
    const sample_cost chosen = out->is_quick ? costs->quick : costs->closed;
    const double share =
        costs->width_count > 0 && !out->is_quick ? share_before_widths : share_at_end;
    out->samples = costs->heals ? samples_before_healing(chosen, costs)
                                : samples_for(chosen, costs, share * costs->time);
    out->closed = cost_of(chosen, out->samples);
    return GRAIL_OK;
}

/* The longest trials that may be taken; long ones, `most_of_long` seconds at most. */
static void choose_trials(const division_costs *costs, double may_take, double most_of_long,
                          division *out)
{
    for (int i = 0; i < costs->width_count && out->widths == 0.0; i++) {
        const width_cost *w = &costs->widths[i];
        const double takes = cost_of(w->seconds, out->samples < w->most ? out->samples : w->most);
        out->way = i;
        out->shortest_widths = takes;
        const double limit = w->is_long ? fmin(may_take, most_of_long) : may_take;
        out->widths = takes <= limit ? takes : 0.0;
    }
}

/* Such as leave the least of healing, where any do. */
static void choose_widths(const division_costs *costs, double left, double least, division *out)
{
    const double end = share_at_end * costs->time - out->closed;
    const double may_take = costs->heals ? share_of_widths * left : end;
    const double most_of_long = costs->heals ? share_of_long_trials * left : end;
    if (!out->is_quick) {
        choose_trials(costs, fmin(may_take, left - least), most_of_long, out);
    }
    if (out->widths == 0.0) {
        choose_trials(costs, out->is_quick ? 0.0 : may_take, most_of_long, out);
    }
}

grail_status division_make(const division_costs *costs, division *out, double *least_time)
{
    *out = (division){0};
    CHECK(choose_samples(costs, out, least_time));
    const double left = costs->time - out->closed;
    const double least = costs->heals ? costs->least_tokens * costs->token : 0.0;
    choose_widths(costs, left, least, out);
    if (!costs->heals && costs->width_count > 0 && out->widths == 0.0) {
        const double would_take = out->shortest_widths;
        division_costs without = *costs;
        without.width_count = 0;
        CHECK(division_make(&without, out, least_time));
        out->shortest_widths = would_take;
        return GRAIL_OK;
    }
    const double rest = left - out->widths;
    if (costs->heals && !(rest >= least)) {
        division_costs without = *costs;
        without.heals = false;
        return division_make(&without, out, least_time);
    }
    out->healing = costs->heals ? rest : 0.0;
    out->tokens = costs->heals ? rest / costs->token : 0.0;
    return GRAIL_OK;
}
