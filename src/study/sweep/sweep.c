/* Running a sweep: everything is checked first, the dense checkpoints are evaluated, then cells run
 * in one or more threads, each cell's line being written as it ends. Several ranks take cells in
 * rounds, one each, and rank 0 writes the lines of a round. */
#include "study/sweep/cell_run.h"

#include "base/clock.h"
#include "base/machine_memory.h"
#include "base/option_values.h"
#include "base/options.h"
#include "study/results/line_text.h"
#include "study/sweep/rank_lines.h"
#include "study/sweep/results_file.h"

#include <grail-study/sweep.h>
#include <grail/machine.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST_JOBS = 256, LONGEST_MESSAGE = 1000, LONGEST_LINE = 1 << 30 };

typedef enum cell_state { CELL_PENDING, CELL_STARTED, CELL_DONE } cell_state;

/* A thread or rank that runs cells, with what it shares between those of one checkpoint. */
typedef struct worker {
    struct sweep *sweep;
    int threads; /* for its loops */
    grail_session *session;
    int checkpoint; /* of the session */
    int64_t last;   /* cell that it runs or ran last, or -1 */
    pthread_t thread;
    bool started;
} worker;

typedef struct sweep {
    const grail_sweep_options *options;
    sweep_recipe recipe;
    sweep_checkpoint_data *data; /* [checkpoints] */
    bool *dense_found;           /* [checkpoints] */
    sweep_cell *cells;
    bool *found;       /* [count] in the results file before */
    int64_t *bytes;    /* [count] estimated */
    cell_state *state; /* [count] */
    int64_t count;
    sweep_results results;
    worker *workers;  /* [worker_count] */
    int worker_count; /* jobs or ranks */
    double begun;

    pthread_mutex_t mutex;  /* of what follows, of state and of results */
    pthread_cond_t changed; /* a cell ended */
    int64_t budget, used;   /* bytes */
    int running;
    int64_t done, failed;
    double variant_seconds[VARIANTS]; /* of the cells done, for the time left */
    int64_t variant_done[VARIANTS];
    grail_status status; /* why no further cell is started */
    char message[LONGEST_MESSAGE];
} sweep;

/* clang-format off */
#define FIELD(member) OPTION_FIELD(grail_sweep_options, member)
static const grail_option fields[] = {
    {FIELD(jobs), .type = GRAIL_OPTION_INTEGER, .what = "the number of jobs", .least = 1.0,
     .below = MOST_JOBS + 1.0, .usual = "1"},
    {FIELD(memory), .type = GRAIL_OPTION_SIZE, .what = "the memory for running cells"},
    {FIELD(precision), .type = GRAIL_OPTION_WORD, .what = "precision of a sweep",
     .words = sweep_precisions},
    {FIELD(dry_run), .type = GRAIL_OPTION_FLAG},
    {0},
};
/* clang-format on */

void grail_sweep_options_init(grail_sweep_options *options)
{
    *options = (grail_sweep_options){0};
    options_init(fields, options);
}

/* -- progress -----------------------------------------------------------------------------------
 */

static double mean_seconds(const sweep *s, variant wanted)
{
    double sum = 0.0;
    int64_t count = 0;
    if (s->variant_done[wanted] > 0) {
        return s->variant_seconds[wanted] / (double)s->variant_done[wanted];
    }
    for (int v = 0; v < VARIANTS; v++) {
        sum += s->variant_seconds[v];
        count += s->variant_done[v];
    }
    return sum / (double)count; /* NaN before the first */
}

static double seconds_left(const sweep *s)
{
    double sum = 0.0;
    for (int64_t i = 0; i < s->count; i++) {
        sum += s->state[i] == CELL_DONE ? 0.0 : mean_seconds(s, s->cells[i].settings.variant);
    }
    return sum / (double)s->worker_count;
}

static void stop(sweep *s, grail_status status, const char *message)
{
    if (s->status == GRAIL_OK) {
        s->status = status;
        snprintf(s->message, sizeof s->message, "%s", message);
    }
}

/* Whether its checkpoint was asked for, and is open. */
static bool is_asked_for(const sweep *s, int64_t cell)
{
    return s->data[s->cells[cell].checkpoint].model != NULL;
}

