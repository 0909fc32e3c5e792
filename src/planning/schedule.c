/* Schedules of an effort or a time: opened, kept beside the output, and taken up again. */
#include "arch/model.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/option_values.h"
#include "base/options.h"
#include "comm/comm.h"
#include "pipeline/output/output_place.h"
#include "planning/measured.h"
#include "planning/phases.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static const char *const effort_names[] = {"quick", "usual", "best", NULL};

/* clang-format off */
static const grail_option fields[] = {
    {OPTION_FIELD(grail_effort_options, effort), .type = GRAIL_OPTION_WORD, .subject = GRAIL_SUBJECT_EFFORT,
     .what = "effort", .words = effort_names, .name = "effort", .argument = "NAME",
     .help = "how much is done for the result: quick (the paper's fit on few samples), usual (the "
             "usual repair, and widths for a limit by measured divergence) or best (usual, then "
             "healing); options that are given go before what it chooses"},
    {OPTION_FIELD(grail_effort_options, time_limit), .type = GRAIL_OPTION_SECONDS, .subject = GRAIL_SUBJECT_EFFORT,
     .what = "the time in seconds", .zero_is_usual = 1, .below = 1e9, .name = "time", .argument = "TIME",
     .help = "time for all, such as 90s, 20m or 2h, which is divided among statistics, widths and "
             "healing by what they take here; measuring the result comes on top (no limit)"},
    OPTION_ROOM(grail_effort_options, room, grail_effort_options),
    {0},
};
/* clang-format on */

void grail_effort_options_init(grail_effort_options *options)
{
    *options = (grail_effort_options){0};
    options_init(fields, options);
}

const grail_option *grail_effort_option_at(int i)
{
    return option_at(fields, i);
}

grail_schedule_facts grail_schedule_facts_get(const grail_schedule *s)
{
    return s->facts;
}

int grail_schedule_phase_at(const grail_schedule *s, int i, grail_schedule_phase *out)
{
    if (i < 0 || i >= s->phase_count) {
        return 0;
    }
    *out = s->phases[i];
    return 1;
}

double grail_schedule_left(const grail_schedule *s)
{
    const double least = 1e-3;
    return s->facts.time == 0.0 ? 0.0 : fmax(least, s->facts.time - (clock_seconds() - s->began));
}

void grail_schedule_free(grail_schedule *s)
{
    if (s != NULL) {
        memory_free(s->path);
        json_decref(s->kept);
        memory_free(s);
    }
}

/* -- what is kept ------------------------------------------------------------------------------ */

static grail_status put_text(json_t *object, const char *key, const char *text)
{
    return json_put(object, key, text == NULL ? json_null() : json_text(text));
}

/* What the choices are of, so that they are not taken for another run. */
static grail_status describe_subject(const choosing *c, json_t *of)
{
    grail_model_facts facts = {0};
    CHECK(grail_model_describe(grail_session_model(c->run->read.session), &facts));
    CHECK(json_put(of, "parameters", json_integer(facts.parameters)));
    CHECK(json_put(of, "most", json_real(c->options->most)));
    CHECK(json_put(of, "ratio", json_real(c->options->ratio)));
    return json_put(of, "subject", json_integer((json_int_t)c->subject));
}

static const char of_key[] = "of"; /* where it holds choices */

static grail_status keep_choices(choosing *c)
{
    grail_schedule *s = c->schedule;
    const grail_compress_options *o = c->run;
    if (s->path == NULL || s->facts.time == 0.0 || o->output.dry_run != 0) {
        return GRAIL_OK;
    }
    if (s->kept == NULL) { /* it may hold what was measured */
        s->kept = json_object();
        CHECK(json_put(s->kept, "grail_schedule", json_integer(1)));
    }
    json_t *of = json_object();
    CHECK(json_put(s->kept, of_key, of));
    CHECK(describe_subject(c, of));
    CHECK(put_text(s->kept, "effort", s->facts.effort));
    CHECK(put_text(s->kept, "selector", o->cut.selector));
    CHECK(put_text(s->kept, "compensate", o->fit.compensate));
    CHECK(put_text(s->kept, "budget", c->options->budget));
    CHECK(put_text(s->kept, "heal", o->heal.what));
    CHECK(json_put(s->kept, "trial_tokens", json_integer(c->options->trial_tokens)));
    CHECK(json_put(s->kept, "samples", json_integer(o->read.samples)));
    CHECK(json_put(s->kept, "heal_steps", json_integer(o->heal.steps)));
    CHECK(json_put(s->kept, "heal_batch", json_integer(o->heal.batch)));
    CHECK(json_put(s->kept, "heal_samples", json_integer(o->heal.own_samples)));
    CHECK(json_put(s->kept, "heal_time", json_real(o->heal.time)));
    return schedule_write(s);
}

