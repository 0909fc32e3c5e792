#include "pipeline/network/heal_training.h"

#include "base/clock.h"
#include "exec/matrix_passing.h"
#include "pipeline/network/progress.h"
#include "pipeline/request/dropped.h"

#include <math.h>

/* -- samples ----------------------------------------------------------------------------------- */

/* Batches that the fit holds out, and that the healing may use. */
static bool may_be_held(const compression_request *request, int64_t batch)
{
    return calibration_holds_out(request->samples, batch) && !request_judges_batch(request, batch);
}

static int64_t held_batches(const compression_request *request)
{
    int64_t count = 0;
    for (int64_t b = 0; b < request->samples->batch_count; b++) {
        count += may_be_held(request, b) ? 1 : 0;
    }
    return count;
}

/* How many samples of each such batch are held out. */
static int64_t held_of_batch(const compression_request *request)
{
    const int64_t batches = held_batches(request);
    const int64_t wanted = heal_held_samples(request->graph->input_kind, request->samples->count);
    return batches > 0 ? (wanted + batches - 1) / batches : 0;
}

static grail_status find_samples(const compression_request *request, bool held, int64_t *count,
                                 int64_t **out)
{
    const calibration *c = request->samples;
    const int64_t each = held_of_batch(request);
    CHECK(memory_new_unset(out, (size_t)c->count, sizeof **out));
    *count = 0;
    for (int64_t i = 0; i < c->count; i++) {
        const int64_t batch = calibration_batch_of(c, i);
        const bool is_held = may_be_held(request, batch) && i - c->firsts[batch] < each;
        if ((each == 0 || is_held == held) && !request_judges_batch(request, batch)) {
            (*out)[(*count)++] = i;
        }
    }
    return GRAIL_OK;
}

/* Evenly among those that are seen. */
static grail_status choose_shown(heal_training *t)
{
    t->shown_count = t->seen_count < t->held_count ? t->seen_count : t->held_count;
    CHECK(memory_new_unset(&t->shown, (size_t)t->shown_count, sizeof t->shown[0]));
    for (int64_t i = 0; i < t->shown_count; i++) {
        t->shown[i] = t->seen[i * t->seen_count / t->shown_count];
    }
    return GRAIL_OK;
}

static int64_t step_samples(const heal_training *t)
{
    const compression_request *request = t->network->request;
    return heal_step_samples(request->graph->input_kind,
                             windows_mean_size(&request->samples->windows), t->seen_count);
}

/* -- preparation ------------------------------------------------------------------------------- */

static grail_status make_optimizer(const compression_request *request, parameter_store *parameters,
                                   int begin, int end, optimizer **out)
{
    grail_status status = GRAIL_OK;
    const graph *g = request->graph;
    bool *trained = NULL;
    bool *dropped = NULL;
    TRY(memory_new(&trained, (size_t)g->parameter_count, sizeof trained[0]));
    TRY(memory_new(&dropped, (size_t)g->node_count, sizeof dropped[0]));
    dropped_mark(g, &request->sites->list, &request->plan, dropped);
    for (int i = begin; i < end; i++) {
        if (!dropped[i]) {
            optimizer_mark_trainable(g, i, i + 1, trained);
        }
    }
    TRY(optimizer_create(g, parameters, trained, out));
out:
    memory_free(trained);
    memory_free(dropped);
    return status;
}

grail_status heal_training_init(calibration_network *network, int block, int last_block, int begin,
                                int end, heal_training *t)
{
    const compression_request *request = network->request;
    *t = (heal_training){.network = network, .block = block, .last_block = last_block};
    CHECK(find_samples(request, false, &t->seen_count, &t->seen));
    CHECK(find_samples(request, true, &t->held_count, &t->held));
    CHECK(choose_shown(t));
    CHECK(make_optimizer(request, network->current.parameters, begin, end, &t->optimizer));
    const bool of_one_size = request->samples->windows.starts == NULL;
    t->parts = (heal_parts){.comm = request->comm,
                            .size = of_one_size ? heal_part_samples(step_samples(t)) : 1,
                            .optimizer = t->optimizer};
    return GRAIL_OK;
}

void heal_training_fini(heal_training *t)
{
    optimizer_free(t->optimizer);
    memory_free(t->seen);
    memory_free(t->held);
    memory_free(t->shown);
    *t = (heal_training){0};
}

/* -- the training ------------------------------------------------------------------------------ */

static double elapsed(const heal_training *t)
{
    return clock_seconds() - t->begun;
}