static int64_t count_cells(const sweep *s, bool found)
{
    int64_t count = 0;
    for (int64_t i = 0; s->data != NULL && i < s->count; i++) {
        count += is_asked_for(s, i) && (s->found[i] || !found) ? 1 : 0;
    }
    return count;
}

/* With the mutex held. `outcome` NULL: no cell has ended. */
static void tell(sweep *s, const sweep_outcome *outcome)
{
    char text[SWEEP_CELL_TEXT];
    char result[SWEEP_RESULT_TEXT];
    if (s->options->observer == NULL) {
        return;
    }
    const grail_sweep_progress progress = {
        .cells = count_cells(s, false),
        .found = count_cells(s, true),
        .done = s->done,
        .failed = s->failed,
        .seconds_left = seconds_left(s),
        .cell = outcome == NULL ? NULL : sweep_cell_text(outcome->cell, text),
        .error = outcome == NULL || outcome->error[0] == 0 ? NULL : outcome->error,
        .result = outcome == NULL || outcome->error[0] != 0
                      ? NULL
                      : sweep_result_text(&outcome->line, result),
    };
    if (s->options->observer(s->options->observer_user, &progress) != 0) {
        stop(s, GRAIL_ERROR_CANCELLED, "cancelled; the results file keeps the finished cells");
    }
}

/* Asked for often while a cell runs: whether it should end. */
static int should_stop(void *user)
{
    sweep *s = user;
    pthread_mutex_lock(&s->mutex);
    tell(s, NULL);
    const int stopped = s->status != GRAIL_OK;
    pthread_mutex_unlock(&s->mutex);
    return stopped;
}

/* -- workers ------------------------------------------------------------------------------------
 */

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

/* The best pending cell that fits into the budget, or -1; *waiting tells whether any is pending. */
static int64_t choose_cell(const worker *w, bool *waiting)
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
        index = choose_cell(w, &waiting);
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

/* Counts a cell whose line is in the file, and tells of it. */
static void count_cell(sweep *s, const sweep_outcome *outcome, const result_line *line)
{
    s->done++;
    s->failed += outcome->error[0] == 0 ? 0 : 1;
    s->variant_seconds[line->settings.variant] += line->measures.seconds[SECONDS_TOTAL];
    s->variant_done[line->settings.variant]++;
    tell(s, outcome);
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
            stop(s, status, grail_error_message());
        } else {
            count_cell(s, outcome, &line);
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
    CHECK(grail_session_open(wanted->path, &reading, &w->session));
    w->checkpoint = index;
    return GRAIL_OK;
}

