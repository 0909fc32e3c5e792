#include "planning/phases.h"

#include "base/clock.h"
#include "base/option_values.h"
#include "pipeline/forecast.h"
#include "planning/division.h"
#include "planning/plan_forecast.h"
#include "planning/rates.h"
#include "planning/slot_weights.h"

#include <math.h>
#include <string.h>

enum { LEAST_SAMPLES = 16 };

/* -- what things take -------------------------------------------------------------------------- */

/* For a limit: *chosen <- uniform widths that meet it, which `o` takes, too. */
static grail_status take_uniform_widths(const choosing *c, grail_plan **chosen,
                                        grail_compress_options *o)
{
    if (c->subject == GRAIL_SCHEDULE_RUN) {
        return GRAIL_OK;
    }
    grail_plan_options stand_in = *c->options;
    stand_in.compress.output = (grail_output_options){.dry_run = 1};
    CHECK(grail_plan_make(&stand_in, chosen));
    o->amount.plan_text = grail_plan_text(*chosen);
    return GRAIL_OK;
}

/* The run as it would be now: its own widths, or uniform ones for the limit. */
static grail_status open_dry(const choosing *c, grail_plan **chosen, grail_compression **out)
{
    grail_compress_options o = *c->run;
    o.output = (grail_output_options){.dry_run = 1};
    CHECK(take_uniform_widths(c, chosen, &o));
    return grail_compression_open(&o, out);
}

/* What a recipe takes. */
typedef struct recipe_cost {
    run_work work;
    sample_cost closed; /* zeros where it reads no data */
    double healing, choosing;
    width_trials trials;
} recipe_cost;

static grail_status cost_of_recipe(choosing *c, const grail_rates *rates, recipe_cost *out)
{
    grail_status status = GRAIL_OK;
    grail_plan *chosen = NULL;
    grail_compression *run = NULL;
    run_work *work = &out->work;
    *out = (recipe_cost){0};
    TRY(open_dry(c, &chosen, &run));
    TRY(run_work_count(run, c->run, run->request->graph->block_count, work));
    if (work->uses_data) {
        out->closed = run_work_cost(work->closed, work->samples, rates);
    }
    if (chosen != NULL) {
        out->trials = plan_trials(chosen);
        out->choosing = plan_forecast(chosen, work, rates);
    }
    out->healing = rates->healing * run_work_seconds(work->healing, rates);
out:
    grail_compression_close(run);
    grail_plan_free(chosen);
    return status;
}

/* The rates of the run as it is wanted, on its own widths or on uniform ones. */
static grail_status measure_rates(choosing *c, grail_rates *out)
{
    grail_status status = GRAIL_OK;
    grail_plan *chosen = NULL;
    grail_compress_options o = *c->run;
    o.output.path = NULL;
    TRY(take_uniform_widths(c, &chosen, &o));
    TRY(grail_rates_measure(&o, out));
out:
    grail_plan_free(chosen);
    return status;
}

/* -- the time, and its parts ------------------------------------------------------------------- */

static const double slower = 1.25; /* what trials may take, of their forecast */

/* 3 % of the time are kept, and what writing the result takes at the rate of a slow disk. */
static double usable_time(const choosing *c, double time)
{
    static const double share = 0.97;
    static const double bytes_per_second = 2e8;
    grail_model_facts facts = {0};
    const grail_status status =
        grail_model_describe(grail_session_model(c->run->read.session), &facts);
    const double writes = c->run->output.path != NULL && status == GRAIL_OK ? 2.0 : 0.0;
    return share * time - writes * (double)facts.bytes / bytes_per_second;
}

static grail_status too_short(const grail_schedule *s, double least)
{
    return option_about("time_limit",
                        error_set(GRAIL_ERROR_ARGUMENT,
                                  "a time of %g s does not suffice: at the speed that was "
                                  "measured here the least is about %.0f s; give more, or a "
                                  "smaller number of samples",
                                  s->facts.time, ceil(least)));
}

static void add_phase(grail_schedule *s, grail_schedule_phase phase)
{
    s->phases[s->phase_count++] = phase;
    s->facts.expected += phase.seconds;
}

/* A machine that becomes faster, or parts that took less than their forecast, leave room for more
 * steps: their rates go by the time. */
static const double more_steps = 1.6;

