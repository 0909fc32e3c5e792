/* Running a sweep: everything is checked first, the dense checkpoints are evaluated, then cells run
 * in threads (workers.c) or on ranks (rounds.c). */
#include "study/sweep/sweep_state.h"

#include "base/clock.h"
#include "base/machine_memory.h"
#include "base/name_list.h"
#include "base/option_values.h"
#include "base/options.h"
#include "comm/comm.h"

#include <grail/machine.h>

#include <string.h>

enum { MOST_JOBS = 256 };

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

static grail_status check_options(const grail_sweep_options *o)
{
    CHECK(comm_check(o->comm));
    CHECK(option_given("recipe", "recipe", o->recipe));
    CHECK(option_given("results", "results file",
                       o->results == NULL || o->results[0] == 0 ? NULL : o->results));
    CHECK(name_check_ending(o->results, "a file of results, in JSON lines,", ".jsonl"));
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

/* Which checkpoints were asked for, and room for what is known of each. */
static grail_status read_recipe(sweep *s)
{
    CHECK(sweep_recipe_read(s->options->recipe, s->options->precision, &s->recipe));
    const size_t count = (size_t)s->recipe.checkpoints.count;
    CHECK(memory_new(&s->data, count, sizeof s->data[0]));
    CHECK(memory_new(&s->wanted, count, sizeof s->wanted[0]));
    CHECK(memory_new(&s->dense_found, count, sizeof s->dense_found[0]));
    CHECK(check_names(s));
    for (size_t i = 0; i < count; i++) {
        const char *name = s->recipe.checkpoints.list[i].name;
        s->wanted[i] = s->options->checkpoints == NULL || holds_name(s->options->checkpoints, name);
    }
    return GRAIL_OK;
}

static grail_status open_checkpoints(sweep *s)
{
    for (int i = 0; i < s->recipe.checkpoints.count; i++) {
        if (s->wanted[i]) {
            CHECK(error_in(sweep_checkpoint_open(&s->recipe, i, &s->data[i]), "checkpoint \"%s\"",
                           s->recipe.checkpoints.list[i].name));
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
        for (int n = 0; n < facts.notice_count; n++) {
            tell_notice(s, i, facts.notices[n]);
        }
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
    if (s->recipe.latency != NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"latency\": grail-sweep of the Python package measures it (pip "
                         "install grail-compress); leave it out here",
                         s->options->recipe);
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
        if (!sweep_is_asked_for(s, i)) {
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
        s->state[i] = s->found[i] || !sweep_is_asked_for(s, i) ? CELL_DONE : CELL_PENDING;
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
            CHECK(grail_model_digest(s->data[i].model, digest));
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
                                   .should_stop = sweep_should_stop,
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
            TRY(sweep_write_round(s, NULL, &own));
            own.size = 0;
        }
    }
    if (turn % size > 0) {
        TRY(sweep_write_round(s, NULL, &own));
    }
out:
    buffer_fini(&own);
    return status;
}

static void fill_summary(const sweep *s, grail_sweep_summary *out)
{
    *out = (grail_sweep_summary){
        .cells = s->state == NULL ? 0 : sweep_count_cells(s, false),
        .found = s->state == NULL ? 0 : sweep_count_cells(s, true),
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
    memory_free(s->wanted);
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
    CHECK(open_checkpoints(s));
    CHECK(list_cells(s));
    return set_budget(s);
}

static grail_status run(sweep *s)
{
    const grail_comm *comm = s->options->comm;
    CHECK(comm_settle(comm, read_recipe(s)));
    CHECK(comm_settle(comm, prepare(s)));
    CHECK(agree(s));
    CHECK(comm_settle(comm, open_results(s)));
    CHECK(share_found(s));
    if (s->options->dry_run) {
        return GRAIL_OK;
    }
    CHECK(tell_notices(s));
    CHECK(evaluate_dense(s));
    return comm_is_shared(comm) ? sweep_run_rounds(s) : sweep_run_workers(s);
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
