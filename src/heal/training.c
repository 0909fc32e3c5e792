#include "heal/training.h"

#include "backend/operations.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>

enum { FEWEST = 4, JUDGEMENTS = 16 }; /* over all steps, where there are as many */

/* The share of the rate with which a training begins again. The rate that suits falls with the
 * width of the matrices: at 64 wide it is the usual one, at 576 about a tenth of it. */
static const double lowered_share = 0.125;

double rate_share(double progress)
{
    const double warm_up = 0.1;
    if (progress >= 1.0) {
        return 0.0;
    }
    return progress < warm_up ? progress / warm_up
                              : 0.5 * (1.0 + cos(M_PI * (progress - warm_up) / (1.0 - warm_up)));
}

grail_status samples_of_step(uint64_t seed, int64_t step, int64_t sample_count,
                             const int64_t *samples, int64_t count, int64_t *out)
{
    grail_status status = GRAIL_OK;
    int64_t *order = NULL;
    int64_t round = -1;
    TRY(memory_new_unset(&order, (size_t)sample_count, sizeof order[0]));
    for (int64_t i = 0; i < count; i++) {
        const int64_t place = step * count + i;
        if (place / sample_count != round) {
            random_state random;
            round = place / sample_count;
            random_seed(&random, seed, (uint64_t)round);
            random_permutation(&random, sample_count, order);
        }
        out[i] = samples[order[place % sample_count]];
    }
out:
    memory_free(order);
    return status;
}

/* A pass forward, another one where values were not kept, and two for the gradients. */
double training_step_expected(double judged, int64_t batch)
{
    return 4.0 * judged * (double)batch;
}

/* Steps between judgements, which take at most an eighth of the time of steps, or are four. */
static int64_t steps_between(const training_options *options)
{
    enum { SHARE = 8 };
    const int64_t often = options->chosen->steps / JUDGEMENTS;
    const int64_t rarely = options->chosen->steps / FEWEST;
    const int64_t step = (int64_t)training_step_expected(1.0, options->batch);
    const int64_t paid = (SHARE * options->judged + step - 1) / step;
    const int64_t between = paid < often ? often : paid < rarely ? paid : rarely;
    return between < 1 ? 1 : between;
}

/* Judgements without a better one that end a training, half of all: the loss often rises while the
 * rate is high, and falls below what it was when the rate falls. A few steps are all taken. */
static int64_t patience_of(const training_options *options)
{
    const int64_t judgements = options->chosen->steps / steps_between(options);
    const int64_t most = judgements < JUDGEMENTS ? judgements : JUDGEMENTS;
    return options->chosen->steps < JUDGEMENTS ? options->chosen->steps : most / 2;
}

/* Where time decides, it is rank 0's, so that all ranks take the same steps. */
static grail_status read_clock(const training_options *options, double *seconds)
{
    *seconds = clock_seconds();
    return isfinite(options->seconds) ? comm_broadcast(options->comm, 0, seconds, sizeof *seconds)
                                      : GRAIL_OK;
}

/* How fast a training goes on this machine. */
typedef struct pace {
    double begun;          /* when the first step could, less the seconds that are behind */
    double limit;          /* of training_state.seconds, with the last judgement */
    double judgement;      /* the longest one, and telling of it */
    double stepped;        /* seconds of all steps that were taken here */
    int64_t steps;         /* of these */
    double expected_first; /* what the first one is expected to take */
    double stepped_at;     /* when the last one had ended, or the training began */
} pace;

/* Share of the training that is done: of the steps or of the time, whichever is more. */
static double progress_of(const training_options *options, const pace *p,
                          const training_state *state)
{
    const double time = p->limit - p->judgement;
    return fmax((double)state->steps / (double)options->chosen->steps,
                time > 0.0 ? state->seconds / time : 0.0);
}

/* The rate of the next step: a schedule of its own where the training began again. */
static double rate_of(const training_options *options, const pace *p, const training_state *state)
{
    /* the middle of the step, so that the first one is not for nothing */
    const double middle = progress_of(options, p, state) + 0.5 / (double)options->chosen->steps;
    const double since = (middle - state->begun_progress) / (1.0 - state->begun_progress);
    const double largest = options->rate * (state->began_again ? lowered_share : 1.0);
    return largest * rate_share(since);
}