/* By the clock of rank 0, for what all ranks decide alike. */
static grail_status elapsed_of_all(const heal_training *t, double *seconds)
{
    *seconds = elapsed(t);
    return comm_broadcast(t->parts.comm, 0, seconds, sizeof *seconds);
}

/* What is left of the steps at the pace of those taken, or of the time, whichever is less. */
static double seconds_left(const heal_training *t, const training_state *state)
{
    const double steps = (double)(t->network->request->heal.steps - state->steps);
    return state->steps == 0 ? (double)NAN
                             : fmax(0.0, fmin(state->seconds / (double)state->steps * steps,
                                              t->seconds - elapsed(t)));
}

/* How often the blocks of this training fit into those behind them. */
static double trainings_behind(const heal_training *t)
{
    const int behind = t->network->request->graph->block_count - t->last_block - 1;
    return t->block < 0 ? 0.0 : (double)behind / (double)(t->last_block - t->block + 1);
}

static grail_healing so_far(const heal_training *t, const training_state *state)
{
    const double left = seconds_left(t, state);
    const compression_request *request = t->network->request;
    return (grail_healing){
        .block = t->block,
        .last_block = t->last_block,
        .blocks = request->graph->block_count,
        .steps = state->steps,
        .most_steps = request->heal.steps,
        .best_step = state->best_step,
        .held_before = state->held_before,
        .held_after = state->held_best,
        .seen_before = (double)NAN,
        .seen_after = (double)NAN,
        .seconds = state->seconds,
        .seconds_left = left + trainings_behind(t) * (elapsed(t) + left),
    };
}

static grail_status tell_observer(const compression_request *request, const grail_healing *now)
{
    if (request->heal_observer == NULL ||
        request->heal_observer(request->observer_user, now) == 0) {
        return GRAIL_OK;
    }
    return now->block < 0
               ? error_set(GRAIL_ERROR_CANCELLED, "cancelled after %lld steps of healing",
                           (long long)now->steps)
               : progress_cancelled(now->block, now->blocks, false);
}

static grail_status add_gradients(void *user, int64_t step, const int64_t *samples, int64_t count)
{
    const heal_training *t = user;
    return heal_parts_add_gradients(&t->parts, step, samples, count);
}

static grail_status judge(void *user, double *loss)
{
    const heal_training *t = user;
    return heal_parts_mean(&t->parts, t->held, t->held_count, loss);
}

static grail_status save_and_tell(const heal_training *t, const training_state *state)
{
    const grail_healing now = so_far(t, state);
    if (t->memory.save != NULL) {
        CHECK(t->memory.save(t->memory.user, t->optimizer, state));
    }
    return tell_observer(t->network->request, &now);
}

static grail_status tell(void *user, const training_state *state)
{
    const heal_training *t = user;
    return comm_settle(t->parts.comm, save_and_tell(t, state));
}

static training_options options_of(const heal_training *t)
{
    const compression_request *request = t->network->request;
    return (training_options){
        .steps = request->heal.steps,
        .rate = t->rate,
        .batch = step_samples(t),
        .seed = request->plan.seed + (t->block < 0 ? 0 : (uint64_t)t->block),
        .samples = t->seen,
        .sample_count = t->seen_count,
        .judged = t->held_count,
        .comm = t->parts.comm,
    };
}

static grail_status shown_loss(const heal_training *t, double *loss)
{
    return heal_parts_mean(&t->parts, t->shown, t->shown_count, loss);
}

/* What there is time for. */
typedef struct agenda {
    bool trains; /* a judgement, a step and a judgement */
    bool shows;  /* the losses of seen samples besides, at most a sixteenth of it */
} agenda;

/* What a few samples take tells what fits into a limit. */
static grail_status make_agenda(const heal_training *t, agenda *out)
{
    const int64_t size = t->network->request->samples->firsts[1];
    const int64_t count = size < t->held_count ? size : t->held_count;
    double before = 0.0;
    double now = 0.0;
    double loss = 0.0;
    *out = (agenda){.trains = true, .shows = true};
    if (!isfinite(t->seconds)) {
        return GRAIL_OK;
    }
    CHECK(elapsed_of_all(t, &before));
    CHECK(heal_parts_mean(&t->parts, t->held, count, &loss));
    CHECK(elapsed_of_all(t, &now));
    const double each = (now - before) / (double)count;
    const double judgement = each * (double)t->held_count;
    const double step = training_step_expected(each, step_samples(t));
    const double left = t->seconds - now;
    out->trains = left >= 2.0 * judgement + step;
    out->shows = left >= 16.0 * 2.0 * judgement;
    return GRAIL_OK;
}