static void measure_cell(worker *w, sweep_outcome *outcome)
{
    sweep *s = w->sweep;
    const sweep_cell *cell = outcome->cell;
    sweep_context context = {
        .recipe = &s->recipe,
        .data = &s->data[cell->checkpoint],
        .checkpoint = cell->checkpoint,
        .memory = s->budget / s->options->jobs,
        .should_stop = should_stop,
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
    measure_cell(w, &outcome);
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

static grail_status run_workers(sweep *s)
{
    const grail_status status = start_workers(s);
    if (status != GRAIL_OK) {
        pthread_mutex_lock(&s->mutex);
        stop(s, status, grail_error_message());
        pthread_mutex_unlock(&s->mutex);
    }
    for (int j = 0; j < s->worker_count; j++) {
        if (s->workers[j].started) {
            pthread_join(s->workers[j].thread, NULL);
        }
    }
    return s->status == GRAIL_OK ? GRAIL_OK : error_set(s->status, "%s", s->message);
}

/* -- ranks --------------------------------------------------------------------------------------
 */

/* Writes the line of a cell, or of a dense network where `cell` is NULL. */
static grail_status write_text(sweep *s, const sweep_cell *cell, const buffer *text)
{
    grail_status status = GRAIL_OK;
    int64_t version = 0;
    json_t *document = NULL;
    sweep_outcome outcome = {.cell = cell};
    CHECK(sweep_results_append_text(&s->results, text));
    if (cell == NULL) {
        return GRAIL_OK;
    }
    TRY(line_parse_text("the line of a rank", (const char *)text->bytes, text->size - 1, &version,
                        &document));
    TRY(line_read("the line of a rank", document, &outcome.line));
    if (outcome.line.kind == LINE_FAILURE) {
        snprintf(outcome.error, sizeof outcome.error, "%s", outcome.line.error);
    }
    count_cell(s, &outcome, &outcome.line);
out:
    sweep_outcome_fini(&outcome);
    json_decref(document);
    return status;
}

/* Rank 0 writes what all have measured: lines of the cells chosen[ranks], or where that is NULL of
 * dense networks. A rank that was cancelled has none, and ends all. */
static grail_status write_round(sweep *s, const int64_t *chosen, const buffer *own)
{
    grail_status status = GRAIL_OK;
    const grail_comm *comm = s->options->comm;
    buffer *lines = NULL;
    TRY(memory_new(&lines, (size_t)comm_size(comm), sizeof lines[0]));
    for (int rank = 0; rank < comm_size(comm); rank++) {
        buffer_init(&lines[rank], LONGEST_LINE);
    }
    TRY(rank_lines_gather(comm, own, lines));
    for (int rank = 0; rank < comm_size(comm); rank++) {
        if (lines[rank].size > 0) {
            TRY(write_text(s, chosen == NULL ? NULL : &s->cells[chosen[rank]], &lines[rank]));
        }
    }
    status = s->status == GRAIL_OK ? GRAIL_OK : error_set(s->status, "%s", s->message);
    TRY(comm_settle(comm, status));
out:
    for (int rank = 0; lines != NULL && rank < comm_size(comm); rank++) {
        buffer_fini(&lines[rank]);
    }
    memory_free(lines);
    return status;
}

/* This rank's cell of a round. */
static grail_status measure_own(sweep *s, int64_t index, buffer *text)
{
    grail_status status = GRAIL_OK;
    sweep_outcome outcome = {.cell = &s->cells[index]};
    grail_memory_peak_begin();
    measure_cell(&s->workers[comm_rank(s->options->comm)], &outcome);
    if (outcome.status != GRAIL_ERROR_CANCELLED) {
        const result_line line = sweep_outcome_line(&outcome);
        TRY(sweep_results_text(&line, text));
    }
out:
    sweep_outcome_fini(&outcome);
    return status;
}

/* A cell for each rank, -1 for those that find none; whether there is any. All ranks choose alike.
 */
static bool choose_round(sweep *s, int64_t *chosen)
{
    bool waiting = false;
    bool any = false;
    for (int rank = 0; rank < s->worker_count; rank++) {
        chosen[rank] = choose_cell(&s->workers[rank], &waiting);
        if (chosen[rank] >= 0) {
            s->state[chosen[rank]] = CELL_DONE; /* when the round is */
            s->workers[rank].last = chosen[rank];
            any = true;
        }
    }
    return any;
}

static grail_status run_rounds(sweep *s)
{
    grail_status status = GRAIL_OK;
    int64_t *chosen = NULL;
    buffer own = {0};
    const int rank = comm_rank(s->options->comm);
    buffer_init(&own, LONGEST_LINE);
    TRY(memory_new(&chosen, (size_t)s->worker_count, sizeof chosen[0]));
    for (int i = 0; i < s->worker_count; i++) {
        s->workers[i] = (worker){.sweep = s, .last = -1};
    }
    while (choose_round(s, chosen)) {
        own.size = 0;
        TRY(chosen[rank] < 0 ? GRAIL_OK : measure_own(s, chosen[rank], &own));
        TRY(write_round(s, chosen, &own));
    }
out:
    grail_session_close(s->workers[rank].session);
    buffer_fini(&own);
    memory_free(chosen);
    return status;
}

/* -- before the first cell ----------------------------------------------------------------------
 */

static grail_status check_options(const grail_sweep_options *o)
{
    CHECK(comm_check(o->comm));
    CHECK(option_given("recipe", "recipe", o->recipe));
    CHECK(option_given("results", "results file",
                       o->results == NULL || o->results[0] == 0 ? NULL : o->results));
    return options_check(fields, o);
}

/* Whether a list of names, separated by commas, holds this one. */
static bool holds_name(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',' ? 1 : 0;
        if (strcspn(at, ",") == length && strncmp(at, name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Every name that was asked for is one of the recipe's. */
static grail_status check_names(const sweep *s)
{
    size_t asked = 1;
    size_t known = 0;
    for (const char *at = s->options->checkpoints; at != NULL && *at != 0; at++) {
        asked += *at == ',' ? 1 : 0;
    }
    for (int i = 0; s->options->checkpoints != NULL && i < s->recipe.checkpoints.count; i++) {
        known += holds_name(s->options->checkpoints, s->recipe.checkpoints.list[i].name) ? 1 : 0;
    }
    if (s->options->checkpoints == NULL || known == asked) {
        return GRAIL_OK;
    }
    const grail_status status =
        error_set(GRAIL_ERROR_ARGUMENT,
                  "\"%s\" names a checkpoint that the recipe does not have, or one twice; "
                  "it has",
                  s->options->checkpoints);
    for (int i = 0; i < s->recipe.checkpoints.count; i++) {
        error_append("%s %s", i == 0 ? "" : ",", s->recipe.checkpoints.list[i].name);
    }
    return error_about(status, "checkpoints");
}

static grail_status open_checkpoints(sweep *s)
{
    CHECK(memory_new(&s->data, (size_t)s->recipe.checkpoints.count, sizeof s->data[0]));
    CHECK(
        memory_new(&s->dense_found, (size_t)s->recipe.checkpoints.count, sizeof s->dense_found[0]));
    CHECK(check_names(s));
    for (int i = 0; i < s->recipe.checkpoints.count; i++) {
        const char *name = s->recipe.checkpoints.list[i].name;
        if (s->options->checkpoints == NULL || holds_name(s->options->checkpoints, name)) {
            CHECK(error_in(sweep_checkpoint_open(&s->recipe, i, &s->data[i]), "checkpoint \"%s\"",
                           name));
        }
    }
    return GRAIL_OK;
}

static void tell_notice(const sweep *s, int index, const char *notice)
{
    if (notice != NULL) {
        s->options->on_notice(s->options->observer_user, s->recipe.checkpoints.list[index].path,
                              notice);
    }
}

/* Whether some images for this checkpoint are prepared as it says, or is assumed. */
static bool prepares_images(const sweep_recipe *recipe, int checkpoint)
{
    const sweep_data_list *const all[] = {&recipe->calibration, &recipe->evaluation};
    bool found = false;
    for (int l = 0; l < 2; l++) {
        for (int i = 0; i < all[l]->count; i++) {
            const sweep_data *d = &all[l]->list[i];
            found = found || (d->kind == DATA_IMAGES && d->images.preset == NULL &&
                              sweep_data_serves(d, &recipe->checkpoints, checkpoint));
        }
    }
    return found;
}

/* What had to be assumed of the checkpoints. */
static grail_status tell_notices(const sweep *s)
{
    for (int i = 0; s->options->on_notice != NULL && i < s->recipe.checkpoints.count; i++) {
        grail_model_facts facts = {0};
        grail_preprocessing images = {0};
        if (s->data[i].model == NULL) {
            continue;
        }
        CHECK(grail_model_describe(s->data[i].model, &facts));
        tell_notice(s, i, facts.activation_notice);
        if (facts.reads_images != 0 && prepares_images(&s->recipe, i)) {
            CHECK(grail_model_preprocessing(s->data[i].model, &images));
            tell_notice(s, i, images.notice);
        }
    }
    return GRAIL_OK;
}

/* Cells that run beside one another would slow each other's networks down. */
static grail_status check_jobs(sweep *s)
{
    const int jobs = s->options->jobs;
    const int ranks = comm_size(s->options->comm);
    if (s->recipe.latency != NULL && (jobs > 1 || ranks > 1)) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "%s: latency is measured with one job alone, and %d were "
                                     "asked for; leave out the option, or \"latency\"",
                                     s->options->recipe, jobs * ranks),
                           "jobs");
    }
    if (jobs > 1 && ranks > 1) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "each of %d ranks runs one cell at a time, and %d jobs were "
                                     "asked for; start more ranks instead",
                                     ranks, jobs),
                           "jobs");
    }
    s->worker_count = jobs * ranks;
    return memory_new(&s->workers, (size_t)s->worker_count, sizeof s->workers[0]);
}