static void add_healing(choosing *c, double seconds, double tokens, double would_take)
{
    const grail_heal_options *h = &c->run->heal;
    if (seconds > 0.0) {
        choosing_set_tokens(c, more_steps * tokens);
    }
    if (seconds > 0.0 && c->length == 1 && !choosing_is_given(c, "heal.time")) {
        c->run->heal.time = seconds; /* blocks take their share of it on the way */
    }
    const int64_t seen = seconds > 0.0 ? h->steps * h->batch : 0;
    add_phase(c->schedule, (grail_schedule_phase){.name = "healing",
                                                  .seconds = seconds,
                                                  .would_take = would_take,
                                                  .samples = seen,
                                                  .tokens = c->length == 1 ? 0 : seen * c->length,
                                                  .steps = seconds > 0.0 ? h->steps : 0,
                                                  .step_samples = seconds > 0.0 ? h->batch : 0});
}

/* -- samples that the network draws, which comes first ----------------------------------------- */

/* Shares of the time for drawing what the closed form reads, and of healing's for what that reads
 * besides: more windows gain less than what their time is taken from. */
static const double share_of_drawing = 0.25;
static const double share_of_healed = 0.125;

/* Windows that the network draws where a run reads so many. */
static int64_t drawn_of(const run_work *w, int64_t samples)
{
    return w->samples > 0 ? (w->drawn * samples + w->samples - 1) / w->samples : 0;
}

static double seconds_of_drawing(const run_work *w, int64_t samples, const grail_rates *rates)
{
    return run_work_drawing(w, drawn_of(w, samples), rates);
}

/* The most samples up to `most` whose drawing takes at most so long; not fewer than `least`. */
static int64_t samples_drawn_in(const run_work *w, double seconds, int64_t least, int64_t most,
                                const grail_rates *rates)
{
    int64_t low = least;
    int64_t high = most;
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        const bool fits = seconds_of_drawing(w, middle, rates) <= seconds;
        low = fits ? middle : low;
        high = fits ? high : middle - 1;
    }
    return low;
}

/* Windows that healing reads, at least the `samples` of the closed form. */
static grail_status healed_samples(const choosing *c, int64_t samples, int64_t *out)
{
    named_samples own = {0};
    if (choosing_heals(c) && c->run->heal.own_samples > samples) {
        CHECK(samples_at_most(c->run, c->run->heal.own_samples, &own));
    }
    *out = own.count > samples ? own.count : samples;
    return GRAIL_OK;
}

/* Healing reads more windows than the closed form as far as they are drawn soon; what that takes is
 * taken from it. */
static grail_status draw_healed(choosing *c, const run_work *w, int64_t samples,
                                const grail_rates *rates, division *d)
{
    enum { MOST = 1 << 20 };
    int64_t read = 0;
    if (w->drawn == 0 || !(d->healing > 0.0)) {
        return GRAIL_OK;
    }
    const double before = seconds_of_drawing(w, samples, rates);
    c->most_healed =
        samples_drawn_in(w, before + share_of_healed * d->healing, samples, MOST, rates);
    choosing_set_tokens(c, more_steps * d->tokens);
    CHECK(healed_samples(c, samples, &read));
    const double takes = seconds_of_drawing(w, read, rates) - before;
    d->tokens *= 1.0 - takes / d->healing;
    d->healing -= takes;
    return GRAIL_OK;
}

static grail_status add_drawing(choosing *c, const run_work *w, int64_t samples,
                                const grail_rates *rates)
{
    int64_t read = 0;
    if (w->drawn == 0) {
        return GRAIL_OK;
    }
    CHECK(healed_samples(c, samples, &read));
    add_phase(c->schedule, (grail_schedule_phase){.name = "drawing text",
                                                  .seconds = seconds_of_drawing(w, read, rates),
                                                  .samples = drawn_of(w, read)});
    return GRAIL_OK;
}

/* -- dividing ---------------------------------------------------------------------------------- */

