/* grail plan: choose the widths of all sites together, under a limit. */
#include "command_line.h"
#include "cut_summary.h"
#include "efforts.h"
#include "limit_options.h"
#include "print.h"
#include "process.h"
#include "ranks.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <jansson.h>

#include <math.h>
#include <stdlib.h>

static const option table[] = {
    {GROUP_OUTPUT, "output", OPTION_TEXT, &asked.compress.output.path, "FILE", NULL,
     .help = "plan to write; must not exist; short form: -o", .need = REQUIRED},
    LIMIT_OPTIONS,
    EFFORT_OPTIONS,
    RUN_OPTIONS,
    RANK_OPTIONS,
    QUIET_OPTION,
    JSON_OPTION,
    {0},
};

static int print_json_summary(const grail_plan_facts *f, const grail_schedule *schedule)
{
    return print_json(
        json_of("budget", J(f->budget), "formula", J(f->formula), "limit", J(f->limit), "most",
                J(f->most), "cost", J(f->cost), "dense_cost", J(f->dense_cost), "divergence",
                J(f->divergence), "uniform_divergence", J(f->uniform_divergence), "uniform_cost",
                J(f->uniform_cost), "tried", J(f->tried), "reason", J(f->reason), "ahead",
                J(f->ahead), "ahead_error", J(f->ahead_error), "seconds", J(f->seconds), "schedule",
                efforts_json(schedule), "notices", shared_options_notices_json(NULL), NULL));
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
    grail_compress_options run = asked.compress;
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
    const bool calibrated = asked.calibs.count > 0;
    const char *const words[] = {
        "-o",      "narrow", "--plan", asked.compress.output.path, calibrated ? NULL : "--calib",
        "SAMPLES", NULL};
    char *line = command_line_next("compress", words);
    if (line != NULL) {
        print_out("next: %s\n", line);
    }
    free(line);
}

/* Writes the plan and says what it is, on the first of several ranks. */
static int finish_plan(const grail_plan *p, const grail_schedule *schedule)
{
    const grail_plan_facts facts = grail_plan_facts_get(p);
    const grail_status status = grail_plan_write(p, asked.compress.output.path);
    int code = EXIT_OK;
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    limit_options_note();
    shared_options_print_notices();
    if (asked.as_json) {
        code = print_json_summary(&facts, schedule);
    } else {
        print_summary(&facts);
        code = print_loaders(p);
        print_next();
    }
    limit_options_warn_missed(p);
    return code;
}

static int run(const char *const arguments[])
{
    grail_plan *p = NULL;
    grail_schedule *schedule = NULL;
    const char *kinds = NULL;
    asked.compress.read.model = arguments[0];
    int code = shared_options_read();
    code = code == EXIT_OK ? ranks_join(&asked.compress.run.comm) : code;
    if (code == EXIT_OK && ranks_is_first() &&
        grail_plan_check_place(asked.compress.output.path) != GRAIL_OK) {
        return print_failure(GRAIL_ERROR_ARGUMENT);
    }
    code = code == EXIT_OK ? limit_options_read() : code;
    code = code == EXIT_OK ? shared_options_open(&kinds) : code;
    if (code == EXIT_OK) {
        interrupt_catch();
        code = efforts_apply(GRAIL_SCHEDULE_PLAN, kinds, &schedule);
        code = code == EXIT_OK ? limit_options_choose(kinds, &p) : code;
    }
    if (code == EXIT_OK && ranks_is_first()) {
        code = finish_plan(p, schedule);
    }
    grail_plan_free(p);
    grail_schedule_free(schedule);
    grail_session_close(asked.compress.read.session);
    return code;
}

const command command_plan = {
    .name = "plan",
    .arguments = "MODEL",
    .argument_count = 1,
    .summary = "choose the widths of all sites under a limit",
    .details =
        "Measures in one pass of the dense network what every unit of every site is worth. Then "
        "chooses the widths of all sites together, so that the narrowed network stays below the "
        "limit. A search tries the widths of several formulas, and moves between them. It "
        "compresses in memory and compares with the dense network on samples kept apart; its "
        "result is never worse there than uniform widths. Writes a plan for grail compress, which "
        "may be edited.",
    .examples = WORDS("grail plan demo/model -o plan.json --calib demo/calibration.txt "
                      "--target-ratio 0.8 --budget "
                      "error"),
    .shares_out = true,
    .first = "calib sites target-ratio target-params target-macs target-size effort time threads "
             "backend output quiet json",
    .options = table,
    .run = run,
};