static grail_status list_cells(sweep *s)
{
    CHECK(check_jobs(s));
    CHECK(sweep_cells(&s->recipe, &s->cells, &s->count));
    CHECK(memory_new(&s->found, (size_t)s->count, sizeof s->found[0]));
    CHECK(memory_new(&s->bytes, (size_t)s->count, sizeof s->bytes[0]));
    CHECK(memory_new(&s->state, (size_t)s->count, sizeof s->state[0]));
    for (int64_t i = 0; i < s->count; i++) {
        const sweep_cell *cell = &s->cells[i];
        const sweep_checkpoint_data *data = &s->data[cell->checkpoint];
        if (!is_asked_for(s, i)) {
            continue;
        }
        CHECK(error_in(sweep_cell_check(&s->recipe, data, cell), "%s", s->options->recipe));
        CHECK(sweep_cell_bytes(&s->recipe, data->model, cell, &s->bytes[i]));
    }
    return GRAIL_OK;
}

/* A given budget is a limit. The default, half of the available memory, is only a guess, which a
 * cell that runs alone may exceed. */
static grail_status set_budget(sweep *s)
{
    int64_t largest = 0;
    for (int64_t i = 0; i < s->count; i++) {
        largest = s->bytes[i] > largest ? s->bytes[i] : largest;
    }
    s->budget = s->options->memory;
    if (s->budget <= 0) {
        s->budget = machine_memory_read("").available / 2; /* unknown: one cell after another */
        return GRAIL_OK;
    }
    if (largest > s->budget) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "the largest cell needs an estimated %lld bytes, but only %lld are "
                         "allowed; raise the memory limit or shorten the recipe",
                         (long long)largest, (long long)s->budget);
    }
    return GRAIL_OK;
}

