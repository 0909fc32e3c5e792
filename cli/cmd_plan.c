/* grail plan: choose the widths of all sites together, under a limit. */
#include "command_line.h"
#include "commands.h"
#include "cut_summary.h"
#include "interrupt.h"
#include "limit_options.h"
#include "print.h"
#include "ranks.h"
#include "run_options.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <jansson.h>

#include <math.h>
#include <stdlib.h>

static run_options r;
static limit_options limits;
static bool quiet, as_json;
static rank_options ranks;

static const option table[] = {
    {GROUP_OUTPUT, "output", OPTION_TEXT, &r.compress.output.path, "FILE", NULL,
     .help = "plan to write; must not exist; short form: -o", .need = REQUIRED},
    LIMIT_OPTIONS(limits),
    RUN_OPTIONS(r),
    RANK_OPTIONS(ranks),
    QUIET_OPTION(quiet),
    JSON_OPTION(as_json),
    {0},
};
const option *const plan_options = table;

static int print_json_summary(const grail_plan_facts *f)
{
    return print_json(json_pack("{s:o, s:o, s:o, s:f, s:f, s:f, s:o, s:o, s:o, s:i, s:f, s:o}",
                                "budget", json_text(f->budget), "formula", json_text(f->formula),
                                "limit", json_text(f->limit), "most", f->most, "cost", f->cost,
                                "dense_cost", f->dense_cost, "divergence",
                                json_number_or_null(f->divergence), "uniform_divergence",
                                json_number_or_null(f->uniform_divergence), "uniform_cost",
                                json_number_or_null(f->uniform_cost), "tried", f->tried, "seconds",
                                f->seconds, "notices", run_options_notices_json(&r)));
}

static void print_summary(const grail_plan_facts *f)
{
    char cost[HUMAN_SIZE];
    char dense[HUMAN_SIZE];
    char most[HUMAN_SIZE];
    char uniform[HUMAN_SIZE];
    print_out("%s of %s %s (%.1f %%; limit %s), by '%s'\n", human_count(f->cost, cost),
              human_count(f->dense_cost, dense), f->limit, 100.0 * f->cost / f->dense_cost,
              human_count(f->most, most), f->formula);
    if (!isnan(f->divergence)) {
        print_out("divergence from the dense network: %.5f, with uniform widths of %s %.5f (%d "
                  "trials, %.0f s)\n",
                  f->divergence, human_count(f->uniform_cost, uniform), f->uniform_divergence,
                  f->tried, f->seconds);
    }
}

/* Opens the run that the plan is for, which knows who will load its result. */
static int print_loaders(const grail_plan *p)
{
    grail_compression *c = NULL;
    grail_compress_options run = r.compress;
    run.amount.plan_text = grail_plan_text(p);
    run.output.path = NULL;
    run.output.dry_run = 1;
    run.read.text.path = NULL; /* the samples were read, and told of */
    run.read.part_count = 0;
    run.run.comm = NULL; /* rank 0 alone asks */
    const grail_status status = grail_compression_open(&run, &c);
    if (status == GRAIL_OK) {
        cut_summary_print_loaders(c);
    }
    grail_compression_close(c);
    return status == GRAIL_OK ? EXIT_OK : print_failure(status);
}

/* What the run needs besides the plan: the same samples, read in the same way. */
static void print_next(void)
{
    const bool calibrated = r.calibs.count > 0;
    const char *const words[] = {
        "-o",      "narrow", "--plan", r.compress.output.path, calibrated ? NULL : "--calib",
        "SAMPLES", NULL};
    char *line = command_line_next(options_parsed(), "compress", words);
    if (line != NULL) {
        print_out("next: %s\n", line);
    }
    free(line);
}

/* Writes the plan and says what it is, on the first of several ranks. */
static int finish_plan(const grail_plan *p, limit_watch *watch)
{
    const grail_plan_facts facts = grail_plan_facts_get(p);
    const grail_status status = grail_plan_write(p, r.compress.output.path);
    int code = EXIT_OK;
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    limit_watch_note(watch);
    run_options_print_notices(&r);
    if (as_json) {
        code = print_json_summary(&facts);
    } else {
        print_summary(&facts);
        code = print_loaders(p);
        print_next();
    }
    limit_options_warn_missed(p);
    return code;
}

static int make_plan(void)
{
    grail_plan *p = NULL;
    grail_plan_options *options = &limits.plan;
    int code = limit_options_read(&command_plan, &limits);
    code = code == EXIT_OK ? run_options_open(&command_plan, &r, &options->kinds) : code;
    if (code != EXIT_OK) {
        goto out;
    }
    options->compress = r.compress;
    options->observer = limit_options_watch;
    limit_watch watch = limit_watch_init(&limits, r.compress.read.session, quiet);
    options->observer_user = &watch;
    options->compress.run.step_observer = limit_options_watch_steps;
    options->compress.run.observer_user = &watch;
    interrupt_catch();
    const grail_status status = grail_plan_make(options, &p);
    print_progress_end();
    if (status != GRAIL_OK) {
        code = print_failure(status);
    } else if (ranks_is_first()) {
        code = finish_plan(p, &watch);
    }
out:
    grail_plan_free(p);
    grail_session_close(r.compress.read.session);
    return code;
}

static int run(int argc, char **argv)
{
    bool help = false;
    run_options_init(&r);
    grail_plan_options_init(&limits.plan);
    int code = options_parse(&command_plan, table, argc, argv, &r.compress.read.model, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    code = run_options_read(&command_plan, &r);
    if (code != EXIT_OK) {
        return code;
    }
    code = ranks_join(&ranks, &r.compress.run.comm);
    if (code != EXIT_OK) {
        return code;
    }
    quiet = quiet || !ranks_is_first();
    if (ranks_is_first() && grail_plan_check_place(r.compress.output.path) != GRAIL_OK) {
        return print_failure(GRAIL_ERROR_ARGUMENT);
    }
    return make_plan();
}

static const char *const examples[] = {
    "grail plan demo/model -o plan.json --calib demo/calibration.txt --target-ratio 0.8 --budget "
    "error",
    NULL,
};

const command command_plan = {
    .name = "plan",
    .arguments = "MODEL",
    .positional_count = 1,
    .summary = "choose the widths of all sites under a limit",
    .details =
        "Measures in one pass of the dense network what every unit of every site is worth. Then "
        "chooses the widths of all sites together, so that the narrowed network stays below the "
        "limit. A search tries the widths of several formulas, and moves between them. It "
        "compresses in memory and compares with the dense network on samples kept apart; its "
        "result is never worse there than uniform widths. Writes a plan for grail compress, which "
        "may be edited.",
    .examples = examples,
    .shares_out = true,
    .run = run,
};
