/* grail sweep: narrows and evaluates checkpoints at all settings of a recipe. */
#include "command_line.h"
#include "commands.h"
#include "interrupt.h"
#include "notices.h"
#include "print.h"
#include "ranks.h"
#include "shared_options.h"

#include <grail-study/sweep.h>
#include <grail/grail.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static grail_sweep_options o;
static int64_t jobs = 1, threads;
static rank_options ranks;
static bool dry_run, quiet, as_json;

static const option table[] = {
    {GROUP_OUTPUT, "output", OPTION_TEXT, &o.results, "FILE", NULL,
     .help =
         "file of results, as JSON lines; if it holds results of this recipe already, the sweep "
         "continues; short form: -o",
     .need = REQUIRED},
    {GROUP_MACHINE, "jobs", OPTION_THREADS, &jobs, "N", NULL,
     .help = "number of cells that run at the same time and share the threads, 1 to 1024 (1)"},
    {GROUP_MACHINE, "memory", OPTION_SIZE, &o.memory, "BYTES", NULL,
     .help = "memory for all running cells together, such as 2G (half of the available memory)"},
    {GROUP_MACHINE, "threads", OPTION_THREADS, &threads, "N", NULL,
     .help = "number of threads of all jobs together, at most 1024 (all cores)"},
    {GROUP_MACHINE, "precision", OPTION_TEXT, &o.precision, "NAME",
     WORDS("auto", "f32", "bf16", "bf16-gram"),
     .help = "precision of products: f32, bf16 (with f32 sums), bf16-gram (Gram matrices, too), or "
             "auto: bf16 for large networks stored in 16 bits where it is faster, else f32 (the "
             "recipe's, or f32)"},
    RANK_OPTIONS(ranks),
    {GROUP_OUTPUT, "checkpoints", OPTION_TEXT, &o.checkpoints, "NAMES", NULL,
     .help = "run only the cells of these checkpoints of the recipe, separated by commas (all)"},
    {GROUP_OUTPUT, "dry-run", OPTION_FLAG, &dry_run, NULL, NULL,
     .help = "check the recipe and its files, and count the cells; write nothing"},
    QUIET_OPTION(quiet),
    JSON_OPTION(as_json),
    {0},
};
const option *const sweep_options = table;

/* "; about 2 min 03 s left", or "" before the first cell is done. */
static const char *time_left(double seconds, char text[2 * HUMAN_SIZE])
{
    char time[HUMAN_SIZE];
    text[0] = 0;
    if (!isnan(seconds)) {
        snprintf(text, 2 * HUMAN_SIZE, "; about %s left", human_seconds(seconds, time));
    }
    return text;
}

static void print_cell(const grail_sweep_progress *p)
{
    char left[2 * HUMAN_SIZE];
    print_error("%lld/%lld %s: ", (long long)(p->found + p->done), (long long)p->cells, p->cell);
    if (p->error != NULL) {
        print_error("failed: %s", p->error);
    } else {
        print_error("%s", p->result);
    }
    if (p->found + p->done < p->cells) {
        print_error("%s", time_left(p->seconds_left, left));
    }
    print_error("\n");
}

static int show_progress(void *user, const grail_sweep_progress *p)
{
    char left[2 * HUMAN_SIZE];
    (void)user;
    const int64_t ended = p->found + p->done;
    if (!quiet && p->cell != NULL) {
        print_cell(p);
    } else if (!quiet && ended < p->cells) {
        print_progress((double)NAN, "%lld of %lld cells are done%s", (long long)ended,
                       (long long)p->cells, time_left(p->seconds_left, left));
    }
    return interrupt_came();
}

static void show_notice(void *user, const char *checkpoint, const char *notice)
{
    (void)user;
    print_notice(checkpoint, notice, NULL);
}

static int print_summary_json(const grail_sweep_summary *s)
{
    return print_json(json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:I, s:f}", "results", json_text(o.results), "cells",
        (json_int_t)s->cells, "found", (json_int_t)s->found, "done", (json_int_t)s->done, "failed",
        (json_int_t)s->failed, "estimated_bytes", (json_int_t)s->bytes, "seconds", s->seconds));
}

static int print_summary(const grail_sweep_summary *s)
{
    char text[HUMAN_SIZE];
    print_out("%lld cells: %lld done before, ", (long long)s->cells, (long long)s->found);
    if (dry_run) {
        print_out("%lld to run; the largest needs about %s of memory\n",
                  (long long)(s->cells - s->found), human_bytes((double)s->bytes, text));
        return EXIT_OK;
    }
    print_out("%lld run now in %s", (long long)s->done, human_seconds(s->seconds, text));
    if (s->failed > 0) {
        print_out(", %lld of them failed", (long long)s->failed);
    }
    print_out("\nresults: %s\n", o.results);
    return EXIT_OK;
}

static int sweep(void)
{
    grail_sweep_summary summary = {0};
    if (!dry_run) {
        interrupt_catch();
    }
    const grail_status status = grail_sweep_run(&o, &summary);
    print_progress_end();
    if (status == GRAIL_ERROR_CANCELLED) { /* main ends the program by the signal */
        char *line = command_line_text(NULL);
        print_error("grail: interrupted; %lld of %lld cells are in '%s'; continue the sweep with:\n"
                    "  %s\n",
                    (long long)(summary.found + summary.done - summary.failed),
                    (long long)summary.cells, o.results, line == NULL ? "the same command" : line);
        free(line);
        return EXIT_FAILED;
    }
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    if (!ranks_is_first()) {
        return EXIT_OK;
    }
    const int code = as_json ? print_summary_json(&summary) : print_summary(&summary);
    if (summary.failed == 0) {
        return code;
    }
    print_error("grail: %lld of %lld cells failed; '%s' has the reasons, and the same command runs "
                "these cells again\n",
                (long long)summary.failed, (long long)summary.cells, o.results);
    return code == EXIT_OK ? EXIT_FAILED : code;
}

static int run(int argc, char **argv)
{
    bool help = false;
    grail_sweep_options_init(&o);
    int code = options_parse(&command_sweep, table, argc, argv, &o.recipe, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    if (threads > 0) {
        grail_set_threads((int)threads);
    }
    code = ranks_join(&ranks, &o.comm);
    if (code != EXIT_OK) {
        return code;
    }
    quiet = quiet || !ranks_is_first();
    o.jobs = (int)jobs;
    o.dry_run = dry_run ? 1 : 0;
    o.observer = show_progress;
    o.on_notice = show_notice;
    return sweep();
}

static const char *const examples[] = {
    "grail sweep bench/recipes/demo.json -o sweep.jsonl --dry-run",
    "grail sweep bench/recipes/demo.json -o sweep.jsonl --jobs 2",
    NULL,
};

const command command_sweep = {
    .name = "sweep",
    .arguments = "RECIPE",
    .positional_count = 1,
    .summary = "narrow and evaluate networks at all settings of a recipe",
    .details =
        "A cell is one combination of checkpoint, selector, ratio, repair, calibration, sample "
        "count, seed and further choices. "
        "The sweep narrows and evaluates every cell in memory and writes one JSON line when a "
        "cell ends. The same command continues an interrupted sweep. grail-recipe(5) describes "
        "recipes; grail report draws the results.",
    .examples = examples,
    .run = run,
    .shares_out = true,
};