/* Each unless it is given. */
static void take_text(const choosing *c, const char *field, const char *key, const char **out)
{
    const json_t *value = json_object_get(c->schedule->kept, key);
    *out = choosing_is_given(c, field) ? *out : json_string_value(value);
}

static void take_integer(const choosing *c, const char *field, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(c->schedule->kept, key);
    *out =
        choosing_is_given(c, field) || !json_is_integer(value) ? *out : json_integer_value(value);
}

static grail_status take_kept(choosing *c)
{
    grail_status status = GRAIL_OK;
    grail_schedule *s = c->schedule;
    grail_compress_options *o = c->run;
    json_t *of = json_object();
    TRY(describe_subject(c, of));
    if (json_integer_value(json_object_get(s->kept, "grail_schedule")) != 1 ||
        !json_equal(json_object_get(s->kept, of_key), of)) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "%s holds what was chosen for another run: another model, limit or way to widths; "
             "remove it, or give another output",
             s->path);
    }
    take_text(c, "cut.selector", "selector", &o->cut.selector);
    take_text(c, "fit.compensate", "compensate", &o->fit.compensate);
    take_text(c, "budget", "budget", &c->options->budget);
    take_text(c, "heal.what", "heal", &o->heal.what);
    take_integer(c, "trial_tokens", "trial_tokens", &c->options->trial_tokens);
    take_integer(c, "read.samples", "samples", &o->read.samples);
    take_integer(c, "heal.steps", "heal_steps", &o->heal.steps);
    take_integer(c, "heal.batch", "heal_batch", &o->heal.batch);
    take_integer(c, "heal.own_samples", "heal_samples", &o->heal.own_samples);
    if (!choosing_is_given(c, "heal.time")) {
        o->heal.time = json_number_value(json_object_get(s->kept, "heal_time"));
    }
    if (o->cut.selector == NULL || o->fit.compensate == NULL || c->options->budget == NULL) {
        FAIL(GRAIL_ERROR_FORMAT, "%s is no kept schedule; remove it", s->path);
    }
    s->facts.effort = json_string_value(json_object_get(s->kept, "effort"));
    s->facts.effort = s->facts.effort == NULL ? "" : s->facts.effort;
    s->facts.resumed = 1;
out:
    json_decref(of);
    return status;
}

const char *grail_schedule_plan(const grail_schedule *s)
{
    return s->facts.resumed != 0 ? json_string_value(json_object_get(s->kept, "plan")) : NULL;
}

grail_status grail_schedule_keep_plan(grail_schedule *s, const char *text)
{
    if (s->kept == NULL) {
        return GRAIL_OK;
    }
    CHECK(json_put(s->kept, "plan", json_text(text)));
    return schedule_write(s);
}

grail_status grail_schedule_finish(grail_schedule *s)
{
    if (s->kept != NULL && s->path != NULL && unlink(s->path) != 0 && errno != ENOENT) {
        return error_from_errno("cannot remove", s->path);
    }
    return GRAIL_OK;
}

/* -- schedules --------------------------------------------------------------------------------- */

/* PATH.ENDING of an output, which may end with slashes. */
static grail_status path_beside(const char *path, const char *ending, char **out)
{
    char *trimmed = NULL;
    CHECK(path_trim(&trimmed, path));
    const grail_status status = memory_format(out, "%s.%s", trimmed, ending);
    memory_free(trimmed);
    return status;
}

/* A place that is taken is refused before anything is measured; a plan is no directory. */
static grail_status check_place(const choosing *c)
{
    const grail_compress_options *run = c->run;
    return c->subject == GRAIL_SCHEDULE_PLAN || comm_rank(run->run.comm) != 0
               ? GRAIL_OK
               : output_check_free(run, grail_session_model(run->read.session));
}

