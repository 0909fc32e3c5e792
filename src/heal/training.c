#include "heal/training.h"

#include "base/clock.h"
#include "heal/schedule.h"

#include <math.h>

enum {
    JUDGEMENTS = 16, /* over all steps */
    PATIENCE = 8 /* judgements without a better one that end a training: the loss often rises while
                    the rate is high, and falls below what it was when the rate falls */
};

static int64_t steps_between(const training_options *options)
{
    const int64_t between = options->steps / JUDGEMENTS;
    return between < 1 ? 1 : between;
}

/* Share of the training that is done: of the steps or of the time, whichever is more. */
static double progress_of(const training_options *options, const training_state *state)
{
    return fmax((double)state->steps / (double)options->steps, state->seconds / options->seconds);
}

static grail_status judge(const training_task *task, optimizer *o, training_state *state)
{
    grail_status status = GRAIL_OK;
    double loss = (double)NAN;
    const bool is_first = state->steps == 0;
    TRY(optimizer_begin_judgement(o));
    const grail_status judged = task->judge(task->user, &loss);
    const bool is_best = is_first || loss < state->held_best; /* NaN is not */
    TRY(optimizer_end_judgement(o, is_best));
    TRY(judged);
    if (is_first) {
        if (!isfinite(loss)) {
            FAIL(GRAIL_ERROR_NUMERIC, "the loss before healing is %g", loss);
        }
        state->held_before = loss;
    }
    state->judgements_lost = is_best ? 0 : state->judgements_lost + 1;
    state->held_best = is_best ? loss : state->held_best;
    state->best_step = is_best ? state->steps : state->best_step;
out:
    return status;
}

static grail_status take_step(const training_options *options, const training_task *task,
                              optimizer *o, int64_t *samples, const training_state *state)
{
    grail_status status = GRAIL_OK;
    TRY(samples_of_step(options->seed, state->steps, options->sample_count, options->samples,
                        options->batch, samples));
    TRY(task->add_gradients(task->user, state->steps, samples, options->batch));
    /* the middle of the step, so that the first one is not for nothing */
    const double half = 0.5 / (double)options->steps;
    TRY(optimizer_step(o, options->rate * rate_share(progress_of(options, state) + half)));
out:
    return status;
}

static bool is_over(const training_options *options, const training_state *state)
{
    return state->steps >= options->steps || state->seconds >= options->seconds ||
           state->judgements_lost >= PATIENCE;
}

/* Takes a step, and judges it where that is due; *told tells whether it was. */
static grail_status go_on(const training_options *options, const training_task *task, optimizer *o,
                          int64_t *samples, double begun, training_state *state, bool *told)
{
    grail_status status = GRAIL_OK;
    TRY(take_step(options, task, o, samples, state));
    state->steps++;
    state->seconds = clock_seconds() - begun;
    const bool ends = state->steps >= options->steps || state->seconds >= options->seconds;
    *told = ends || state->steps % steps_between(options) == 0;
    if (*told) {
        TRY(judge(task, o, state));
    }
out:
    return status;
}

/* Steps may lead to where the network cannot be computed any more, and further ones do not lead
 * back: that ends the training as judgements do that are never better. */
static grail_status end_if_diverged(grail_status status, training_state *state, bool *told)
{
    if (status != GRAIL_ERROR_NUMERIC) {
        return status;
    }
    state->judgements_lost = PATIENCE;
    *told = true;
    return GRAIL_OK;
}

grail_status training_run(const training_options *options, const training_task *task, optimizer *o,
                          training_state *state)
{
    grail_status status = GRAIL_OK;
    int64_t *samples = NULL;
    const double begun = clock_seconds() - state->seconds;
    TRY(memory_new(&samples, (size_t)options->batch, sizeof samples[0]));
    if (state->steps == 0) {
        TRY(judge(task, o, state));
        TRY(task->tell(task->user, state));
    }
    while (!is_over(options, state)) {
        bool told = false;
        status = go_on(options, task, o, samples, begun, state, &told);
        TRY(end_if_diverged(status, state, &told));
        if (told) {
            state->seconds = clock_seconds() - begun;
            TRY(task->tell(task->user, state));
        }
    }
    TRY(optimizer_finish(o));
out:
    memory_free(samples);
    return status;
}