static grail_status open_results(sweep *s)
{
    grail_machine machine = {0};
    CHECK(grail_machine_examine(0.0, &machine));
    const sweep_origin origin = {
        .cpu = machine.cpu, .version = grail_version(), .threads = grail_threads()};
    if (comm_rank(s->options->comm) > 0) {
        return GRAIL_OK;
    }
    if (s->options->dry_run) {
        CHECK(sweep_results_look(s->options->results, &s->recipe, s->cells, s->count,
                                 s->dense_found, s->found));
    } else {
        CHECK(sweep_results_open(s->options->results, &s->recipe, &origin, s->cells, s->count,
                                 s->dense_found, s->found, &s->results));
    }
    return GRAIL_OK;
}

/* What the results file has, which rank 0 alone sees. */
static grail_status share_found(sweep *s)
{
    const grail_comm *comm = s->options->comm;
    const size_t checkpoints = (size_t)s->recipe.checkpoints.count;
    CHECK(comm_broadcast(comm, 0, s->dense_found, checkpoints * sizeof s->dense_found[0]));
    CHECK(comm_broadcast(comm, 0, s->found, (size_t)s->count * sizeof s->found[0]));
    for (int64_t i = 0; i < s->count; i++) {
        s->state[i] = s->found[i] || !is_asked_for(s, i) ? CELL_DONE : CELL_PENDING;
    }
    return GRAIL_OK;
}

/* What would give other cells, or other results of them. */
static grail_status describe(const sweep *s, buffer *out)
{
    const int numbers[] = {grail_threads(), s->options->dry_run};
    CHECK(buffer_append(out, numbers, sizeof numbers));
    CHECK(json_append_line(s->recipe.document, out));
    CHECK(buffer_append_string(out, s->recipe.precision));
    for (int i = 0; i < s->recipe.checkpoints.count; i++) {
        char digest[65] = "";
        if (s->data[i].model != NULL) {
            grail_model_digest(s->data[i].model, digest);
        }
        CHECK(buffer_append(out, digest, sizeof digest));
    }
    return GRAIL_OK;
}

