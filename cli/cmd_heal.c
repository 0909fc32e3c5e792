/* grail heal: train a network that was narrowed earlier towards the dense one. */
#include "command_line.h"
#include "cut_summary.h"
#include "efforts.h"
#include "heal_progress.h"
#include "notices.h"
#include "print.h"
#include "process.h"
#include "quality.h"
#include "ranks.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <math.h>
#include <stdlib.h>

static const option table[] = {
    {GROUP_OUTPUT, "output", OPTION_TEXT, &asked.compress.output.path, "DIR", NULL,
     .help = "directory to write the healed model to; must not exist; short form: -o",
     .need = REQUIRED, .recorded = "DIR"},
    {GROUP_INPUT, "teacher", OPTION_TEXT, &asked.compress.heal.teacher, "MODEL", NULL,
     .help = "the dense network that the model was narrowed from", .need = REQUIRED},
    CALIBRATION_OPTIONS(REQUIRED),
    {GROUP_HEAL, "heal", OPTION_TEXT, &asked.compress.heal.what, "WHAT",
     WORDS("none", "block", "model", "block,model"),
     .help = "train after the closed form, without labels: block (each block towards the dense "
             "network's stream), model (the whole network towards its outputs), block,model or "
             "none (model)",
     .assumed = true, .field = "heal.what"},
    RUN_FIELDS(GROUP_HEAL, GRAIL_SUBJECT_HEAL),
    EFFORT_OPTIONS,
    EVAL_OPTIONS("the dense network, the model and the result"),
    MACHINE_OPTIONS,
    RUN_FIELD(GROUP_OUTPUT, "resume"),
    RUN_FIELD(GROUP_OUTPUT, "keep-non-finite"),
    RANK_OPTIONS,
    QUIET_OPTION,
    JSON_OPTION,
    {0},
};

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
    if (block < 0) {
        return shared_options_watch_before(block, done);
    }
    print_progress((double)NAN, "  through block %d/%d: %.0f %%", block + 1, blocks, 100.0 * done);
    return interrupt_came();
}

static int finish(grail_compression *c, const grail_schedule *schedule, const char *of_classes)
{
    quality q = {.data = NULL};
    const int code = quality_finish(c, &q);
    if (code != EXIT_OK) {
        return code;
    }
    const int printed =
        asked.as_json ? print_json(json_of("output", J(asked.compress.output.path), "healed",
                                           heal_summaries_json(c), "quality", quality_json(&q),
                                           "schedule", efforts_json(schedule), "notices",
                                           shared_options_notices_json(of_classes), NULL))
                      : EXIT_OK;
    if (!asked.as_json) {
        heal_summaries_print(c);
        quality_print(&q);
        print_out("written: %s\n", asked.compress.output.path);
    }
    quality_fini(&q);
    return printed;
}

static int heal(void)
{
    grail_compression *c = NULL;
    grail_schedule *schedule = NULL;
    quality_forecast measured;
    int code = shared_options_open(NULL);
    code = code == EXIT_OK ? quality_try(&measured) : code;
    if (code == EXIT_OK) {
        interrupt_catch();
        code = efforts_apply(GRAIL_SCHEDULE_RUN, NULL, &schedule);
    }
    if (code != EXIT_OK) {
        goto out;
    }
    asked.compress.run.time = grail_schedule_left(schedule);
    grail_status status = grail_compression_open(&asked.compress, &c);
    if (status == GRAIL_OK) {
        shared_options_print_notices();
        status = grail_compression_run(c);
    }
    if (status == GRAIL_OK) {
        cut_summary_note_memory(c);
    }
    if (status == GRAIL_ERROR_CANCELLED) {
        code = command_line_print_interrupted(asked.compress.output.path);
    } else if (status != GRAIL_OK) {
        code = c == NULL ? print_failure(status) : command_line_print_failure(status);
    } else if (ranks_is_first()) {
        code = finish(c, schedule, measured.class_notice);
        code = code == EXIT_OK ? efforts_finish(schedule) : code;
    }
out:
    grail_compression_close(c);
    grail_schedule_free(schedule);
    grail_session_close(asked.compress.read.session);
    return code;
}

static int run(const char *const arguments[])
{
    asked.compress.read.model = arguments[0];
    if (asked.compress.heal.what == NULL) {
        asked.compress.heal.what = "model";
    }
    int code = shared_options_read();
    if (code == EXIT_OK && ranks_is_first()) {
        code = quality_check();
    }
    code = code == EXIT_OK ? ranks_join(&asked.compress.run.comm) : code;
    if (code == EXIT_OK) {
        char *recorded = command_line_recorded();
        asked.compress.output.command = recorded;
        asked.compress.run.observer = watch_blocks;
        asked.compress.run.heal_observer = heal_progress_watch;
        asked.compress.run.step_observer = watch_steps;
        code = heal();
        free(recorded);
    }
    return code;
}

const command command_heal = {
    .name = "heal",
    .arguments = "MODEL",
    .argument_count = 1,
    .summary = "train a narrowed model towards the dense one, without labels",
    .details =
        "Reads a model that was narrowed earlier, by grail or by another tool. Trains its weights "
        "on calibration text or images towards the dense network: towards its outputs, or the "
        "stream behind each of its blocks. Writes a directory with weights of "
        "the same shapes and report.json.",
    .examples = WORDS("grail heal narrow --teacher demo/model -o healed --calib "
                      "demo/calibration.txt --heal-time 20s"),
    .first = "calib teacher effort time eval threads backend output resume quiet json",
    .options = table,
    .run = run,
    .shares_out = true,
};
