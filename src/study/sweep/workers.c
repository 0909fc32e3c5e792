/* Cells in one or more threads, each cell's line being written as it ends. */
#include "study/sweep/sweep_state.h"

#include <grail/machine.h>

/* How much a worker gains by cell i: 2 where it holds what the cell shares with others, 1 where no
 * worker does, 0 where another worker does. */
static int preference(const worker *w, int64_t i)
{
    const sweep *s = w->sweep;
    if (w->last >= 0 && sweep_cells_share(&s->cells[w->last], &s->cells[i])) {
        return 2;
    }
    for (int j = 0; j < s->worker_count; j++) {
        const int64_t last = s->workers[j].last;
        if (last >= 0 && sweep_cells_share(&s->cells[last], &s->cells[i])) {
            return 0;
        }
    }
    return 1;
}

int64_t sweep_choose_cell(const worker *w, bool *waiting)
{
    const sweep *s = w->sweep;
    int64_t best = -1;
    int best_preference = -1;
    *waiting = false;
    for (int64_t i = 0; i < s->count && best_preference < 2; i++) {
        if (s->state[i] != CELL_PENDING) {
            continue;
        }
        *waiting = true;
        const bool fits = s->running == 0 || s->used + s->bytes[i] <= s->budget;
        const int here = preference(w, i);
        if (fits && here > best_preference) {
            best = i;
            best_preference = here;
        }
    }
    return best;
}

/* Waits for a cell that may run; -1 when there is none. */
static int64_t take_cell(worker *w)
{
    sweep *s = w->sweep;
    bool waiting = true;
    int64_t index = -1;
    pthread_mutex_lock(&s->mutex);
    while (s->status == GRAIL_OK && waiting && index < 0) {
        index = sweep_choose_cell(w, &waiting);
        if (index < 0 && waiting) {
            pthread_cond_wait(&s->changed, &s->mutex);
        }
    }
    if (s->status != GRAIL_OK) {
        index = -1;
    }
    if (index >= 0) {
        if (s->running == 0) {
            grail_memory_peak_begin();
        }
        s->state[index] = CELL_STARTED;
        s->used += s->bytes[index];
        s->running++;
        w->last = index;
    }
    pthread_mutex_unlock(&s->mutex);
    return index;
}

static void end_cell(sweep *s, int64_t index, const sweep_outcome *outcome)
{
    pthread_mutex_lock(&s->mutex);
    s->used -= s->bytes[index];
    s->running--;
    s->state[index] = CELL_DONE;
    if (outcome->status != GRAIL_ERROR_CANCELLED) {
        const result_line line = sweep_outcome_line(outcome);
        const grail_status status = sweep_results_append(&s->results, &line);
        if (status != GRAIL_OK) {
            sweep_stop(s, status, grail_error_message());
        } else {
            sweep_count_cell(s, outcome, &line);
        }
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

/* A session serves one checkpoint. */
static grail_status prepare_session(worker *w, int index)
{
    const sweep_checkpoint *wanted = &w->sweep->recipe.checkpoints.list[index];
    if (w->session != NULL && w->checkpoint == index) {
        return GRAIL_OK;
    }
    const grail_model_options reading = sweep_reading(wanted);
    grail_session_close(w->session);
    w->session = NULL;
    CHECK(grail_session_open(wanted->opens, &reading, &w->session));
    w->checkpoint = index;
    return GRAIL_OK;
}

void sweep_measure_cell(worker *w, sweep_outcome *outcome)
{
    sweep *s = w->sweep;
    const sweep_cell *cell = outcome->cell;
    sweep_context context = {
        .recipe = &s->recipe,
        .data = &s->data[cell->checkpoint],
        .checkpoint = cell->checkpoint,
        .memory = s->budget / s->options->jobs,
        .should_stop = sweep_should_stop,
        .user = s,
    };
    outcome->status = prepare_session(w, cell->checkpoint);
    if (outcome->status == GRAIL_OK) {
        sweep_cell_run(&context, w->session, outcome);
    } else {
        error_copy(outcome->error, sizeof outcome->error);
    }
}

static void run_cell(worker *w, int64_t index)
{
    sweep_outcome outcome = {.cell = &w->sweep->cells[index]};
    sweep_measure_cell(w, &outcome);
    end_cell(w->sweep, index, &outcome);
    sweep_outcome_fini(&outcome);
}

static void *work(void *context)
{
    worker *w = context;
    grail_set_threads(w->threads);
    for (int64_t index = take_cell(w); index >= 0; index = take_cell(w)) {
        run_cell(w, index);
    }
    grail_session_close(w->session);
    w->session = NULL;
    return NULL;
}

static grail_status start_workers(sweep *s)
{
    const int jobs = s->worker_count;
    const int threads = grail_threads() > jobs ? grail_threads() / jobs : 1;
    for (int j = 0; j < jobs; j++) {
        s->workers[j] = (worker){.sweep = s, .threads = threads, .last = -1};
    }
    for (int j = 0; j < jobs; j++) {
        worker *w = &s->workers[j];
        w->started = pthread_create(&w->thread, NULL, work, w) == 0;
        if (!w->started) {
            return error_set(GRAIL_ERROR_MEMORY, "cannot start %d threads to run cells", jobs);
        }
    }
    return GRAIL_OK;
}

grail_status sweep_run_workers(sweep *s)
{
    const grail_status status = start_workers(s);
    if (status != GRAIL_OK) {
        pthread_mutex_lock(&s->mutex);
        sweep_stop(s, status, grail_error_message());
        pthread_mutex_unlock(&s->mutex);
    }
    for (int j = 0; j < s->worker_count; j++) {
        if (s->workers[j].started) {
            pthread_join(s->workers[j].thread, NULL);
        }
    }
    return s->status == GRAIL_OK ? GRAIL_OK : error_set(s->status, "%s", s->message);
}
