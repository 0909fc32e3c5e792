/* Multiple-choice tasks as lm-evaluation-harness scores them. Source: docs/numerics.md, Zero-shot
 * tasks. */
#include "arch/model_text.h"
#include "base/file.h"
#include "base/options.h"
#include "base/output_file.h"
#include "eval/agreement.h"
#include "eval/choice_scores.h"
#include "eval/observer.h"
#include "eval/task_lines.h"
#include "eval/task_score.h"
#include "exec/compute.h"
#include "format/text/task_file.h"
#include "format/text/task_forms.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
#define FIELD(member) OPTION_FIELD(grail_task_options, member), .subject = GRAIL_SUBJECT_READ
static const grail_option fields[] = {
    {FIELD(tasks), .type = GRAIL_OPTION_TEXT, .words = task_names, .name = "tasks", .argument = "NAMES",
     .help = "measure zero-shot tasks, separated by commas: arc_easy, arc_challenge, hellaswag, "
             "piqa, boolq, winogrande, openbookqa, or a .jsonl file of multiple choices", .never_with = "data"},
    {FIELD(directory), .type = GRAIL_OPTION_TEXT, .name = "task-data", .argument = "DIR",
     .help = "directory with the files of the tasks, such as arc_easy.jsonl", .only_with = "tasks"},
    {FIELD(limit), .type = GRAIL_OPTION_INTEGER, .what = "the number of documents", .zero_is_usual = 1,
     .name = "limit", .argument = "N", .help = "measure only the first N documents of each task (all)",
     .only_with = "tasks"},
    {FIELD(per_document), .type = GRAIL_OPTION_TEXT, .name = "per-document", .argument = "FILE",
     .help = "write the log-likelihoods of every document as JSON lines", .only_with = "tasks"},
    {0},
};
/* clang-format on */

const grail_option *grail_task_option_at(int i)
{
    return option_at(fields, i);
}

/* A run over all tasks. */
typedef struct task_run {
    const grail_model *model;
    const grail_comm *comm; /* ranks, or NULL */
    task_documents documents[GRAIL_MOST_TASKS];
    choice_rows rows[GRAIL_MOST_TASKS];
    int count;
    int64_t done, total; /* rows */
    grail_eval_observer observer;
    void *user;
    backend *backend;
    parameter_store *store;
    buffer lines;     /* of the documents */
    output_file file; /* that they go to, where one was asked for */
} task_run;

static void run_fini(task_run *r)
{
    for (int i = 0; i < r->count; i++) {
        task_documents_fini(&r->documents[i]);
        choice_rows_fini(&r->rows[i]);
    }
    buffer_fini(&r->lines);
    output_file_fini(&r->file);
    parameter_store_free(r->store);
    backend_close(r->backend);
}

/* -- what is asked ----------------------------------------------------------------------------- */

static grail_status check_request(const grail_model *model, const grail_task_options *options)
{
    CHECK(options_check(fields, options));
    if (model->graph->input_kind != INPUT_TOKENS) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "the model reads images; zero-shot tasks are for models that "
                                     "read text"),
                           "tasks");
    }
    CHECK(model_check_next_token(model, "zero-shot tasks need"));
    if (options->tasks == NULL || options->tasks[0] == 0) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT, "no tasks were given"), "tasks");
    }
    if (options->directory == NULL) {
        return error_about(
            error_set(GRAIL_ERROR_ARGUMENT, "no directory with the files of the tasks was given"),
            "directory");
    }
    return GRAIL_OK;
}

static grail_status check_new(const task_run *r, const char *name)
{
    for (int i = 0; i < r->count; i++) {
        if (strcmp(r->documents[i].name, name) == 0) {
            return error_about(error_set(GRAIL_ERROR_ARGUMENT, "task '%s' is given twice", name),
                               "tasks");
        }
    }
    if (r->count == GRAIL_MOST_TASKS) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT, "more than %d tasks", GRAIL_MOST_TASKS),
                           "tasks");
    }
    return GRAIL_OK;
}

static grail_status read_task(task_run *r, const grail_task_options *options, const char *name)
{
    CHECK(check_new(r, name));
    CHECK(task_documents_read(options->directory, name, options->limit, &r->documents[r->count]));
    r->count++;
    return GRAIL_OK;
}

/* All names are checked before the first file is read. */
static grail_status read_tasks(task_run *r, const grail_task_options *options)
{
    grail_status status = GRAIL_OK;
    char *names = NULL;
    for (int pass = 0; pass < 2; pass++) {
        memory_free(names);
        names = NULL;
        TRY(memory_copy_string(&names, options->tasks));
        char *rest = names;
        for (char *name = strsep(&rest, ","); name != NULL; name = strsep(&rest, ",")) {
            TRY(pass == 0 ? task_check_name(name) : read_task(r, options, name));
        }
    }
out:
    memory_free(names);
    return status;
}

static grail_status encode_tasks(task_run *r, char hash[65])
{
    grail_status status = GRAIL_OK;
    tokenizer *t = NULL;
    TRY(model_tokenizer_open(r->model, &t));
    for (int i = 0; i < r->count; i++) {
        TRY(choice_rows_make(r->model, t, &r->documents[i], &r->rows[i]));
        r->total += r->rows[i].count;
    }
    snprintf(hash, 65, "%s", tokenizer_hash(t));
out:
    tokenizer_close(t);
    return status;
}

