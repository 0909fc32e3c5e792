/* What an effort chooses, and how a time is divided. */
#include "arch/model_text.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/option_values.h"
#include "base/options.h"
#include "base/output_file.h"
#include "pipeline/forecast.h"
#include "pipeline/request/usual_samples.h"
#include "planning/division.h"
#include "planning/plan_forecast.h"
#include "planning/rates.h"
#include "planning/slot_weights.h"

#include <grail/schedule.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const effort_names[] = {"quick", "usual", "best", NULL};

typedef enum effort_kind { EFFORT_QUICK, EFFORT_USUAL, EFFORT_BEST, EFFORT_NONE } effort_kind;

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

enum { MOST_PHASES = 3, CHOICES_SIZE = 400, QUICK_SAMPLES = 32, LEAST_SAMPLES = 16 };

struct grail_schedule {
    double began; /* by clock_seconds */
    effort_kind effort;
    grail_schedule_facts facts;
    char choices[CHOICES_SIZE];
    grail_schedule_phase phases[MOST_PHASES];
    int phase_count;
    char *path;   /* of what is kept, or NULL; owned */
    json_t *kept; /* what was chosen; owned */
};

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

/* -- choices ----------------------------------------------------------------------------------- */

/* What an effort or a time sets, beside what was given. */
typedef struct choosing {
    grail_schedule *schedule;
    grail_plan_options *options;
    grail_compress_options *run; /* of these */
    const char *given;
    grail_schedule_subject subject;
    const graph *graph;
    int64_t length; /* tokens of a window; 1: images */
} choosing;

static bool is_given(const choosing *c, const char *field)
{
    const size_t length = strlen(field);
    for (const char *at = c->given; at != NULL && *at != 0;) {
        const size_t word = strcspn(at, " ");
        if (word == length && strncmp(at, field, word) == 0) {
            return true;
        }
        at += word;
        at += strspn(at, " ");
    }
    return false;
}

static void say(grail_schedule *s, const char *what, const char *value)
{
    const size_t used = strlen(s->choices);
    snprintf(s->choices + used, sizeof s->choices - used, "%s%s %s", used == 0 ? "" : ", ", what,
             value);
}

static void say_number(grail_schedule *s, const char *what, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    say(s, what, text);
}

/* A plan that was given says of these itself what it wants. */
static bool recipe_is_open(const choosing *c)
{
    return c->run->amount.plan == NULL && c->run->amount.plan_text == NULL &&
           c->run->heal.teacher == NULL && !is_given(c, "cut.selector") &&
           !is_given(c, "fit.compensate");
}

static void set_recipe(choosing *c, bool is_quick)
{
    if (recipe_is_open(c)) {
        c->run->cut.selector = is_quick ? "wanda" : "obs";
        c->run->fit.compensate = is_quick ? "grail" : "full";
    }
}

static bool chooses_widths(const choosing *c)
{
    return c->subject != GRAIL_SCHEDULE_RUN && !is_given(c, "budget");
}

static void set_budget(choosing *c, const char *budget)
{
    if (chooses_widths(c)) {
        c->options->budget = budget;
    }
}

static bool heals_run(const choosing *c)
{
    const char *what = c->run->heal.what;
    return c->subject != GRAIL_SCHEDULE_PLAN && what != NULL && strcmp(what, "none") != 0;
}

/* Images that are healed on: few are learnt by heart. Their pixels are all held. */
static int64_t most_images(const grail_model *model)
{
    enum { MOST_IMAGES = 2048 };
    static const double most_bytes = 512e6;
    const extent x = model_usual_positions(model);
    const double image = 3.0 * sizeof(float) * (double)(x.height * x.width); /* of colours */
    return (int64_t)fmax(1.0, fmin(MOST_IMAGES, most_bytes / fmax(image, 1.0)));
}