static grail_status open_schedule(const grail_effort_options *o, choosing *c)
{
    int effort = EFFORT_NONE;
    grail_schedule *s = c->schedule;
    const grail_compress_options *run = c->run;
    CHECK(options_check(fields, o));
    if (o->effort != NULL) {
        CHECK(option_find_word("effort", o->effort, effort_names, &effort));
    }
    s->effort = o->effort == NULL && o->time_limit > 0.0 ? EFFORT_BEST : (effort_kind)effort;
    s->facts =
        (grail_schedule_facts){.effort = s->effort == EFFORT_NONE ? "" : effort_names[s->effort],
                               .choices = "",
                               .time = o->time_limit};
    if (o->time_limit > 0.0 && comm_is_shared(run->run.comm)) {
        return option_about("time_limit",
                            error_set(GRAIL_ERROR_UNSUPPORTED,
                                      "a time cannot be divided for several processes yet; "
                                      "start one, or choose an effort without a time"));
    }
    const graph *g = grail_session_model(run->read.session)->graph;
    const grail_model *model = grail_session_model(run->read.session);
    enum { USUAL_CONTEXT = 2048 };
    const int64_t usual = model->context < USUAL_CONTEXT ? model->context : USUAL_CONTEXT;
    c->graph = g;
    c->length = g->input_kind == INPUT_IMAGES ? 1
                : run->read.text.context > 0  ? run->read.text.context
                                              : usual;
    return run->output.path == NULL || c->subject == GRAIL_SCHEDULE_PLAN
               ? GRAIL_OK
               : path_beside(run->output.path, "schedule", &s->path);
}

/* Whether an interrupted run is there that was begun without a time. */
static grail_status was_begun(const choosing *c, bool *out)
{
    char *partial = NULL;
    CHECK(path_beside(c->run->output.path, "partial", &partial));
    *out = file_exists(partial);
    memory_free(partial);
    return GRAIL_OK;
}

/* Reads what is there. A run that does not resume takes nothing of it, and replaces it where there
 * are no choices; what cannot be read may be any. */
static grail_status look_at_kept(grail_schedule *s, bool resumes, bool *has_choices)
{
    enum { MOST_BYTES = 256 << 20 };
    const grail_status status = json_read_file(s->path, MOST_BYTES, &s->kept);
    *has_choices = status != GRAIL_OK || json_object_get(s->kept, of_key) != NULL;
    if (!*has_choices && !resumes) {
        json_decref(s->kept);
        s->kept = json_object();
        return json_put(s->kept, "grail_schedule", json_integer(1));
    }
    return resumes || status == GRAIL_ERROR_MEMORY ? status : GRAIL_OK;
}

static grail_status choose(choosing *c)
{
    grail_schedule *s = c->schedule;
    const bool resumes = c->run->output.resume != 0 && s->path != NULL;
    const bool is_dry = c->run->output.dry_run != 0;
    bool begun = false;
    bool has_choices = false;
    if (s->path != NULL && file_exists(s->path) && (resumes || !is_dry)) {
        CHECK(look_at_kept(s, resumes, &has_choices));
    }
    if (has_choices && resumes) {
        return take_kept(c);
    }
    if (has_choices) {
        return error_set(GRAIL_ERROR_EXISTS,
                         "'%s' holds what an interrupted run towards '%s' had chosen; resume "
                         "that run, or remove the file",
                         s->path, c->run->output.path);
    }
    if (resumes) {
        CHECK(was_begun(c, &begun));
    }
    CHECK(choosing_apply_effort(c));
    if (s->facts.time > 0.0 && !begun) {
        CHECK(phases_divide(c));
        return keep_choices(c);
    }
    return GRAIL_OK;
}

grail_status grail_schedule_make(const grail_effort_options *effort, grail_schedule_subject subject,
                                 const char *given, grail_plan_options *options,
                                 grail_schedule **out)
{
    grail_status status = GRAIL_OK;
    grail_schedule *s = NULL;
    TRY(memory_new(&s, 1, sizeof *s));
    s->began = clock_seconds();
    choosing c = {.schedule = s,
                  .options = options,
                  .run = &options->compress,
                  .given = given,
                  .subject = subject};
    TRY(option_given("read.session", "session", options->compress.read.session));
    TRY(open_schedule(effort, &c));
    TRY(comm_settle(options->compress.run.comm, check_place(&c)));
    TRY(choose(&c));
    if (s->effort != EFFORT_NONE || s->facts.resumed != 0) {
        choosing_tell(&c);
    }
    if (subject == GRAIL_SCHEDULE_LIMITED && s->path != NULL && c.run->output.dry_run == 0) {
        options->schedule = s;
    }
    *out = s;
    s = NULL;
out:
    grail_schedule_free(s);
    return status;
}
