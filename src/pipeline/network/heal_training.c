#include "pipeline/network/heal_training.h"

#include "base/clock.h"
#include "base/machine_memory.h"
#include "exec/matrix_passing.h"
#include "graph/operators.h"
#include "pipeline/network/progress.h"
#include "pipeline/request/dropped.h"

#include <math.h>
#include <stdio.h>

/* -- samples ----------------------------------------------------------------------------------- */

/* Batches that the fit holds out, and that the healing may use. */
static int64_t held_batches(const heal_setting *s)
{
    int64_t count = 0;
    int64_t last = -1;
    for (int64_t i = 0; i < s->usable_count; i++) {
        const int64_t batch = calibration_batch_of(s->samples, s->usable[i]);
        count += batch != last && calibration_holds_out(s->samples, batch) ? 1 : 0;
        last = batch;
    }
    return count;
}

/* How many samples of each such batch are held out. */
static int64_t held_of_batch(const heal_setting *s)
{
    const int64_t batches = held_batches(s);
    const int64_t wanted = heal_held_samples(s->current->graph->input_kind, s->samples->count);
    return batches > 0 ? (wanted + batches - 1) / batches : 0;
}

static grail_status find_samples(const heal_setting *s, bool held, int64_t *count, int64_t **out)
{
    const calibration *c = s->samples;
    const int64_t each = held_of_batch(s);
    CHECK(memory_new_unset(out, (size_t)s->usable_count, sizeof **out));
    *count = 0;
    for (int64_t i = 0; i < s->usable_count; i++) {
        const int64_t sample = s->usable[i];
        const int64_t batch = calibration_batch_of(c, sample);
        const bool is_held = calibration_holds_out(c, batch) && sample - c->firsts[batch] < each;
        if (each == 0 || is_held == held) {
            (*out)[(*count)++] = sample;
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
    const heal_setting *s = t->setting;
    return heal_step_samples(s->options, s->current->graph->input_kind,
                             windows_mean_size(&s->samples->windows), t->seen_count);
}

/* That the steps of the training see, if none are left out; of images 0. */
static double tokens_of(const heal_training *t)
{
    const double samples = (double)t->setting->options->chosen.steps * (double)step_samples(t);
    return samples * (double)windows_mean_size(&t->setting->samples->windows);
}

/* A table of embeddings that is the head's matrix, too, has rows that few of the tokens move. */
static void leave_tables(const heal_training *t, bool *trained)
{
    const graph *g = t->setting->current->graph;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        if (operator_of(n)->gathers && trained[n->weight]) {
            trained[n->weight] = heal_trains_table(g->parameters[n->weight].shape[0], tokens_of(t));
        }
    }
}

batch_shape part_shape(const calibration *samples, const sample_part *part)
{
    return (batch_shape){.samples = part->count,
                         .positions = calibration_positions(samples, part->samples[0])};
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Ranks that share a training take equal parts, whatever the device of each holds. */
static bool parts_can_shrink(const heal_setting *s)
{
    return !backend_is_host(s->backend) && !comm_is_shared(s->comm);
}

static int64_t that_fit(const heal_setting *s, int64_t samples)
{
    return *s->at_most == 0 || !parts_can_shrink(s) ? samples : smaller(samples, *s->at_most);
}

int64_t samples_at_once(const heal_setting *s)
{
    const extent *positions = &s->samples->positions;
    const int64_t rows = positions->height * positions->width;
    return that_fit(s, larger(1, backend_panel(s->backend, 0) / larger(1, rows)));
}

/* A quarter of a step, so that four ranks have work, or what one call of a device is worth. A
 * judgement has parts enough to tell a gain from chance. */
static void choose_parts(heal_training *t)
{
    enum { PARTS = 4, GROUPS = 8 };
    const bool of_one_size = t->setting->samples->windows.starts == NULL;
    const int64_t step = step_samples(t);
    const int64_t at_once = samples_at_once(t->setting);
    const int64_t quarter = that_fit(t->setting, (step + PARTS - 1) / PARTS);
    t->part_samples = !of_one_size ? 1 : larger(quarter, smaller(at_once, step));
    t->judged_samples =
        !of_one_size ? 1 : larger(1, smaller(larger(quarter, at_once), t->held_count / GROUPS));
}

double step_scale(const heal_setting *s, int64_t mean_over, int64_t rows)
{
    const double usual = 64.0; /* of the shares that rows of a mean over one have */
    const extent *longest = &s->samples->positions;
    const bool of_one_size = s->samples->windows.starts == NULL;
    const int64_t most = of_one_size ? rows : longest->height * longest->width;
    const double factor = usual * exp2(ceil(log2((double)(mean_over * most))));
    return (backend_type(s->backend) == GRAIL_DTYPE_F16 ? factor : 1.0) /
           (double)(mean_over * rows);
}

bool steps_are_unwatched(const heal_setting *s)
{
    return !backend_is_host(s->backend);
}

grail_status watch_step(const heal_setting *s, int64_t step, matrix outputs)
{
    char text[WATCH_TEXT];
    snprintf(text, sizeof text, "step %lld of healing: an output is NaN or infinite",
             (long long)step + 1);
    return steps_are_unwatched(s) ? matrix_watch(outputs, 0, text) : GRAIL_OK;
}

/* -- preparation ------------------------------------------------------------------------------- */

grail_status mark_trained(const graph *g, const site_list *sites, const plan *p, int begin, int end,
                          bool **out)
{
    grail_status status = GRAIL_OK;
    bool *dropped = NULL;
    TRY(memory_new(out, (size_t)g->parameter_count, sizeof **out));
    TRY(memory_new(&dropped, (size_t)g->node_count, sizeof dropped[0]));
    dropped_mark(g, sites, p, dropped);
    for (int i = begin; i < end; i++) {
        if (!dropped[i]) {
            optimizer_mark_trainable(g, i, i + 1, *out);
        }
    }
out:
    memory_free(dropped);
    return status;
}

/* Whether a device has room for the training of a network: six copies of what is trained and one of
 * the values in the order of products, beside the dense network's weights. A fifth of the room is
 * left for values. Where it has not, the host must have room for the six copies in F32. */
static grail_status choose_place(const heal_setting *s, const bool *trained, bool *streams)
{
    const double copies = 6.0;
    const double share = 0.8;
    const double gigabyte = 1e9;
    const double size = (double)backend_value_size(s->backend);
    const double master = (double)element_size(backend_master_type(s->backend));
    const double room =
        s->memory > 0 ? (double)s->memory : share * (double)backend_room(s->backend);
    const double at_home = (double)machine_memory_read("").available; /* below 0: unknown */
    double elements = 0.0;
    double dense = 0.0;
    for (int p = 0; p < s->current->graph->parameter_count; p++) {
        const int64_t *shape = parameter_store_shape(s->current->parameters, p);
        int64_t count = 0;
        if (trained[p] && shape_elements(s->current->graph->parameters[p].rank, shape, &count)) {
            elements += (double)count;
        }
    }
    for (int p = 0; p < s->dense->graph->parameter_count; p++) {
        dense += (double)model_parameter_elements(s->dense->parameters->model, p);
    }
    *streams = elements * (copies * master + size) + dense * size > room;
    const double needed = elements * copies * (double)sizeof(float);
    return *streams && at_home >= 0.0 && needed > at_home
               ? error_set(GRAIL_ERROR_MEMORY,
                           "the training takes %.3g GB, the device has room for %.3g GB, and the "
                           "host has %.3g GB available; heal its blocks instead",
                           needed / gigabyte, room / gigabyte, at_home / gigabyte)
               : GRAIL_OK;
}

grail_status heal_training_init(const heal_setting *s, int block, int last_block, int begin,
                                int end, heal_training *t)
{
    grail_status status = GRAIL_OK;
    const network_run *current = s->current;
    bool *trained = NULL;
    *t = (heal_training){
        .setting = s, .block = block, .last_block = last_block, .until = (double)INFINITY};
    TRY(find_samples(s, false, &t->seen_count, &t->seen));
    TRY(find_samples(s, true, &t->held_count, &t->held));
    TRY(choose_shown(t));
    TRY(mark_trained(current->graph, s->sites, s->plan, begin, end, &trained));
    leave_tables(t, trained);
    TRY(block == GRAPH_NONE && !backend_is_host(s->backend) ? choose_place(s, trained, &t->streams)
                                                            : GRAIL_OK);
    TRY(t->streams ? parameter_store_move_home(current->parameters, trained) : GRAIL_OK);
    TRY(optimizer_create(current->graph,
                         t->streams ? current->parameters->home : current->parameters, trained,
                         &t->optimizer));
    t->optimizer->gradients->of_tape = !t->streams;
    choose_parts(t);
out:
    memory_free(trained);
    return status;
}

void heal_training_fini(heal_training *t)
{
    optimizer_free(t->optimizer);
    memory_free(t->seen);
    memory_free(t->held);
    memory_free(t->shown);
    *t = (heal_training){0};
}

/* -- parts ------------------------------------------------------------------------------------- */

/* Some samples that are gone through in turns; of a turn each rank has one part. */
typedef struct turns {
    const heal_training *training;
    const int64_t *samples; /* [count] */
    int64_t count;
    int64_t part; /* samples of each part but the last, which may have less */
} turns;

/* What a part adds to the loss. */
typedef struct share {
    double sum;
    int64_t rows;
} share;

static int64_t part_count(const turns *p)
{
    return (p->count + p->part - 1) / p->part;
}

static sample_part part_at(const turns *p, int64_t index)
{
    const int64_t first = index * p->part;
    const int64_t left = p->count - first;
    return (sample_part){.samples = p->samples + first, .count = left < p->part ? left : p->part};
}

/* Ranks that have a part in the turn that begins with part `first`. */
static int ranks_of_turn(const turns *p, int64_t first)
{
    const int64_t left = part_count(p) - first;
    const int size = comm_size(p->training->setting->comm);
    return left < size ? (int)left : size;
}

static grail_status prepare_turn(const turns *p, int64_t first)
{
    const heal_loss *loss = &p->training->loss;
    for (int rank = 0; loss->prepare != NULL && rank < ranks_of_turn(p, first); rank++) {
        const sample_part part = part_at(p, first + rank);
        CHECK(loss->prepare(loss->user, &part, rank));
    }
    return GRAIL_OK;
}

static grail_status place_turn(const turns *p, int64_t first)
{
    const heal_loss *loss = &p->training->loss;
    for (int rank = 0; rank < ranks_of_turn(p, first); rank++) {
        const sample_part part = part_at(p, first + rank);
        CHECK(loss->place(loss->user, &part, rank));
    }
    return GRAIL_OK;
}

static grail_status run_own(const turns *p, int64_t first, int64_t step, int64_t mean_over,
                            matrix sum, int64_t *rows)
{
    const heal_loss *loss = &p->training->loss;
    const int rank = comm_rank(p->training->setting->comm);
    if (rank >= ranks_of_turn(p, first)) {
        return GRAIL_OK;
    }
    const sample_part part = part_at(p, first + rank);
    return loss->run(loss->user, &part, step, mean_over, sum, rows);
}

static grail_status take_turn(const turns *p, int64_t first, int64_t step, int64_t mean_over,
                              matrix sum, int64_t *rows)
{
    CHECK(prepare_turn(p, first));
    CHECK(place_turn(p, first));
    return comm_settle(p->training->setting->comm, run_own(p, first, step, mean_over, sum, rows));
}

/* Settles what was tried with parts of `part` samples. *again: it has filled a device, and is to be
 * tried with half as many. */
static grail_status halve_parts(const heal_training *t, grail_status status, int64_t count,
                                int64_t *part, bool *again)
{
    const heal_setting *s = t->setting;
    const int64_t most = smaller(*part, count);
    *again = status == GRAIL_ERROR_MEMORY && parts_can_shrink(s) && most > 1;
    if (!*again) {
        if (status == GRAIL_ERROR_MEMORY && parts_can_shrink(s)) {
            error_append("; a single sample at once was tried, too");
        }
        return status;
    }
    *part = (most + 1) / 2;
    *s->at_most = that_fit(s, *part);
    CHECK(t->loss.drop(t->loss.user));
    matrix_pool_clear(s->pool);
    return GRAIL_OK;
}

static grail_status add_parts(const heal_training *t, int64_t step, const int64_t *samples,
                              int64_t count)
{
    const grail_comm *comm = t->setting->comm;
    const turns all = {.training = t, .samples = samples, .count = count, .part = t->part_samples};
    for (int64_t first = 0; first < part_count(&all); first += comm_size(comm)) {
        int64_t rows = 0;
        CHECK(take_turn(&all, first, step, count, no_matrix, &rows));
        CHECK(optimizer_add_parts(t->optimizer, comm, ranks_of_turn(&all, first)));
    }
    return optimizer_take_sums(t->optimizer, comm);
}

static grail_status add_gradients(void *user, int64_t step, const int64_t *samples, int64_t count)
{
    heal_training *t = user;
    bool again = true;
    while (again) {
        const grail_status status = add_parts(t, step, samples, count);
        CHECK(halve_parts(t, status, count, &t->part_samples, &again));
        CHECK(again ? optimizer_drop_parts(t->optimizer) : GRAIL_OK);
    }
    return GRAIL_OK;
}

/* Adds up what all ranks have, in the order of parts. */
static grail_status add_shares(const grail_comm *comm, int64_t count, share *shares,
                               judged_loss *out)
{
    const int64_t groups = smaller(count, TRAINING_GROUPS);
    for (int64_t i = 0; i < count; i++) {
        CHECK(comm_broadcast_next(comm, (int)(i % comm_size(comm)), &shares[i], sizeof shares[i]));
        out->sum[i * groups / count] += shares[i].sum;
        out->rows[i * groups / count] += (double)shares[i].rows;
    }
    return GRAIL_OK;
}

/* Reads sums[1, count] by one reading of a device, which also tells what was watched. */
static grail_status read_sums(const heal_training *t, matrix sums, int64_t count, share *shares)
{
    grail_status status = GRAIL_OK;
    matrix *numbers = NULL;
    double *values = NULL;
    TRY(memory_new(&numbers, (size_t)count + 1, sizeof numbers[0]));
    TRY(memory_new(&values, (size_t)count + 1, sizeof values[0]));
    for (int64_t i = 0; i < count; i++) {
        numbers[i] = matrix_columns(sums, i, 1);
    }
    TRY(backend_settle_reading(t->setting->backend, GRAIL_OK, (int)count, numbers, values));
    for (int64_t i = 0; i < count; i++) {
        shares[i].sum = values[i];
    }
out:
    memory_free(numbers);
    memory_free(values);
    return status;
}

static grail_status measure_loss(const heal_training *t, const int64_t *samples, int64_t count,
                                 judged_loss *out)
{
    grail_status status = GRAIL_OK;
    const grail_comm *comm = t->setting->comm;
    const turns all = {
        .training = t, .samples = samples, .count = count, .part = t->judged_samples};
    const int64_t parts = part_count(&all) + comm_size(comm); /* some of the last turn are none */
    const int rank = comm_rank(comm);
    matrix sums = {0};
    share *shares = NULL;
    *out = (judged_loss){0};
    TRY(memory_new(&shares, (size_t)parts, sizeof shares[0]));
    TRY(matrix_new_zero(t->setting->backend, GRAIL_DTYPE_F64, 1, parts, &sums));
    for (int64_t first = 0; first < part_count(&all); first += comm_size(comm)) {
        TRY(take_turn(&all, first, 0, 0, matrix_columns(sums, first + rank, 1),
                      &shares[first + rank].rows));
    }
    TRY(comm_settle(comm, read_sums(t, sums, part_count(&all), shares)));
    TRY(add_shares(comm, part_count(&all), shares, out));
out:
    matrix_free(&sums);
    memory_free(shares);
    return status;
}

static grail_status loss_of(heal_training *t, const int64_t *samples, int64_t count,
                            judged_loss *out)
{
    bool again = true;
    while (again) {
        const grail_status status = measure_loss(t, samples, count, out);
        CHECK(halve_parts(t, status, count, &t->judged_samples, &again));
    }
    return GRAIL_OK;
}

/* -- the training ------------------------------------------------------------------------------ */

static double elapsed(const heal_training *t)
{
    return clock_seconds() - t->begun;
}

static bool is_limited(const heal_training *t)
{
    return isfinite(t->seconds) || isfinite(t->until);
}

/* By the clock of rank 0, for what all ranks decide alike. */
static grail_status elapsed_of_all(const heal_training *t, double *seconds)
{
    *seconds = elapsed(t);
    return comm_broadcast(t->setting->comm, 0, seconds, sizeof *seconds);
}

/* What is left of the time, of which `earlier` seconds were spent before this run went on. */
static grail_status left_of_all(const heal_training *t, double earlier, double *seconds)
{
    *seconds = fmin(t->seconds - earlier - elapsed(t), t->until - clock_seconds());
    return is_limited(t) ? comm_broadcast(t->setting->comm, 0, seconds, sizeof *seconds) : GRAIL_OK;
}

/* What is left of the steps at the pace of those taken, or of the time, whichever is less. */
static double seconds_left(const heal_training *t, const training_state *state)
{
    const double steps = (double)(t->setting->options->chosen.steps - state->steps);
    return state->steps == 0
               ? (double)NAN
               : fmax(0.0, fmin(state->seconds / (double)state->steps * steps,
                                fmin(t->seconds - elapsed(t), t->until - clock_seconds())));
}

/* How often the blocks of this training fit into those behind them. */
static double trainings_behind(const heal_training *t)
{
    const int behind = t->setting->current->graph->block_count - t->last_block - 1;
    return t->block < 0 ? 0.0 : (double)behind / (double)(t->last_block - t->block + 1);
}

static grail_healing so_far(const heal_training *t, const training_state *state)
{
    const double left = seconds_left(t, state);
    return (grail_healing){
        .block = t->block,
        .last_block = t->last_block,
        .blocks = t->setting->current->graph->block_count,
        .steps = state->steps,
        .most_steps = t->setting->options->chosen.steps,
        .best_step = state->best_step,
        .held_before = state->held_before,
        .held_after = state->held_best,
        .seen_before = (double)NAN,
        .seen_after = (double)NAN,
        .seconds = state->seconds,
        .seconds_left = left + trainings_behind(t) * (elapsed(t) + left),
        .region = t->region,
        .streamed = t->streams,
    };
}

static grail_status tell_observer(const heal_setting *s, const grail_healing *now)
{
    if (s->observer == NULL || s->observer(s->observer_user, now) == 0) {
        return GRAIL_OK;
    }
    return now->block < 0
               ? error_set(GRAIL_ERROR_CANCELLED, "cancelled after %lld steps of healing",
                           (long long)now->steps)
               : progress_cancelled(now->block, now->blocks, false);
}

static grail_status judge(void *user, judged_loss *out)
{
    heal_training *t = user;
    return loss_of(t, t->held, t->held_count, out);
}

/* A save writes four matrices for each parameter. Where that is long, it takes a ninth of the time
 * at most: what is lost with a program that ends is computed again. */
static bool is_save_due(const heal_training *t)
{
    const double unnoticed = 0.5;
    const double times = 8.0;
    return t->save_took <= unnoticed || clock_seconds() - t->saved_at >= times * t->save_took;
}

static grail_status save(heal_training *t, const training_state *state)
{
    const double begun = clock_seconds();
    if (t->memory.save != NULL) {
        CHECK(t->memory.save(t->memory.user, t->optimizer, state));
    }
    t->saved_at = clock_seconds();
    t->save_took = t->saved_at - begun;
    return GRAIL_OK;
}

static grail_status save_and_tell(heal_training *t, const training_state *state)
{
    const grail_healing now = so_far(t, state);
    const bool due = is_save_due(t);
    CHECK(due ? save(t, state) : GRAIL_OK);
    const grail_status told = tell_observer(t->setting, &now);
    CHECK(told == GRAIL_ERROR_CANCELLED && !due ? save(t, state) : GRAIL_OK);
    return told;
}

static grail_status tell(void *user, const training_state *state)
{
    heal_training *t = user;
    return comm_settle(t->setting->comm, save_and_tell(t, state));
}

static training_options options_of(const heal_training *t)
{
    return (training_options){
        .chosen = &t->setting->options->chosen,
        .rate = t->block < 0 ? heal_rate_of_network(t->setting->options, tokens_of(t)) : t->rate,
        .batch = step_samples(t),
        .seed = t->setting->plan->seed + (t->block < 0 ? 0 : (uint64_t)t->block),
        .samples = t->seen,
        .sample_count = t->seen_count,
        .judged = t->held_count,
        .comm = t->setting->comm,
    };
}

static grail_status shown_loss(heal_training *t, double *loss)
{
    judged_loss shown = {0};
    CHECK(loss_of(t, t->shown, t->shown_count, &shown));
    *loss = judged_loss_mean(&shown);
    return GRAIL_OK;
}

/* What there is time for. */
typedef struct agenda {
    bool trains; /* a judgement, a step and a judgement */
    bool shows;  /* the losses of seen samples besides, at most a sixteenth of it */
} agenda;

/* What a few samples take tells what fits into a limit. */
static grail_status make_agenda(heal_training *t, agenda *out)
{
    const int64_t size = t->setting->samples->firsts[1];
    const int64_t count = size < t->held_count ? size : t->held_count;
    double before = 0.0;
    double now = 0.0;
    double left = 0.0;
    judged_loss loss = {0};
    *out = (agenda){.trains = true, .shows = true};
    if (!is_limited(t)) {
        return GRAIL_OK;
    }
    CHECK(elapsed_of_all(t, &before));
    CHECK(loss_of(t, t->held, count, &loss));
    CHECK(elapsed_of_all(t, &now));
    const double each = (now - before) / (double)count;
    const double judgement = each * (double)t->held_count;
    const double step = training_step_expected(each, step_samples(t));
    CHECK(left_of_all(t, 0.0, &left));
    out->trains = left >= 2.0 * judgement + step;
    out->shows = left >= 16.0 * 2.0 * judgement;
    return GRAIL_OK;
}

/* Trains, and measures the loss of seen samples before and behind it where `shows`. */
static grail_status train(heal_training *t, bool shows, training_state *state, double *seen_after)
{
    double before = 0.0;
    double now = 0.0;
    double left = 0.0;
    const training_task task = {
        .add_gradients = add_gradients, .judge = judge, .tell = tell, .user = t};
    CHECK(elapsed_of_all(t, &before));
    if (shows && isnan(state->held_before)) { /* not one that goes on */
        CHECK(shown_loss(t, &state->seen_before));
    }
    CHECK(elapsed_of_all(t, &now));
    training_options options = options_of(t);
    CHECK(left_of_all(t, state->seconds, &left));
    options.seconds =
        state->seconds + left - (now - before); /* the loss at the end takes as long */
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
    const grail_comm *comm = t->setting->comm;
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
    CHECK(comm_settle(t->setting->comm, status));
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
    for (int i = 0; comm_is_shared(t->setting->comm) && i < o->count; i++) {
        TRY(parameter_store_read_f32(o->parameters, o->of[i].index, &values, &count));
        TRY(comm_agree(t->setting->comm, "trained weights",
                       "run all ranks on processors of one kind", values,
                       (size_t)count * sizeof values[0]));
        memory_free(values);
        values = NULL;
    }
out:
    memory_free(values);
    return status;
}

/* All ranks keep what rank 0 measured, so that they share out the time that is left alike. */
static grail_status conclude(const heal_setting *s, grail_healing *made)
{
    made->ended = 1;
    CHECK(comm_broadcast(s->comm, 0, made, sizeof *made));
    CHECK(healing_list_add(s->made, made));
    return comm_settle(s->comm, tell_observer(s, made));
}

grail_status heal_training_run(heal_training *t)
{
    grail_healing made = {0};
    CHECK(backend_settle(t->setting->backend, run(t, &made)));
    CHECK(agree_on_weights(t));
    return conclude(t->setting, &made);
}

grail_status heal_training_skip(const heal_setting *s, int block, int last_block, int stop)
{
    const double unknown = (double)NAN;
    const heal_training none = {.setting = s,
                                .block = block,
                                .last_block = last_block,
                                .region = stop,
                                .until = (double)INFINITY};
    const training_state state = {.held_before = unknown, .held_best = unknown};
    grail_healing made = so_far(&none, &state);
    return conclude(s, &made);
}