/* As many as the steps take, with those held out. */
static void set_own_samples(choosing *c, int64_t seen)
{
    enum { HELD_OUT = 16 };
    const grail_model *model = grail_session_model(c->run->read.session);
    const int64_t wanted = seen + seen / (HELD_OUT - 1) + HELD_OUT / 2;
    const int64_t most = c->length == 1 ? most_images(model) : INT64_MAX;
    const int64_t all = wanted < most ? wanted : most;
    const int64_t read =
        c->run->read.samples > 0 ? c->run->read.samples : usual_samples(c->graph, c->length);
    if (!is_given(c, "heal.own_samples")) {
        c->run->heal.own_samples = all > read ? all : 0;
    }
}

/* Steps of more samples for more tokens: 2,048 tokens a step to 150 k, 8,192 from 800 k on. Windows
 * are new ones as far as the text goes. */
static void set_tokens(choosing *c, double tokens)
{
    enum { MOST_SAMPLES = 64, IMAGES = 64, MOST_IMAGE_STEPS = 640 };
    static const double most = 1e10;
    grail_heal_options *h = &c->run->heal;
    const bool of_images = c->length == 1;
    const double of_step = tokens < 1.5e5 ? 2048.0 : tokens < 8e5 ? 4096.0 : 8192.0;
    const double windows = fmin(fmax(1.0, floor(of_step / (double)c->length)), MOST_SAMPLES);
    if (!is_given(c, "heal.batch")) {
        h->batch = of_images ? IMAGES : (int64_t)windows;
    }
    const double batch = (double)(h->batch > 0 ? h->batch : 1);
    if (!is_given(c, "heal.steps")) {
        const double steps = fmax(1.0, floor(fmin(tokens, most) / batch / (double)c->length));
        h->steps = (int64_t)(of_images ? fmin(steps, MOST_IMAGE_STEPS) : steps);
    }
    set_own_samples(c, h->steps * h->batch);
}

static void set_healing(choosing *c, bool heals)
{
    static const double usual_tokens = 3e5;
    static const int64_t usual_images = 160 * 64; /* what steps see where none are named */
    if (is_given(c, "heal.what")) {
        return;
    }
    c->run->heal.what = !heals ? "none" : c->length == 1 ? "block,model" : "model";
    if (heals && c->length > 1) {
        set_tokens(c, usual_tokens);
    } else if (heals) {
        set_own_samples(c, usual_images);
    }
}

static grail_status apply_effort(choosing *c)
{
    static const char *const of_plans[] = {"error", "divergence", "search"};
    static const double of_teachers[] = {1e5, 3e5, 1.6e6}; /* tokens */
    const effort_kind effort = c->schedule->effort;
    if (effort == EFFORT_NONE) {
        return GRAIL_OK;
    }
    if (c->run->heal.teacher != NULL) {
        set_tokens(c, of_teachers[effort]);
        return GRAIL_OK;
    }
    set_recipe(c, effort == EFFORT_QUICK);
    set_budget(c, c->subject == GRAIL_SCHEDULE_PLAN ? of_plans[effort]
                  : effort == EFFORT_QUICK          ? "uniform"
                                                    : "divergence");
    if (c->subject != GRAIL_SCHEDULE_PLAN) {
        set_healing(c, effort == EFFORT_BEST);
    }
    return effort == EFFORT_QUICK && !is_given(c, "read.samples")
               ? samples_at_most(c->run, QUICK_SAMPLES, &c->run->read.samples)
               : GRAIL_OK;
}

/* One line of what is done, given or chosen. */
static void tell_choices(choosing *c)
{
    grail_schedule *s = c->schedule;
    const grail_heal_options *h = &c->run->heal;
    if (h->teacher == NULL && c->run->amount.plan == NULL) {
        say(s, "selector", c->run->cut.selector);
        say(s, "compensation", c->run->fit.compensate);
    }
    if (c->subject != GRAIL_SCHEDULE_RUN) {
        say(s, "widths by", c->options->budget);
    } else if (h->teacher == NULL) {
        say(s, "widths", "as given");
    }
    if (c->run->read.samples > 0) {
        say_number(s, "samples", c->run->read.samples);
    }
    if (c->subject != GRAIL_SCHEDULE_PLAN) {
        say(s, "healing", heals_run(c) ? h->what : "none");
    }
    if (heals_run(c) && h->steps > 0) {
        say_number(s, "steps", h->steps);
    }
    s->facts.choices = s->choices;
}

