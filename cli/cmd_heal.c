/* grail heal: train a network that was narrowed earlier towards the dense one. */
#include "command_line.h"
#include "commands.h"
#include "heal_progress.h"
#include "interrupt.h"
#include "notices.h"
#include "print.h"
#include "quality.h"
#include "ranks.h"
#include "run_options.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <stdlib.h>

static run_options r;
static measured_options evaluation;
static rank_options ranks;
static bool quiet, as_json;

static const option table[] = {
    {GROUP_OUTPUT, "output", OPTION_TEXT, &r.compress.output.path, "DIR", NULL,
     .help = "directory to write the healed model to; must not exist; short form: -o",
     .need = REQUIRED, .recorded = "DIR"},
    {GROUP_INPUT, "teacher", OPTION_TEXT, &r.compress.heal.teacher, "MODEL", NULL,
     .help = "the dense network that the model was narrowed from", .need = REQUIRED},
    CALIBRATION_OPTIONS(r, REQUIRED),
    {GROUP_HEAL, "heal", OPTION_TEXT, &r.compress.heal.what, "WHAT",
     WORDS("none", "block", "model", "block,model"),
     .help = "train after the closed form, without labels: block (each block towards the dense "
             "network's stream), model (the whole network towards its outputs), block,model or "
             "none (model)",
     .assumed = true, .field = "heal.what"},
    FIELDS_OF(GROUP_HEAL, grail_compress_option_at, GRAIL_SUBJECT_HEAL, r.compress),
    EVAL_OPTIONS(evaluation, "the dense network, the model and the result"),
    MACHINE_OPTIONS(r),
    FIELD_OF(GROUP_OUTPUT, grail_compress_option_at, "resume", r.compress),
    FIELD_OF(GROUP_OUTPUT, grail_compress_option_at, "keep-non-finite", r.compress),
    RANK_OPTIONS(ranks),
    QUIET_OPTION(quiet),
    JSON_OPTION(as_json),
    {0},
};
const option *const heal_command_options = table;

static int watch(void *user, const grail_healing *now)
{
    (void)user;
    if (!quiet) {
        heal_progress_print(now);
    }
    return interrupt_came();
}

/* The network is not cut, so a block only offers a place to stop. */
static int watch_blocks(void *user, const grail_site_report *site, int block, int blocks,
                        double seconds_left)
{
    (void)user;
    (void)site;
    (void)block;
    (void)blocks;
    (void)seconds_left;
    return interrupt_came();
}

static int watch_steps(void *user, int block, int blocks, double done)
{
    (void)user;
    if (!quiet) {
        heal_progress_print_steps(block, blocks, done);
    }
    return interrupt_came();
}

static void print_summary(const grail_compression *c, const quality *q)
{
    heal_summaries_print(c);
    quality_print(q);
    print_out("written: %s\n", r.compress.output.path);
}

static int print_json_summary(const grail_compression *c, const quality *q, const char *of_classes)
{
    json_t *notices = run_options_notices_json(&r);
    notices_add(notices, of_classes);
    return print_json(json_pack("{s:o, s:o, s:o, s:o}", "output", json_text(r.compress.output.path),
                                "healed", heal_summaries_json(c), "quality", quality_json(q),
                                "notices", notices));
}

static int finish(grail_compression *c, const char *of_classes)
{
    quality q = {.data = NULL};
    const int code = quality_finish(c, &r, &evaluation, quiet, &q);
    if (code != EXIT_OK) {
        return code;
    }
    if (as_json) {
        return print_json_summary(c, &q, of_classes);
    }
    print_summary(c, &q);
    return EXIT_OK;
}

static int print_cancelled(void)
{
    print_error("grail: interrupted");
    command_line_print_resume(r.compress.output.path);
    return EXIT_FAILED;
}

static int heal(void)
{
    grail_compression *c = NULL;
    const char *sites = NULL;
    quality_forecast measured;
    int code = run_options_open(&command_heal, &r, &sites);
    code = code == EXIT_OK ? quality_try(&r, &evaluation, &measured) : code;
    if (code != EXIT_OK) {
        goto out;
    }
    interrupt_catch();
    grail_status status = grail_compression_open(&r.compress, &c);
    if (status == GRAIL_OK) {
        run_options_print_notices(&r);
        status = grail_compression_run(c);
    }
    if (status == GRAIL_ERROR_CANCELLED) {
        code = print_cancelled();
    } else if (status != GRAIL_OK) {
        code = print_failure(status);
    } else if (ranks_is_first()) {
        code = finish(c, measured.class_notice);
    }
out:
    grail_compression_close(c);
    grail_session_close(r.compress.read.session);
    return code;
}

static int run(int argc, char **argv)
{
    bool help = false;
    run_options_init(&r);
    r.compress.heal.what = "model";
    int code = options_parse(&command_heal, table, argc, argv, &r.compress.read.model, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    code = run_options_read(&command_heal, &r);
    if (code == EXIT_OK && ranks_is_first()) {
        code = quality_check(&command_heal, &evaluation);
    }
    code = code == EXIT_OK ? ranks_join(&ranks, &r.compress.run.comm) : code;
    quiet = quiet || !ranks_is_first();
    if (code == EXIT_OK) {
        char *recorded = command_line_recorded(options_parsed());
        r.compress.output.command = recorded;
        r.compress.run.observer = watch_blocks;
        r.compress.run.heal_observer = watch;
        r.compress.run.step_observer = watch_steps;
        code = heal();
        free(recorded);
    }
    return code;
}

static const char *const examples[] = {
    "grail heal narrow --teacher demo/model -o healed --calib demo/calibration.txt --heal-time 20s",
    NULL,
};

const command command_heal = {
    .name = "heal",
    .arguments = "MODEL",
    .positional_count = 1,
    .summary = "train a narrowed model towards the dense one, without labels",
    .details =
        "Reads a model that was narrowed earlier, by grail or by another tool. Trains its weights "
        "on calibration text or images towards the dense network: towards its outputs, or the "
        "stream behind each of its blocks. Writes a directory with weights of "
        "the same shapes and report.json.",
    .examples = examples,
    .run = run,
    .shares_out = true,
};