/* Whether another step would end within the time, and a judgement behind it. */
static bool another_fits(const pace *p, const training_state *state)
{
    const double step = p->steps > 0 ? p->stepped / (double)p->steps : p->expected_first;
    return state->seconds + step + p->judgement <= p->limit;
}

double judged_loss_mean(const judged_loss *l)
{
    double sum = 0.0;
    double rows = 0.0;
    for (int g = 0; g < TRAINING_GROUPS; g++) {
        sum += l->sum[g];
        rows += l->rows[g];
    }
    return rows > 0.0 || isnan(sum) ? sum / rows : 0.0;
}

/* Whether the gain over the start is more than its standard error, which the gains of the groups
 * tell as terms of a mean over their rows. Fewer than LEAST groups tell none. */
static bool is_beyond_chance(const judged_loss *start, const judged_loss *now)
{
    enum { LEAST = 4 };
    const double gain = judged_loss_mean(start) - judged_loss_mean(now);
    double rows = 0.0;
    double squares = 0.0;
    int groups = 0;
    for (int g = 0; g < TRAINING_GROUPS; g++) {
        const double off = start->sum[g] - now->sum[g] - gain * start->rows[g];
        squares += off * off;
        rows += start->rows[g];
        groups += start->rows[g] > 0.0;
    }
    const double error = sqrt(squares * (double)groups / (double)(groups - 1)) / rows;
    return groups < LEAST || gain > error;
}

static grail_status judge(const training_task *task, optimizer *o, training_state *state)
{
    judged_loss judged_now = {0};
    const bool is_first = state->steps == 0;
    CHECK(optimizer_begin_judgement(o));
    const grail_status judged = task->judge(task->user, &judged_now);
    const double loss = judged == GRAIL_OK ? judged_loss_mean(&judged_now) : (double)NAN;
    /* NaN is not better. What is better than the best one is beyond chance with it. */
    const bool is_best =
        is_first || (loss < state->held_best &&
                     (state->best_step > 0 || is_beyond_chance(&state->start, &judged_now)));
    CHECK(optimizer_end_judgement(o, is_best));
    CHECK(judged);
    if (is_first) {
        if (!isfinite(loss)) {
            return error_set(GRAIL_ERROR_NUMERIC, "the loss before healing is %g", loss);
        }
        state->held_before = loss;
        state->start = judged_now;
    }
    state->judgements_lost = is_best ? 0 : state->judgements_lost + 1;
    state->held_best = is_best ? loss : state->held_best;
    if (is_best || loss > state->held_worst || !isfinite(loss)) {
        state->held_worst = loss;
    }
    state->held_last = loss;
    state->best_step = is_best ? state->steps : state->best_step;
    return GRAIL_OK;
}

static grail_status take_step(const training_options *options, const training_task *task,
                              optimizer *o, int64_t *samples, const pace *p,
                              const training_state *state)
{
    CHECK(samples_of_step(options->seed, state->steps, options->sample_count, options->samples,
                          options->batch, samples));
    CHECK(task->add_gradients(task->user, state->steps, samples, options->batch));
    return optimizer_step(o, rate_of(options, p, state));
}

/* Whether a loss that rose while the rate was high is on its way back to the best one, and near: by
 * more than the noise of gradients falls with the rate, which is 0.6 of the largest halfway. */
static bool comes_back(const training_state *state)
{
    static const double share = 0.25; /* of what it rose by, and of the best loss */
    const double rose = state->held_worst - state->held_best;
    const double above = state->held_last - state->held_best;
    return isfinite(rose) && above < share * fmin(rose, state->held_best); /* NaN is not */
}

static bool has_stopped(const training_options *options, const training_state *state)
{
    const int64_t patience = patience_of(options);
    const int64_t most = comes_back(state) ? patience + patience / 2 : patience;
    return state->judgements_lost >= most;
}

static bool is_over(const training_options *options, const pace *p, const training_state *state)
{
    return state->steps >= options->chosen->steps ||
           state->held_best == 0.0 || /* nothing before it is cut: the block is the dense one */
           has_stopped(options, state) || !another_fits(p, state);
}