/* -- what is kept ------------------------------------------------------------------------------ */

static grail_status write_kept(const grail_schedule *s)
{
    grail_status status = GRAIL_OK;
    output_file file = {.descriptor = -1};
    buffer text = {0};
    buffer_init(&text, SIZE_MAX / 4);
    TRY(json_append_indented(s->kept, &text));
    TRY(output_file_open(s->path, true, &file));
    TRY(file_write_at(file.descriptor, s->path, text.bytes, text.size, 0));
    TRY(output_file_commit(&file));
out:
    output_file_fini(&file);
    buffer_fini(&text);
    return status;
}

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

static grail_status keep_choices(choosing *c)
{
    grail_schedule *s = c->schedule;
    const grail_compress_options *o = c->run;
    if (s->path == NULL || s->facts.time == 0.0 || o->output.dry_run != 0) {
        return GRAIL_OK;
    }
    s->kept = json_object();
    CHECK(json_put(s->kept, "grail_schedule", json_integer(1)));
    json_t *of = json_object();
    CHECK(json_put(s->kept, "of", of));
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
    return write_kept(s);
}

/* Each unless it is given. */
static void take_text(const choosing *c, const char *field, const char *key, const char **out)
{
    const json_t *value = json_object_get(c->schedule->kept, key);
    *out = is_given(c, field) ? *out : json_string_value(value);
}

static void take_integer(const choosing *c, const char *field, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(c->schedule->kept, key);
    *out = is_given(c, field) || !json_is_integer(value) ? *out : json_integer_value(value);
}