/* Healing alone, which has all of the time. */
static grail_status divide_healing(choosing *c, const grail_rates *rates, double time)
{
    enum { LEAST_STEPS = 2 };
    recipe_cost cost;
    const double tokens = 1e5;
    choosing_set_tokens(c, tokens);
    CHECK(cost_of_recipe(c, rates, &cost));
    const run_work *w = &cost.work;
    const grail_heal_options *h = &c->run->heal;
    const double token = cost.healing / (double)(h->steps * h->batch * c->length);
    const double least = LEAST_STEPS * token * (double)(h->batch * c->length);
    const double left = time - seconds_of_drawing(w, w->samples, rates);
    if (!(left >= least)) {
        return too_short(c->schedule, c->schedule->facts.measured + time - left + least);
    }
    division d = {.healing = left, .tokens = left / token};
    CHECK(draw_healed(c, w, w->samples, rates, &d));
    CHECK(add_drawing(c, w, w->samples, rates));
    add_healing(c, d.healing, d.tokens, 0.0);
    return GRAIL_OK;
}

/* Searches begin no trial when their time is over; what comes before the first cannot be stopped.
 */
static grail_status divide_plan(choosing *c, const grail_rates *rates, double time)
{
    recipe_cost cost;
    CHECK(cost_of_recipe(c, rates, &cost));
    const run_work *w = &cost.work;
    const double once = cost.closed.fixed + cost.closed.each * (double)w->samples;
    const double left = time - seconds_of_drawing(w, w->samples, rates);
    if (!(left >= once)) {
        return too_short(c->schedule, c->schedule->facts.measured + time - left + once);
    }
    c->options->seconds = left;
    CHECK(add_drawing(c, w, w->samples, rates));
    add_phase(c->schedule, (grail_schedule_phase){.name = "measured widths",
                                                  .seconds = fmin(cost.choosing, left),
                                                  .samples = w->samples});
    return GRAIL_OK;
}

static bool measures_alone(const choosing *c)
{
    return strcmp(c->options->budget, "divergence") == 0;
}

/* Tokens of a trial beyond which healing gains more in the time that longer trials take. */
enum { ENOUGH_TOKENS = 8192 };

/* Tokens of the trials that widths may be measured by, the most first: such as make at least four
 * windows, one of which judges. 0: the usual number. */
static int trial_sizes(const choosing *c, int64_t *tokens)
{
    static const int64_t fewer[TRIAL_SIZES] = {0, 16384, ENOUGH_TOKENS, 4096, 2048};
    int count = 0;
    if (c->subject != GRAIL_SCHEDULE_LIMITED || strcmp(c->options->budget, "uniform") == 0) {
        return 0;
    }
    tokens[count++] = c->options->trial_tokens;
    for (int i = 1; i < TRIAL_SIZES && measures_alone(c) && c->length > 1 &&
                    !choosing_is_given(c, "trial_tokens");
         i++) {
        if (fewer[i] >= JUDGING_ONE_IN * c->length) {
            tokens[count++] = fewer[i];
        }
    }
    return count;
}

static void cost_widths(const choosing *c, const grail_rates *rates, const recipe_cost *cost,
                        const int64_t *tokens, division_costs *out)
{
    const int64_t all = cost->work.samples;
    for (int i = 0; i < out->width_count && measures_alone(c); i++) {
        width_trials t = cost->trials;
        t.samples = slot_weights_samples(c->graph, tokens[i], c->length, all);
        const double most = run_work_of_trials(&cost->work, t, rates);
        out->widths[i].most = t.samples;
        out->widths[i].is_long = !choosing_is_given(c, "trial_tokens") && c->length > 1 &&
                                 t.samples * c->length > ENOUGH_TOKENS;
        t.samples = 0;
        out->widths[i].seconds.fixed = run_work_of_trials(&cost->work, t, rates);
        out->widths[i].seconds.each =
            (most - out->widths[i].seconds.fixed) / (double)out->widths[i].most;
    }
    if (out->width_count > 0 && !measures_alone(c)) {
        out->widths[0] =
            (width_cost){.seconds = {.each = cost->choosing / (double)all}, .most = all};
    }
}

/* What would be left out is named with what it would take. */
static void add_widths(choosing *c, const division *d, const division_costs *costs,
                       const int64_t *tokens, int trials)
{
    const bool measures = d->widths > 0.0;
    const int64_t most = costs->width_count > 0 ? costs->widths[d->way].most : 0;
    const int64_t samples = d->samples < most ? d->samples : most;
    choosing_set_budget(c, measures ? c->options->budget : "uniform");
    if (measures && !choosing_is_given(c, "trial_tokens")) {
        c->options->trial_tokens = tokens[d->way];
    }
    c->options->seconds = slower * d->widths;
    add_phase(c->schedule,
              (grail_schedule_phase){.name = "measured widths",
                                     .seconds = d->widths,
                                     .would_take = measures ? 0.0 : d->shortest_widths,
                                     .samples = measures ? samples : 0,
                                     .tokens = measures && c->length > 1 ? samples * c->length : 0,
                                     .trials = measures ? trials : 0});
}