/* Waits until a device has taken the steps so far, and tells what was NaN or infinite in them. */
static grail_status wait_for_steps(const training_options *options, const optimizer *o)
{
    return comm_settle(options->comm, backend_settle(o->parameters->backend, GRAIL_OK));
}

/* Takes a step, and judges it where that is due; *told tells whether it was. A device is waited for
 * before judgements alone, but behind each step where time decides. */
static grail_status go_on(const training_options *options, const training_task *task, optimizer *o,
                          int64_t *samples, pace *p, training_state *state, bool *told)
{
    double before = 0.0;
    double now = 0.0;
    CHECK(read_clock(options, &before));
    CHECK(take_step(options, task, o, samples, p, state));
    CHECK(isfinite(options->seconds) ? wait_for_steps(options, o) : GRAIL_OK);
    CHECK(read_clock(options, &now));
    p->stepped += now - before;
    p->stepped_at = now;
    p->steps++;
    state->steps++;
    state->seconds = now - p->begun;
    *told = is_over(options, p, state) || state->steps % steps_between(options) == 0;
    if (*told) {
        CHECK(wait_for_steps(options, o));
        CHECK(judge(task, o, state));
    }
    return GRAIL_OK;
}

/* Steps may lead to where the network cannot be computed any more, and further ones do not lead
 * back: that ends the training as judgements do that are never better. */
static grail_status end_if_diverged(grail_status status, const training_options *options,
                                    training_state *state, bool *told)
{
    if (status != GRAIL_ERROR_NUMERIC) {
        return status;
    }
    state->judgements_lost = patience_of(options);
    state->held_last = (double)NAN; /* it does not come back */
    *told = true;
    return GRAIL_OK;
}

/* Goes back to the start where the rate was too large for any gain, if it did not yet. */
static grail_status begin_again(const training_options *options, const pace *p, optimizer *o,
                                training_state *state)
{
    if (!has_stopped(options, state) || state->best_step > 0 || state->began_again ||
        state->steps >= options->chosen->steps || !another_fits(p, state)) {
        return GRAIL_OK;
    }
    state->judgements_lost = 0;
    state->held_worst = state->held_best;
    state->began_again = true;
    state->begun_step = state->steps;
    state->begun_progress = progress_of(options, p, state);
    return optimizer_restart(o);
}

/* Tells of the judgement behind the last step. */
static grail_status tell(const training_options *options, const training_task *task, pace *p,
                         training_state *state)
{
    double now = 0.0;
    CHECK(read_clock(options, &now));
    state->seconds = now - p->begun;
    CHECK(task->tell(task->user, state));
    CHECK(read_clock(options, &now));
    p->judgement = fmax(p->judgement, now - p->stepped_at);
    return GRAIL_OK;
}

/* Judges a new training. From then on its time counts. */
static grail_status begin(const training_options *options, const training_task *task, optimizer *o,
                          pace *p, training_state *state)
{
    double before = 0.0;
    CHECK(read_clock(options, &before));
    *p = (pace){.begun = before - state->seconds, .limit = options->seconds, .stepped_at = before};
    if (state->steps == 0) {
        CHECK(judge(task, o, state));
        CHECK(tell(options, task, p, state));
        p->expected_first =
            training_step_expected(p->judgement / (double)options->judged, options->batch);
        CHECK(read_clock(options, &p->begun));
        p->limit -= p->judgement;
        state->seconds = 0.0;
    }
    return GRAIL_OK;
}

grail_status training_run(const training_options *options, const training_task *task, optimizer *o,
                          training_state *state)
{
    grail_status status = GRAIL_OK;
    int64_t *samples = NULL;
    pace p = {0};
    TRY(memory_new(&samples, (size_t)options->batch, sizeof samples[0]));
    TRY(begin(options, task, o, &p, state));
    while (!is_over(options, &p, state)) {
        bool told = false;
        status = go_on(options, task, o, samples, &p, state, &told);
        TRY(end_if_diverged(status, options, state, &told));
        TRY(begin_again(options, &p, o, state));
        if (told) {
            TRY(tell(options, task, &p, state));
        }
    }
    TRY(optimizer_finish(o));
out:
    memory_free(samples);
    return status;
}