static grail_status take_kept(choosing *c)
{
    enum { MOST_BYTES = 64 << 20 };
    grail_status status = GRAIL_OK;
    grail_schedule *s = c->schedule;
    grail_compress_options *o = c->run;
    json_t *of = json_object();
    TRY(json_read_file(s->path, MOST_BYTES, &s->kept));
    TRY(describe_subject(c, of));
    if (json_integer_value(json_object_get(s->kept, "grail_schedule")) != 1 ||
        !json_equal(json_object_get(s->kept, "of"), of)) {
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
    if (!is_given(c, "heal.time")) {
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
    return write_kept(s);
}

grail_status grail_schedule_finish(grail_schedule *s)
{
    if (s->kept != NULL && s->path != NULL && unlink(s->path) != 0 && errno != ENOENT) {
        return error_from_errno("cannot remove", s->path);
    }
    return GRAIL_OK;
}

/* -- what things take -------------------------------------------------------------------------- */

/* For a limit: *chosen <- uniform widths that meet it, which `o` takes, too. */
static grail_status take_uniform_widths(const choosing *c, grail_plan **chosen,
                                        grail_compress_options *o)
{
    if (c->subject == GRAIL_SCHEDULE_RUN) {
        return GRAIL_OK;
    }
    grail_plan_options stand_in = *c->options;
    stand_in.compress.output = (grail_output_options){.dry_run = 1};
    CHECK(grail_plan_make(&stand_in, chosen));
    o->amount.plan_text = grail_plan_text(*chosen);
    return GRAIL_OK;
}

/* The run as it would be now: its own widths, or uniform ones for the limit. */
static grail_status open_dry(const choosing *c, grail_plan **chosen, grail_compression **out)
{
    grail_compress_options o = *c->run;
    o.output = (grail_output_options){.dry_run = 1};
    CHECK(take_uniform_widths(c, chosen, &o));
    return grail_compression_open(&o, out);
}

/* What a recipe takes. */
typedef struct recipe_cost {
    run_work work;
    sample_cost closed; /* zeros where it reads no data */
    double healing, choosing;
    width_trials trials;
} recipe_cost;

static grail_status cost_of_recipe(choosing *c, const grail_rates *rates, recipe_cost *out)
{
    grail_status status = GRAIL_OK;
    grail_plan *chosen = NULL;
    grail_compression *run = NULL;
    run_work *work = &out->work;
    *out = (recipe_cost){0};
    TRY(open_dry(c, &chosen, &run));
    TRY(run_work_count(run, c->run, run->request->graph->block_count, work));
    if (work->uses_data) {
        out->closed = run_work_cost(work->closed, work->samples, rates);
    }
    if (chosen != NULL) {
        out->trials = plan_trials(chosen);
        out->choosing = plan_forecast(chosen, work, rates);
    }
    out->healing = rates->healing * run_work_seconds(work->healing, rates);
out:
    grail_compression_close(run);
    grail_plan_free(chosen);
    return status;
}

/* The rates of the run as it is wanted, on its own widths or on uniform ones. */
static grail_status measure_rates(choosing *c, grail_rates *out)
{
    grail_status status = GRAIL_OK;
    grail_plan *chosen = NULL;
    grail_compress_options o = *c->run;
    o.output.path = NULL;
    TRY(take_uniform_widths(c, &chosen, &o));
    TRY(grail_rates_measure(&o, out));
out:
    grail_plan_free(chosen);
    return status;
}

/* -- dividing ---------------------------------------------------------------------------------- */

static const double slower = 1.25; /* what trials may take, of their forecast */

/* 3 % of the time are kept, and what writing the result takes at the rate of a slow disk. */
static double usable_time(const choosing *c, double time)
{
    static const double share = 0.97;
    static const double bytes_per_second = 2e8;
    grail_model_facts facts = {0};
    const grail_status status =
        grail_model_describe(grail_session_model(c->run->read.session), &facts);
    const double writes = c->run->output.path != NULL && status == GRAIL_OK ? 2.0 : 0.0;
    return share * time - writes * (double)facts.bytes / bytes_per_second;
}

static grail_status too_short(const grail_schedule *s, double least)
{
    return option_about("time_limit",
                        error_set(GRAIL_ERROR_ARGUMENT,
                                  "a time of %g s does not suffice: at the speed that was "
                                  "measured here the least is about %.0f s; give more, or a "
                                  "smaller number of samples",
                                  s->facts.time, ceil(least)));
}

static void add_phase(grail_schedule *s, grail_schedule_phase phase)
{
    s->phases[s->phase_count++] = phase;
    s->facts.expected += phase.seconds;
}

/* A machine that becomes faster may take more steps: their rates go by the time. */
static void add_healing(choosing *c, double seconds, double tokens, double would_take)
{
    const double more = 1.25;
    const grail_heal_options *h = &c->run->heal;
    if (seconds > 0.0) {
        set_tokens(c, more * tokens);
    }
    if (seconds > 0.0 && c->length == 1 && !is_given(c, "heal.time")) {
        c->run->heal.time = seconds; /* blocks take their share of it on the way */
    }
    const int64_t seen = seconds > 0.0 ? h->steps * h->batch : 0;
    add_phase(c->schedule, (grail_schedule_phase){.name = "healing",
                                                  .seconds = seconds,
                                                  .would_take = would_take,
                                                  .samples = seen,
                                                  .tokens = c->length == 1 ? 0 : seen * c->length,
                                                  .steps = seconds > 0.0 ? h->steps : 0,
                                                  .step_samples = seconds > 0.0 ? h->batch : 0});
}

/* Healing alone, which has all of the time. */
static grail_status divide_healing(choosing *c, const grail_rates *rates, double time)
{
    enum { LEAST_STEPS = 2 };
    recipe_cost cost;
    const double tokens = 1e5;
    set_tokens(c, tokens);
    CHECK(cost_of_recipe(c, rates, &cost));
    const grail_heal_options *h = &c->run->heal;
    const double token = cost.healing / (double)(h->steps * h->batch * c->length);
    const double least = LEAST_STEPS * token * (double)(h->batch * c->length);
    if (!(time >= least)) {
        return too_short(c->schedule, c->schedule->facts.measured + least);
    }
    add_healing(c, time, time / token, 0.0);
    return GRAIL_OK;
}

/* Searches begin no trial when their time is over; what comes before the first cannot be stopped.
 */
static grail_status divide_plan(choosing *c, const grail_rates *rates, double time)
{
    recipe_cost cost;
    CHECK(cost_of_recipe(c, rates, &cost));
    const double once = cost.closed.fixed + cost.closed.each * (double)cost.work.samples;
    if (!(time >= once)) {
        return too_short(c->schedule, c->schedule->facts.measured + once);
    }
    c->options->seconds = time;
    add_phase(c->schedule, (grail_schedule_phase){.name = "measured widths",
                                                  .seconds = fmin(cost.choosing, time),
                                                  .samples = cost.work.samples});
    return GRAIL_OK;
}

static bool measures_alone(const choosing *c)
{
    return strcmp(c->options->budget, "divergence") == 0;
}

/* Tokens of the trials that widths may be measured by, the most first: such as make at least four
 * windows, one of which judges. 0: the usual number. */
static int trial_sizes(const choosing *c, int64_t *tokens)
{
    static const int64_t fewer[TRIAL_SIZES] = {0, 4096, 2048};
    int count = 0;
    if (c->subject != GRAIL_SCHEDULE_LIMITED || strcmp(c->options->budget, "uniform") == 0) {
        return 0;
    }
    tokens[count++] = c->options->trial_tokens;
    for (int i = 1;
         i < TRIAL_SIZES && measures_alone(c) && c->length > 1 && !is_given(c, "trial_tokens");
         i++) {
        if (fewer[i] >= JUDGING_ONE_IN * c->length) {
            tokens[count++] = fewer[i];
        }
    }
    return count;
}

static void cost_widths(const choosing *c, const grail_rates *rates, const recipe_cost *cost,
                        const int64_t *tokens, division_costs *out)
{
    const int64_t all = cost->work.samples;
    for (int i = 0; i < out->width_count && measures_alone(c); i++) {
        width_trials t = cost->trials;
        t.samples = slot_weights_samples(c->graph, tokens[i], c->length, all);
        const double most = run_work_of_trials(&cost->work, t, rates);
        out->widths[i].most = t.samples;
        t.samples = 0;
        out->widths[i].seconds.fixed = run_work_of_trials(&cost->work, t, rates);
        out->widths[i].seconds.each =
            (most - out->widths[i].seconds.fixed) / (double)out->widths[i].most;
    }
    if (out->width_count > 0 && !measures_alone(c)) {
        out->widths[0] =
            (width_cost){.seconds = {.each = cost->choosing / (double)all}, .most = all};
    }
}

/* What would be left out is named with what it would take. */
static void add_widths(choosing *c, const division *d, const division_costs *costs,
                       const int64_t *tokens, int trials)
{
    const bool measures = d->widths > 0.0;
    const int64_t most = costs->width_count > 0 ? costs->widths[d->way].most : 0;
    const int64_t samples = d->samples < most ? d->samples : most;
    set_budget(c, measures ? c->options->budget : "uniform");
    if (measures && !is_given(c, "trial_tokens")) {
        c->options->trial_tokens = tokens[d->way];
    }
    c->options->seconds = slower * d->widths;
    add_phase(c->schedule,
              (grail_schedule_phase){.name = "measured widths",
                                     .seconds = d->widths,
                                     .would_take = measures ? 0.0 : d->shortest_widths,
                                     .samples = measures ? samples : 0,
                                     .tokens = measures && c->length > 1 ? samples * c->length : 0,
                                     .trials = measures ? trials : 0});
}

static void take_division(choosing *c, const division *d, const division_costs *costs,
                          const int64_t *tokens, int trials)
{
    grail_schedule *s = c->schedule;
    set_recipe(c, d->is_quick || s->effort == EFFORT_QUICK);
    if (!is_given(c, "read.samples") && d->samples < costs->most) {
        c->run->read.samples = d->samples;
    }
    if (c->subject == GRAIL_SCHEDULE_LIMITED) {
        add_widths(c, d, costs, tokens, trials);
    }
    add_phase(s, (grail_schedule_phase){
                     .name = "statistics and fits", .seconds = d->closed, .samples = d->samples});
    if (d->healing <= 0.0 && !is_given(c, "heal.what")) {
        c->run->heal.what = "none";
    }
    const double least = costs->heals ? costs->least_tokens * costs->token : 0.0;
    add_healing(c, d->healing, d->tokens, d->healing > 0.0 ? 0.0 : least);
}

static grail_status divide_run(choosing *c, const grail_rates *rates, double time)
{
    static const double least_tokens = 16384.0;
    static const double least_images = 1024.0;
    grail_schedule *s = c->schedule;
    recipe_cost cost;
    recipe_cost quick;
    int64_t tokens[TRIAL_SIZES] = {0};
    division d = {0};
    double least = 0.0;
    CHECK(cost_of_recipe(c, rates, &cost));
    const grail_heal_options *h = &c->run->heal;
    const double steps = h->steps > 0 ? (double)h->steps : 160.0;
    const double batch = h->batch > 0 ? (double)h->batch : 64.0;
    const int64_t all = cost.work.samples;
    division_costs costs = {
        .time = time,
        .closed = cost.closed,
        .width_count = trial_sizes(c, tokens),
        .heals = heals_run(c),
        .may_be_quick = recipe_is_open(c) && s->effort != EFFORT_QUICK,
        .token = cost.healing / (steps * batch * (double)c->length),
        .least_tokens = c->length == 1 ? least_images : least_tokens,
        .least = is_given(c, "read.samples") || all < LEAST_SAMPLES ? all : LEAST_SAMPLES,
        .most = all};
    cost_widths(c, rates, &cost, tokens, &costs);
    if (costs.may_be_quick) {
        set_recipe(c, true);
        CHECK(cost_of_recipe(c, rates, &quick));
        set_recipe(c, false);
        costs.quick = quick.closed;
    }
    if (division_make(&costs, &d, &least) != GRAIL_OK) {
        return too_short(s, s->facts.measured + least);
    }
    take_division(c, &d, &costs, tokens, cost.trials.alone + cost.trials.together);
    return GRAIL_OK;
}

static grail_status divide(choosing *c)
{
    grail_schedule *s = c->schedule;
    grail_rates rates = {0};
    const double began = clock_seconds();
    CHECK(measure_rates(c, &rates));
    s->facts.measured = clock_seconds() - began;
    s->facts.expected = clock_seconds() - s->began;
    const double time = usable_time(c, s->facts.time) - s->facts.expected;
    return c->subject == GRAIL_SCHEDULE_PLAN ? divide_plan(c, &rates, time)
           : c->run->heal.teacher != NULL    ? divide_healing(c, &rates, time)
                                             : divide_run(c, &rates, time);
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

static grail_status choose(choosing *c)
{
    grail_schedule *s = c->schedule;
    const bool resumes = c->run->output.resume != 0 && s->path != NULL;
    bool begun = false;
    const bool is_kept = s->path != NULL && file_exists(s->path);
    if (is_kept && resumes) {
        return take_kept(c);
    }
    if (is_kept && c->run->output.dry_run == 0) {
        return error_set(GRAIL_ERROR_EXISTS,
                         "'%s' holds what an interrupted run towards '%s' had chosen; resume "
                         "that run, or remove the file",
                         s->path, c->run->output.path);
    }
    if (resumes) {
        CHECK(was_begun(c, &begun));
    }
    CHECK(apply_effort(c));
    if (s->facts.time > 0.0 && !begun) {
        CHECK(divide(c));
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
    TRY(choose(&c));
    if (s->effort != EFFORT_NONE || s->facts.resumed != 0) {
        tell_choices(&c);
    }
    *out = s;
    s = NULL;
out:
    grail_schedule_free(s);
    return status;
}