static grail_status agree(const sweep *s)
{
    grail_status status = GRAIL_OK;
    buffer all = {0};
    if (!comm_is_shared(s->options->comm)) {
        return GRAIL_OK;
    }
    buffer_init(&all, LONGEST_LINE);
    TRY(describe(s, &all));
    TRY(comm_agree(s->options->comm, "recipe, checkpoints, precision or number of threads",
                   "give all ranks the same command and files", all.bytes, all.size));
out:
    buffer_fini(&all);
    return status;
}

static grail_status evaluate_checkpoint(sweep *s, int index, buffer *text)
{
    grail_status status = GRAIL_OK;
    sweep_outcome outcome = {0};
    const sweep_context context = {.recipe = &s->recipe,
                                   .data = &s->data[index],
                                   .checkpoint = index,
                                   .should_stop = should_stop,
                                   .user = s};
    TRY(error_in(sweep_dense_measure(&context, &outcome), "checkpoint \"%s\"",
                 s->recipe.checkpoints.list[index].name));
    TRY(sweep_results_text(&outcome.line, text));
out:
    sweep_outcome_fini(&outcome);
    return status;
}

/* Each rank takes one of those that the results lack, in turn. */
static grail_status evaluate_dense(sweep *s)
{
    grail_status status = GRAIL_OK;
    buffer own = {0};
    int turn = 0;
    const int size = comm_size(s->options->comm);
    buffer_init(&own, LONGEST_LINE);
    for (int i = 0; i < s->recipe.checkpoints.count; i++) {
        if (s->dense_found[i] || s->data[i].model == NULL) {
            continue;
        }
        if (turn % size == comm_rank(s->options->comm)) {
            TRY(evaluate_checkpoint(s, i, &own));
        }
        if (++turn % size == 0) {
            TRY(write_round(s, NULL, &own));
            own.size = 0;
        }
    }
    if (turn % size > 0) {
        TRY(write_round(s, NULL, &own));
    }
out:
    buffer_fini(&own);
    return status;
}

static void fill_summary(const sweep *s, grail_sweep_summary *out)
{
    *out = (grail_sweep_summary){
        .cells = s->state == NULL ? 0 : count_cells(s, false),
        .found = s->state == NULL ? 0 : count_cells(s, true),
        .done = s->done,
        .failed = s->failed,
        .seconds = clock_seconds() - s->begun,
    };
    for (int64_t i = 0; i < s->count; i++) {
        out->bytes = s->bytes[i] > out->bytes ? s->bytes[i] : out->bytes;
    }
}

static void sweep_fini(sweep *s)
{
    for (int i = 0; s->data != NULL && i < s->recipe.checkpoints.count; i++) {
        sweep_checkpoint_close(&s->data[i]);
    }
    memory_free(s->data);
    memory_free(s->dense_found);
    memory_free(s->cells);
    memory_free(s->found);
    memory_free(s->bytes);
    memory_free(s->state);
    memory_free(s->workers);
    sweep_results_close(&s->results);
    sweep_recipe_fini(&s->recipe);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
}

/* What this rank can check by itself. */
static grail_status prepare(sweep *s)
{
    CHECK(sweep_recipe_read(s->options->recipe, s->options->precision, &s->recipe));
    CHECK(open_checkpoints(s));
    CHECK(list_cells(s));
    return set_budget(s);
}

static grail_status run(sweep *s)
{
    const grail_comm *comm = s->options->comm;
    CHECK(comm_settle(comm, prepare(s)));
    CHECK(agree(s));
    CHECK(comm_settle(comm, open_results(s)));
    CHECK(share_found(s));
    if (s->options->dry_run) {
        return GRAIL_OK;
    }
    CHECK(tell_notices(s));
    CHECK(evaluate_dense(s));
    return comm_is_shared(comm) ? run_rounds(s) : run_workers(s);
}

grail_status grail_sweep_run(const grail_sweep_options *options, grail_sweep_summary *summary)
{
    sweep s = {.options = options, .begun = clock_seconds()};
    CHECK(check_options(options));
    pthread_mutex_init(&s.mutex, NULL);
    pthread_cond_init(&s.changed, NULL);
    const grail_status status = comm_end(options->comm, run(&s));
    if (summary != NULL) {
        fill_summary(&s, summary);
    }
    sweep_fini(&s);
    return status;
}