/* Trains, and measures the loss of seen samples before and behind it where `shows`. */
static grail_status train(heal_training *t, bool shows, training_state *state, double *seen_after)
{
    double before = 0.0;
    double now = 0.0;
    const training_task task = {
        .add_gradients = add_gradients, .judge = judge, .tell = tell, .user = t};
    CHECK(elapsed_of_all(t, &before));
    if (shows && isnan(state->held_before)) { /* not one that goes on */
        CHECK(shown_loss(t, &state->seen_before));
    }
    CHECK(elapsed_of_all(t, &now));
    training_options options = options_of(t);
    options.seconds = t->seconds - now - (now - before); /* the loss at the end takes as long */
    CHECK(training_run(&options, &task, t->optimizer, state));
    *seen_after = state->seen_before;
    if (shows && state->best_step > 0) {
        CHECK(shown_loss(t, seen_after));
    }
    return GRAIL_OK;
}

/* Gives rank 0's weights, moments and best values to all ranks, with where the training stands. */
static grail_status share_restored(const heal_training *t, training_state *state)
{
    const grail_comm *comm = t->parts.comm;
    optimizer *o = t->optimizer;
    CHECK(comm_broadcast(comm, 0, state, sizeof *state));
    CHECK(comm_broadcast(comm, 0, &o->steps, sizeof o->steps));
    for (int i = 0; !isnan(state->held_before) && i < o->count; i++) {
        const trained_parameter *p = &o->of[i];
        const matrix kept[] = {o->parameters->entries[p->index].values, p->first, p->second,
                               p->best};
        CHECK(matrices_share(comm, 0, kept, sizeof kept / sizeof kept[0]));
    }
    return GRAIL_OK;
}

static grail_status restore(const heal_training *t, training_state *state)
{
    grail_status status = GRAIL_OK;
    if (t->memory.restore != NULL) {
        status = t->memory.restore(t->memory.user, t->optimizer, state);
    }
    CHECK(comm_settle(t->parts.comm, status));
    return share_restored(t, state);
}

static grail_status run(heal_training *t, grail_healing *made)
{
    const double unknown = (double)NAN;
    training_state state = {.held_before = unknown, .held_best = unknown, .seen_before = unknown};
    agenda fits = {0};
    double seen_after = unknown;
    CHECK(restore(t, &state));
    const double earlier = state.seconds;
    CHECK(make_agenda(t, &fits));
    if (fits.trains || !isnan(state.held_before)) {
        CHECK(train(t, fits.shows, &state, &seen_after));
    } else {
        CHECK(optimizer_finish(t->optimizer));
    }
    *made = so_far(t, &state);
    made->seen_before = state.seen_before;
    made->seen_after = seen_after;
    made->seconds = earlier + elapsed(t);
    made->seconds_left = trainings_behind(t) * elapsed(t);
    return GRAIL_OK;
}

/* Every rank has taken the same steps: other bits come of other processors, or of a fault. */
static grail_status agree_on_weights(const heal_training *t)
{
    grail_status status = GRAIL_OK;
    const optimizer *o = t->optimizer;
    float *values = NULL;
    int64_t count = 0;
    for (int i = 0; comm_is_shared(t->parts.comm) && i < o->count; i++) {
        TRY(parameter_store_read_f32(o->parameters, o->of[i].index, &values, &count));
        TRY(comm_agree(t->parts.comm, "trained weights", "run all ranks on processors of one kind",
                       values, (size_t)count * sizeof values[0]));
        memory_free(values);
        values = NULL;
    }
out:
    memory_free(values);
    return status;
}

/* All ranks keep what rank 0 measured, so that they share out the time that is left alike. */
static grail_status conclude(calibration_network *network, grail_healing *made)
{
    made->ended = 1;
    CHECK(comm_broadcast(network->request->comm, 0, made, sizeof *made));
    CHECK(healing_list_add(&network->healings, made));
    return comm_settle(network->request->comm, tell_observer(network->request, made));
}

grail_status heal_training_run(heal_training *t)
{
    grail_healing made = {0};
    CHECK(run(t, &made));
    CHECK(agree_on_weights(t));
    return conclude(t->network, &made);
}

grail_status heal_training_skip(calibration_network *network, int block, int last_block)
{
    const double unknown = (double)NAN;
    const heal_training none = {.network = network, .block = block, .last_block = last_block};
    const training_state state = {.held_before = unknown, .held_best = unknown};
    grail_healing made = so_far(&none, &state);
    return conclude(network, &made);
}