static grail_status take_division(choosing *c, const run_work *work, const grail_rates *rates,
                                  const division_costs *costs, const int64_t *tokens, int trials,
                                  division *d)
{
    grail_schedule *s = c->schedule;
    choosing_set_recipe(c, d->is_quick || s->effort == EFFORT_QUICK);
    if (!choosing_is_given(c, "read.samples") && d->samples < work->samples) {
        c->run->read.samples = d->samples;
    }
    if (d->healing <= 0.0 && !choosing_is_given(c, "heal.what")) {
        c->run->heal.what = "none";
    }
    CHECK(draw_healed(c, work, d->samples, rates, d));
    CHECK(add_drawing(c, work, d->samples, rates));
    if (c->subject == GRAIL_SCHEDULE_LIMITED) {
        add_widths(c, d, costs, tokens, trials);
    }
    add_phase(s, (grail_schedule_phase){
                     .name = "statistics and fits", .seconds = d->closed, .samples = d->samples});
    const double least = costs->heals ? costs->least_tokens * costs->token : 0.0;
    add_healing(c, d->healing, d->tokens, d->healing > 0.0 ? 0.0 : least);
    return GRAIL_OK;
}

static grail_status divide_run(choosing *c, const grail_rates *rates, double time)
{
    static const double least_tokens = 16384.0;
    static const double least_images = 1024.0;
    grail_schedule *s = c->schedule;
    recipe_cost cost;
    recipe_cost quick;
    int64_t tokens[TRIAL_SIZES] = {0};
    division d = {0};
    double least = 0.0;
    CHECK(cost_of_recipe(c, rates, &cost));
    const grail_heal_options *h = &c->run->heal;
    const double steps = h->steps > 0 ? (double)h->steps : 160.0;
    const double batch = h->batch > 0 ? (double)h->batch : 64.0;
    const int64_t all = cost.work.samples;
    const bool is_given = choosing_is_given(c, "read.samples");
    const int64_t fewest = is_given || all < LEAST_SAMPLES ? all : LEAST_SAMPLES;
    const int64_t most = samples_drawn_in(&cost.work, share_of_drawing * time, fewest, all, rates);
    division_costs costs = {.time = time - seconds_of_drawing(&cost.work, most, rates),
                            .closed = cost.closed,
                            .width_count = trial_sizes(c, tokens),
                            .heals = choosing_heals(c),
                            .may_be_quick = choosing_leaves_recipe(c) && s->effort != EFFORT_QUICK,
                            .token = cost.healing / (steps * batch * (double)c->length),
                            .least_tokens = c->length == 1 ? least_images : least_tokens,
                            .least = fewest,
                            .most = most};
    cost_widths(c, rates, &cost, tokens, &costs);
    if (costs.may_be_quick) {
        choosing_set_recipe(c, true);
        CHECK(cost_of_recipe(c, rates, &quick));
        choosing_set_recipe(c, false);
        costs.quick = quick.closed;
    }
    if (division_make(&costs, &d, &least) != GRAIL_OK) {
        return too_short(s,
                         s->facts.measured + least + seconds_of_drawing(&cost.work, fewest, rates));
    }
    const int trials = cost.trials.alone + cost.trials.together;
    return take_division(c, &cost.work, rates, &costs, tokens, trials, &d);
}

grail_status phases_divide(choosing *c)
{
    grail_schedule *s = c->schedule;
    grail_rates rates = {0};
    const double began = clock_seconds();
    CHECK(measure_rates(c, &rates));
    s->facts.measured = clock_seconds() - began;
    s->facts.expected = clock_seconds() - s->began;
    const double time = usable_time(c, s->facts.time) - s->facts.expected;
    return c->subject == GRAIL_SCHEDULE_PLAN ? divide_plan(c, &rates, time)
           : c->run->heal.teacher != NULL    ? divide_healing(c, &rates, time)
                                             : divide_run(c, &rates, time);
}
