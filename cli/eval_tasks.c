#include "eval_tasks.h"

#include "options.h"
#include "print.h"

#include <math.h>

static int show_choices(void *user, const grail_eval_progress *p)
{
    const bool *quiet = user;
    if (!*quiet) {
        print_progress((double)p->done / (double)p->total, "%lld/%lld choices measured",
                       (long long)p->done, (long long)p->total);
        if (p->done == p->total) {
            print_progress_end();
        }
    }
    return 0;
}

static void print_share(const char *name, double share, double error)
{
    if (isnan(share)) {
        return;
    }
    print_out("  %s %.4f", name, share);
    if (!isnan(error)) {
        print_out(" +- %.4f", error);
    }
}

static void print_scores(const char *path, const grail_task_options *options,
                         const grail_task_scores *scores)
{
    for (int i = 0; i < scores->count; i++) {
        const grail_task_score *task = &scores->tasks[i];
        print_out("%-14s", task->name);
        print_share("acc", task->accuracy, task->accuracy_error);
        print_share("acc_norm", task->accuracy_norm, task->accuracy_norm_error);
        print_out("  (%lld documents", (long long)task->documents);
        if (task->shortened > 0) {
            print_out(", %lld of %lld contexts shortened", (long long)task->shortened,
                      (long long)task->choices);
        }
        print_out(")\n");
    }
    print_out("  model      %s (%s weights, computed in %s)\n", path, scores->dtype,
              scores->precision);
    print_out("  data       %s\n", options->directory);
    print_out("  sha256     tokenizer %.16s...\n", scores->tokenizer_sha256);
}

static json_t *json_of_score(const grail_task_score *task)
{
    return json_pack("{s:o, s:I, s:I, s:I, s:f, s:o, s:o, s:o, s:o}", "task", json_text(task->name),
                     "documents", (json_int_t)task->documents, "choices", (json_int_t)task->choices,
                     "shortened", (json_int_t)task->shortened, "acc", task->accuracy, "acc_stderr",
                     json_number_or_null(task->accuracy_error), "acc_norm",
                     json_number_or_null(task->accuracy_norm), "acc_norm_stderr",
                     json_number_or_null(task->accuracy_norm_error), "data_sha256",
                     json_text(task->data_sha256));
}

static int print_scores_json(const char *path, const grail_compute *compute,
                             const grail_task_scores *scores)
{
    json_t *tasks = json_array();
    for (int i = 0; i < scores->count; i++) {
        if (json_array_append_new(tasks, json_of_score(&scores->tasks[i])) != 0) {
            json_decref(tasks);
            tasks = NULL; /* which json_pack refuses */
            break;
        }
    }
    return print_json(json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "model", json_text(path), "dtype",
                                json_text(scores->dtype), "backend", json_text(compute->backend),
                                "precision", json_text(scores->precision), "tokenizer_sha256",
                                json_text(scores->tokenizer_sha256), "tasks", tasks));
}

int evaluate_tasks(const char *path, const grail_model *model, const grail_task_options *options,
                   const grail_compute *compute, bool quiet, bool as_json)
{
    static grail_task_scores scores;
    const grail_status status =
        grail_tasks_measure(model, options, compute, show_choices, &quiet, &scores);
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    if (as_json) {
        return print_scores_json(path, compute, &scores);
    }
    print_scores(path, options, &scores);
    return EXIT_OK;
}
