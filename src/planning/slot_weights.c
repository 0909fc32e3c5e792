#include "planning/slot_weights.h"

#include "base/clock.h"
#include "pipeline/request/request.h"
#include "pipeline/request/usual_samples.h"
#include "planning/trials.h"

#include <math.h>
#include <string.h>

/* Part of the usual number of windows that a trial takes, and how many tokens at least: with fewer
 * the fits tell less of what a run's will repair (docs/results/llm.md). */
enum { TRIAL_PART = 16, TRIAL_TOKENS = 32768 };

int64_t slot_weights_samples(const graph *g, int64_t tokens, int64_t length, int64_t count)
{
    const int64_t part = tokens > 0 ? 0 : usual_samples(g, length) / TRIAL_PART;
    const int64_t wanted = tokens > 0 ? tokens : TRIAL_TOKENS;
    const int64_t least = length > 0 ? (wanted - 1) / length + 1 : part;
    const int64_t fewer = part > least ? part : least;
    return g->input_kind == INPUT_IMAGES || count < fewer ? count : fewer;
}

double slot_weights_compressions(int slots, double part)
{
    static const double behind = 0.5;
    return slots * part * behind / JUDGING_ONE_IN;
}

/* The measurement of all slots. */
typedef struct measurement {
    const width_space *space;
    const grail_plan_options *options;
    grail_compress_options trial; /* of one trial */
    int64_t *uniform;             /* [sites] */
    int64_t *kept;                /* [sites] of one trial */
    int64_t *units;               /* [sites] of the dense network */
    trial_start start;            /* of trials in the order of the blocks */
    int most;
    double began; /* of the search */
    double first; /* when the first trial began */
    slot_trials made;
} measurement;

grail_compress_options slot_trial_options(const graph *g, const calibration *samples,
                                          const grail_plan_options *options)
{
    grail_compress_options trial = options->compress;
    trial.read.samples = slot_weights_samples(g, options->trial_tokens,
                                              windows_mean_size(&samples->windows), samples->count);
    if (trial.read.drawn_first == 0) {
        trial.read.drawn_first = samples->drawn;
    }
    trial.fit.refit = "none";
    trial.cut.metric = "plain"; /* ranks slots alike, and needs no gradients */
    return trial;
}

static grail_status measurement_init(const width_space *space, const calibration *samples,
                                     const grail_plan_options *options, double began,
                                     measurement *m)
{
    const size_t sites = (size_t)space->sites->count;
    *m =
        (measurement){.space = space, .options = options, .began = began, .first = clock_seconds()};
    m->trial = slot_trial_options(space->graph, samples, options);
    CHECK(memory_new(&m->uniform, sites, sizeof m->uniform[0]));
    CHECK(memory_new(&m->kept, sites, sizeof m->kept[0]));
    CHECK(memory_new(&m->units, sites, sizeof m->units[0]));
    width_space_widen(space, m->units);
    m->start = (trial_start){.options = &m->trial, .units = m->units};
    const formula_choice uniform = {.formula = FORMULA_UNIFORM, .head_factor = 1.0};
    return widths_by_formula(space, uniform, m->uniform);
}

static void measurement_fini(measurement *m)
{
    memory_free(m->uniform);
    memory_free(m->kept);
    memory_free(m->units);
    trial_start_fini(&m->start);
}

/* The width that a slot has in its trial; all units where it cannot be narrower. */
static int64_t trial_width(const measurement *m, int slot)
{
    const allocation_site *a = &m->space->slots[slot];
    const int64_t uniform = width_space_slot(m->space, slot, m->uniform);
    const int64_t below = (a->units - 1) / a->step * a->step;
    const int64_t most = below > a->least ? below : a->least;
    return uniform < most ? uniform : most;
}

/* What a slot's cut alone does to the outputs. */
static grail_status judge_slot(measurement *m, int slot, int64_t width, double *out)
{
    grail_status status = GRAIL_OK;
    divergence d = {0};
    memcpy(m->kept, m->units, (size_t)m->space->sites->count * sizeof m->kept[0]);
    width_space_set_slot(m->space, slot, width, m->kept);
    TRY(judge_widths(&m->trial, m->kept, JUDGES_CHOICES, &m->start, &d));
    *out = divergence_mean(&d);
    if (!isfinite(*out)) {
        FAIL(GRAIL_ERROR_NUMERIC,
             "with this site alone narrow the outputs differ from the dense network's by %g: one "
             "of them is not finite; give other samples, or uniform widths",
             *out);
    }
out:
    divergence_fini(&d);
    return status;
}

/* Rounding alone can give a divergence of 0 or below, of which nothing follows. */
static grail_status measure_slot(measurement *m, int slot, int64_t width, double *weight)
{
    const width_space *space = m->space;
    const double error = space->slots[slot].errors[width];
    double measured = 0.0;
    CHECK(judge_slot(m, slot, width, &measured));
    *weight = measured > 0.0 && error > 0.0 ? measured / error : 0.0;
    m->made.count++;
    const double elapsed = clock_seconds() - m->first;
    const grail_plan_trial trial = {
        .name = space->slots[slot].name,
        .is_alone = 1,
        .cost = cost_table_read(space->costs, m->kept),
        .divergence = measured,
        .tried = m->made.count,
        .most = m->most,
        .seconds_left = elapsed / m->made.count * (m->most - m->made.count),
    };
    return trials_tell(m->options, m->began, &trial, &m->made.stopped);
}

static grail_status measure_slots(measurement *m, double *weights)
{
    double sum = 0.0;
    for (int i = 0; i < m->space->slot_count; i++) {
        m->most += trial_width(m, i) < m->space->slots[i].units ? 1 : 0;
    }
    for (int i = 0; i < m->space->slot_count; i++) {
        const int64_t width = trial_width(m, i);
        weights[i] = (double)NAN;
        if (width < m->space->slots[i].units && !m->made.stopped) {
            CHECK(error_in(measure_slot(m, i, width, &weights[i]), "the trial of '%s'",
                           m->space->slots[i].name));
            sum += weights[i];
        }
    }
    for (int i = 0; i < m->space->slot_count; i++) {
        weights[i] = !isnan(weights[i])  ? weights[i]
                     : m->made.count > 0 ? sum / m->made.count
                                         : 1.0;
    }
    return GRAIL_OK;
}

grail_status slot_weights_measure(const width_space *space, const calibration *samples,
                                  const grail_plan_options *options, double began, double *weights,
                                  slot_trials *trials)
{
    measurement m = {0};
    grail_status status = measurement_init(space, samples, options, began, &m);
    if (status == GRAIL_OK) {
        status = measure_slots(&m, weights);
    }
    *trials = m.made;
    measurement_fini(&m);
    return status;
}