/* -- measuring --------------------------------------------------------------------------------- */

static grail_status observe(void *user, int64_t done)
{
    const task_run *r = user;
    const grail_eval_progress now = {.done = r->done + done,
                                     .total = r->total,
                                     .passed = (double)(r->done + done),
                                     .so_far = (double)NAN};
    return observer_tell(r->observer, r->user, &now, "choices");
}

static grail_status measure_task(task_run *r, int i, parameter_store *store, grail_task_score *out)
{
    grail_status status = GRAIL_OK;
    double *log_likelihoods = NULL;
    TRY(memory_new(&log_likelihoods, (size_t)r->rows[i].count, sizeof log_likelihoods[0]));
    TRY(choice_scores(store, &r->rows[i], r->comm, observe, r, log_likelihoods));
    r->done += r->rows[i].count;
    if (r->file.temporary != NULL) {
        TRY(task_lines_append(&r->documents[i], log_likelihoods, &r->lines));
    }
    task_score_fill(&r->documents[i], &r->rows[i], log_likelihoods, out);
out:
    memory_free(log_likelihoods);
    return status;
}

static grail_status measure_tasks(task_run *r, parameter_store *store, grail_task_scores *out)
{
    const backend *b = store->backend;
    for (int i = 0; i < r->count; i++) {
        CHECK(measure_task(r, i, store, &out->tasks[i]));
    }
    out->count = r->count;
    snprintf(out->dtype, sizeof out->dtype, "%s", grail_dtype_name(r->model->tensors[0]->dtype));
    snprintf(out->precision, sizeof out->precision, "%s", backend_precision(b));
    return GRAIL_OK;
}

static grail_status write_lines(task_run *r)
{
    if (r->file.temporary == NULL) {
        return GRAIL_OK;
    }
    CHECK(file_write_at(r->file.descriptor, r->file.path, r->lines.bytes, r->lines.size, 0));
    return output_file_commit(&r->file);
}

/* What this rank can do by itself; the first one writes the file. */
static grail_status begin(task_run *r, const grail_task_options *options,
                          const grail_compute *compute, char hash[65])
{
    grail_compute alone = compute == NULL ? (grail_compute){0} : *compute;
    alone.comm = NULL; /* what it opens is this rank's own */
    CHECK(check_request(r->model, options));
    CHECK(read_tasks(r, options));
    CHECK(encode_tasks(r, hash));
    CHECK(compute_open(&alone, r->model, &r->backend));
    CHECK(parameter_store_create(r->model, r->backend, NULL, &r->store));
    return options->per_document != NULL && comm_rank(r->comm) == 0
               ? output_file_open(options->per_document, true, &r->file)
               : GRAIL_OK;
}

/* The documents, and how they were encoded. */
static grail_status describe(const task_run *r, const char *hash, buffer *out)
{
    CHECK(buffer_append_string(out, hash));
    for (int i = 0; i < r->count; i++) {
        CHECK(buffer_format(out, " %s %s %lld", r->documents[i].name, r->documents[i].hash,
                            (long long)r->rows[i].count));
    }
    return GRAIL_OK;
}

static grail_status agree(const task_run *r, const char *hash)
{
    grail_status status = GRAIL_OK;
    buffer all = {0};
    buffer_init(&all, SIZE_MAX / 4);
    TRY(comm_settle(r->comm, describe(r, hash, &all)));
    TRY(agreement_check(r->comm, r->model, r->backend, "tasks", all.bytes, all.size));
out:
    buffer_fini(&all);
    return status;
}

static grail_status run(task_run *r, const grail_task_options *options,
                        const grail_compute *compute, grail_task_scores *scores)
{
    CHECK(comm_settle(r->comm, begin(r, options, compute, scores->tokenizer_sha256)));
    CHECK(agree(r, scores->tokenizer_sha256));
    CHECK(measure_tasks(r, r->store, scores));
    return write_lines(r);
}

grail_status grail_tasks_measure(const grail_model *model, const grail_task_options *options,
                                 const grail_compute *compute, grail_eval_observer observer,
                                 void *user, grail_task_scores *out)
{
    grail_status status = GRAIL_OK;
    task_run *r = NULL;
    grail_task_scores *scores = NULL;
    const grail_comm *comm = compute == NULL ? NULL : compute->comm;
    CHECK(comm_check(comm));
    TRY(memory_new(&r, 1, sizeof *r));
    TRY(memory_new(&scores, 1, sizeof *scores));
    *r = (task_run){.model = model,
                    .comm = comm,
                    .observer = observer,
                    .user = user,
                    .file = {.descriptor = -1}};
    buffer_init(&r->lines, SIZE_MAX / 2);
    TRY(run(r, options, compute, scores));
out:
    status = comm_end(comm, status);
    if (status == GRAIL_OK) {
        *out = *scores;
    }
    if (r != NULL) {
        run_fini(r);
    }
    memory_free(r);
    memory_free(scores);
    return status;
}
