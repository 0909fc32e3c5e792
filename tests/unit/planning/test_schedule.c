/* What efforts and times choose, on a clock that goes on by a little whenever it is asked. */
#include "plans.h"

#include "../pipeline/vision_lab.h"

#include "base/clock.h"
#include "base/file.h"

#include <grail/schedule.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const double tick = 1e-3;
static double now;

static double ticking(void)
{
    now += tick;
    return now;
}

/* Options with the session of a golden decoder, and a limit. */
typedef struct asking {
    lab l;
    grail_plan_options options;
    grail_effort_options effort;
} asking;

static void asking_open(asking *a)
{
    lab_open(&a->l);
    grail_plan_options_init(&a->options);
    grail_effort_options_init(&a->effort);
    a->options.compress = lab_options(&a->l, lab_golden("llama3"), lab_path(&a->l, "out"));
    a->options.compress.cut.selector = "obs";
    a->options.compress.fit = (grail_fit_options){.compensate = "full"};
    a->options.compress.read.text.context = LAB_LENGTH;
    a->options.ratio = 0.8;
    a->options.kinds = "ffn,heads";
    assert_ok(grail_session_open(a->options.compress.read.model, NULL,
                                 &a->options.compress.read.session));
    now = 0.0;
    clock_replace(ticking);
}

static void asking_close(asking *a)
{
    clock_replace(NULL);
    grail_session_close(a->options.compress.read.session);
    lab_close(&a->l);
}

#define ASKING_TEST(name) TEST_OF(asking, a, asking_open, asking_close, name)

static grail_schedule *scheduled(asking *a, grail_schedule_subject subject, const char *given)
{
    grail_schedule *s = NULL;
    assert_ok(grail_schedule_make(&a->effort, subject, given, &a->options, &s));
    return s;
}

static void assert_chosen(asking *a, const char *given, const char *rule, const char *budget,
                          const char *heal, int64_t samples)
{
    grail_schedule *s = scheduled(a, GRAIL_SCHEDULE_LIMITED, given);
    const grail_compress_options *o = &a->options.compress;
    assert_string_equal(o->cut.selector, rule);
    assert_string_equal(o->fit.compensate, strcmp(rule, "wanda") == 0 ? "grail" : "full");
    assert_string_equal(a->options.budget, budget);
    assert_string_equal(o->heal.what == NULL ? "none" : o->heal.what, heal);
    assert_int_equal(o->read.samples, samples);
    assert_true(grail_schedule_left(s) == 0.0);
    assert_true(strstr(grail_schedule_facts_get(s).choices, rule) != NULL);
    grail_schedule_free(s);
}

ASKING_TEST(an_effort_chooses_repair_widths_and_healing)
{
    a->effort.effort = "quick";
    assert_chosen(a, NULL, "wanda", "uniform", "none", LAB_SAMPLES);
    a->options.compress.read.samples = 0;
    a->effort.effort = "usual";
    assert_chosen(a, NULL, "obs", "divergence", "none", 0);
    a->effort.effort = "best";
    assert_chosen(a, NULL, "obs", "divergence", "model", 0);
    const grail_heal_options *h = &a->options.compress.heal;
    assert_int_equal(h->batch, 64); /* windows of 32 tokens; 4,096 tokens would be 128 */
    assert_int_equal(h->steps, 300000 / 64 / 32);
    assert_true(h->own_samples > h->steps * h->batch);
}

ASKING_TEST(what_is_given_goes_before_an_effort)
{
    a->effort.effort = "quick";
    a->options.budget = "error";
    a->options.compress.read.samples = 5;
    a->options.compress.heal.what = "block";
    assert_chosen(a, "cut.selector read.samples budget heal.what", "obs", "error", "block", 5);
    a->effort.effort = "best";
    a->options.compress.heal.steps = 7;
    grail_schedule_free(scheduled(a, GRAIL_SCHEDULE_LIMITED, "heal.steps"));
    assert_int_equal(a->options.compress.heal.steps, 7);
}

ASKING_TEST(nothing_is_chosen_without_either)
{
    const grail_plan_options before = a->options;
    grail_schedule *s = scheduled(a, GRAIL_SCHEDULE_LIMITED, NULL);
    assert_true(a->options.schedule == s); /* for what is measured */
    a->options.schedule = NULL;
    assert_memory_equal(&a->options, &before, sizeof before);
    assert_string_equal(grail_schedule_facts_get(s).effort, "");
    assert_int_equal(grail_schedule_phase_at(s, 0, &(grail_schedule_phase){0}), 0);
    grail_schedule_free(s);
}

/* The parts that are told of are those that the options were set to. */
ASKING_TEST(a_time_is_divided)
{
    grail_schedule_phase p = {0};
    double sum = 0.0;
    a->effort.time_limit = 1000.0;
    grail_schedule *s = scheduled(a, GRAIL_SCHEDULE_LIMITED, NULL);
    const grail_schedule_facts f = grail_schedule_facts_get(s);
    assert_string_equal(f.effort, "best");
    assert_true(f.measured > 0.0 && f.measured < 100.0);
    for (int i = 0; grail_schedule_phase_at(s, i, &p) != 0; i++) {
        sum += p.seconds;
    }
    assert_string_equal(p.name, "healing");
    assert_true(p.seconds > 0.0 && p.steps == a->options.compress.heal.steps);
    assert_int_equal(p.tokens, p.steps * p.step_samples * LAB_LENGTH);
    assert_true(sum + f.measured <= 1000.0 && f.expected <= 1000.0 && f.expected > 900.0);
    assert_true(grail_schedule_left(s) > 0.0 && grail_schedule_left(s) < 1000.0 - f.measured);
    now += 2000.0;
    assert_true(grail_schedule_left(s) > 0.0 && grail_schedule_left(s) < 0.1);
    grail_schedule_free(s);
}

/* Drawing comes first, and the rest is divided as without it. Healing reads no more windows than
 * are drawn in its time. */
ASKING_TEST(drawing_has_a_part_of_the_time)
{
    grail_schedule_phase p = {0};
    double sum = 0.0;
    grail_compress_options *o = &a->options.compress;
    const grail_text_part parts[] = {{.path = "self"}, {.path = a->l.calibration}};
    o->read.samples = 0;
    o->read.parts = parts;
    o->read.part_count = 2;
    o->output.path = NULL;
    a->effort.time_limit = 1000.0;
    grail_schedule *s = scheduled(a, GRAIL_SCHEDULE_LIMITED, NULL);
    assert_int_equal(grail_schedule_phase_at(s, 0, &p), 1);
    assert_string_equal(p.name, "drawing text");
    assert_true(p.seconds > 0.0 && p.seconds < 300.0);
    assert_int_equal(p.samples, LAB_SAMPLES);
    for (int i = 0; grail_schedule_phase_at(s, i, &p) != 0; i++) {
        assert_true(p.seconds > 0.0);
        sum += p.seconds;
    }
    assert_string_equal(p.name, "healing");
    const grail_schedule_facts f = grail_schedule_facts_get(s);
    assert_true(sum + f.measured <= 1000.0 && f.expected <= 1000.0 && f.expected > 900.0);
    grail_schedule_free(s);
    a->effort.time_limit = 0.01;
    assert_fails(grail_schedule_make(&a->effort, GRAIL_SCHEDULE_PLAN, NULL, &a->options, &s),
                 GRAIL_ERROR_ARGUMENT, "the least is about");
}

/* Less and less time: healing goes, then widths, each with what it would take. */
ASKING_TEST(what_is_left_out_has_what_it_would_take)
{
    const grail_plan_options asked = a->options;
    bool out[2] = {false, false};
    for (double time = 128.0; !(out[0] && out[1]) && time > 1.0; time *= 0.6) {
        grail_schedule_phase p = {0};
        a->options = asked;
        a->options.compress.output.path = NULL;
        a->effort.time_limit = time;
        grail_schedule *s = scheduled(a, GRAIL_SCHEDULE_LIMITED, NULL);
        for (int i = 0; grail_schedule_phase_at(s, i, &p) != 0; i++) {
            assert_true((p.seconds > 0.0) != (p.would_take > 0.0));
            assert_true(p.trials == 0 || p.tokens == p.samples * LAB_LENGTH);
            out[0] = out[0] || (p.would_take > 0.0 && strcmp(p.name, "healing") == 0);
            out[1] = out[1] || (p.would_take > 0.0 && strcmp(p.name, "measured widths") == 0);
        }
        grail_schedule_free(s);
    }
    assert_true(out[0] && out[1]);
}

static double forecast_of_widths(const asking *a, const grail_rates *rates, double *run)
{
    grail_plan *p = NULL;
    grail_compression *c = NULL;
    grail_forecast f = {0};
    double seconds = 0.0;
    grail_plan_options dry = a->options;
    dry.compress.output = (grail_output_options){.dry_run = 1};
    assert_ok(grail_plan_make(&dry, &p));
    dry.compress.amount.plan_text = grail_plan_text(p);
    assert_ok(grail_compression_open(&dry.compress, &c));
    assert_ok(grail_compression_forecast_at(c, &dry.compress, rates, &f));
    assert_ok(grail_plan_forecast(p, c, &dry.compress, rates, &seconds));
    grail_compression_close(c);
    grail_plan_free(p);
    *run = f.seconds;
    return seconds;
}

/* Units are chosen for the curves, once in all trials of single sites, and in two compressions that
 * judge; none is read again for a run without refits. */
ASKING_TEST(trials_take_what_they_do)
{
    double run = 0.0;
    const grail_rates selection = {.selection = 1e-9};
    const grail_rates statistics = {.statistics = 1e-9};
    a->options.budget = "divergence";
    a->options.compress.read.samples = 0;
    const double chosen = forecast_of_widths(a, &selection, &run);
    assert_true(run > 0.0);
    assert_near(chosen / run, 4.0, 1e-9);
    const double all = forecast_of_widths(a, &statistics, &run);
    a->options.trial_tokens = LAB_SAMPLES * LAB_LENGTH / 2;
    assert_near(forecast_of_widths(a, &statistics, &run) / all, 0.5, 1e-9);
    a->options.budget = "uniform";
    assert_true(forecast_of_widths(a, &selection, &run) == 0.0);
}

/* Every kind of work of a run, on a part of it. */
ASKING_TEST(rates_are_measured)
{
    grail_rates r = {0};
    grail_compress_options o = a->options.compress;
    o.heal.what = "model";
    o.output.path = NULL;
    assert_ok(grail_rates_measure(&o, &r));
    assert_true(r.products > 0.0 && r.attention > 0.0 && r.elementwise > 0.0 && r.fits > 0.0 &&
                r.statistics > 0.0 && r.selection > 0.0 && r.weights > 0.0 && r.healing > 0.0);
}

ASKING_TEST(a_time_too_short_says_the_least)
{
    grail_schedule *s = NULL;
    a->effort.time_limit = 0.01;
    assert_fails(grail_schedule_make(&a->effort, GRAIL_SCHEDULE_RUN, NULL, &a->options, &s),
                 GRAIL_ERROR_ARGUMENT, "the least is about");
    assert_true(!file_exists(lab_path(&a->l, "out.schedule")));
}

ASKING_TEST(times_that_are_none_are_refused)
{
    static const double bad[] = {-1.0, 1e12, (double)NAN, (double)INFINITY};
    grail_schedule *s = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        a->effort.time_limit = bad[i];
        assert_fails(grail_schedule_make(&a->effort, GRAIL_SCHEDULE_RUN, NULL, &a->options, &s),
                     GRAIL_ERROR_ARGUMENT, "the time in seconds");
    }
    a->effort.time_limit = 0.0;
    a->effort.effort = "most";
    assert_fails(grail_schedule_make(&a->effort, GRAIL_SCHEDULE_RUN, NULL, &a->options, &s),
                 GRAIL_ERROR_ARGUMENT, "effort");
}

/* Few images are learnt by heart, but not by a training that is told how many it has. */
VISION_TEST(more_images_are_healed_on_than_are_calibrated_on)
{
    grail_plan_options o;
    grail_effort_options effort;
    grail_schedule *s = NULL;
    const char *dense = vision_network(v, VISION_BASIC, "dense");
    grail_plan_options_init(&o);
    grail_effort_options_init(&effort);
    o.compress = vision_options(v, dense, NULL);
    assert_ok(grail_session_open(o.compress.read.model, NULL, &o.compress.read.session));
    effort.effort = "best";
    assert_ok(grail_schedule_make(&effort, GRAIL_SCHEDULE_RUN, NULL, &o, &s));
    assert_string_equal(o.compress.heal.what, "block,model");
    assert_int_equal(o.compress.heal.own_samples, 2048);
    grail_schedule_free(s);
    o.compress.heal.own_samples = 0;
    assert_ok(grail_schedule_make(&effort, GRAIL_SCHEDULE_RUN, "heal.own_samples", &o, &s));
    assert_int_equal(o.compress.heal.own_samples, 0);
    grail_schedule_free(s);
    grail_session_close(o.compress.read.session);
}

/* What was chosen cannot be kept: the file is named, and none is there that is half. */
ASKING_TEST(a_disk_that_is_full_is_told)
{
    struct rlimit before;
    grail_schedule *s = NULL;
    a->effort.time_limit = 500.0;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    void (*const handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    const grail_status status =
        grail_schedule_make(&a->effort, GRAIL_SCHEDULE_LIMITED, NULL, &a->options, &s);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_fails(status, GRAIL_ERROR_SPACE, "out.schedule");
    assert_true(!file_exists(lab_path(&a->l, "out.schedule")));
    s = scheduled(a, GRAIL_SCHEDULE_LIMITED, NULL);
    assert_true(file_exists(lab_path(&a->l, "out.schedule")));
    grail_schedule_free(s);
}

/* An allocation that fails leaves no file, or a whole one that a resumed run takes. */
ASKING_TEST(failing_allocations_are_survived)
{
    grail_status status = GRAIL_ERROR_MEMORY;
    const grail_plan_options asked = a->options;
    if (!support_walks_failures()) {
        skip();
    }
    a->effort.time_limit = 500.0;
    for (int64_t n = 1; status != GRAIL_OK; n = support_next_failure(n)) {
        grail_schedule *s = NULL;
        a->options = asked;
        a->options.compress.output.resume = file_exists(lab_path(&a->l, "out.schedule")) ? 1 : 0;
        memory_fail_after(n);
        status = grail_schedule_make(&a->effort, GRAIL_SCHEDULE_LIMITED, NULL, &a->options, &s);
        memory_fail_after(-1);
        assert_true(status == GRAIL_OK || status == GRAIL_ERROR_MEMORY);
        assert_int_equal(s != NULL, status == GRAIL_OK);
        grail_schedule_free(s);
    }
    assert_string_equal(a->options.budget, "divergence");
}

/* An interrupted run goes on with what it had chosen, whatever the time is now. */
ASKING_TEST(a_run_that_resumes_keeps_what_was_chosen)
{
    grail_schedule *s = NULL;
    const grail_plan_options asked = a->options;
    a->effort.time_limit = 500.0;
    s = scheduled(a, GRAIL_SCHEDULE_LIMITED, NULL);
    const grail_plan_options chosen = a->options;
    const int64_t steps = chosen.compress.heal.steps;
    assert_true(grail_schedule_plan(s) == NULL);
    assert_ok(grail_schedule_keep_plan(s, "{\"a\": 1}"));
    grail_schedule_free(s);
    a->options = asked;
    assert_fails(grail_schedule_make(&a->effort, GRAIL_SCHEDULE_LIMITED, NULL, &a->options, &s),
                 GRAIL_ERROR_EXISTS, "interrupted run");
    a->options.compress.output.resume = 1;
    a->effort.time_limit = 50.0;
    s = scheduled(a, GRAIL_SCHEDULE_LIMITED, NULL);
    assert_int_equal(grail_schedule_facts_get(s).resumed, 1);
    assert_int_equal(a->options.compress.heal.steps, steps);
    assert_int_equal(a->options.compress.heal.batch, chosen.compress.heal.batch);
    assert_int_equal(a->options.compress.read.samples, chosen.compress.read.samples);
    assert_string_equal(grail_schedule_plan(s), "{\"a\": 1}");
    assert_true(grail_schedule_left(s) > 40.0 && grail_schedule_left(s) < 50.0);
    assert_ok(grail_schedule_finish(s));
    assert_true(!file_exists(lab_path(&a->l, "out.schedule")));
    grail_schedule_free(s);
}

/* Passes of the network, of which the last one that may be is interrupted. */
typedef struct passes {
    int made, most;
} passes;

static int count_passes(void *user, int block, int blocks, double done)
{
    passes *p = user;
    (void)block;
    (void)blocks;
    (void)done;
    p->made++;
    return p->made >= p->most ? 1 : 0;
}

static grail_status plan_towards(asking *a, passes *p, bool resumes, grail_plan **out)
{
    grail_compress_options *o = &a->options.compress;
    grail_session_close(o->read.session); /* which knows what it has measured */
    assert_ok(grail_session_open(lab_golden("llama3"), NULL, &o->read.session));
    o->output.resume = resumes ? 1 : 0;
    o->run.step_observer = count_passes;
    o->run.observer_user = p;
    grail_schedule *s = scheduled(a, GRAIL_SCHEDULE_LIMITED, NULL);
    const grail_status status = grail_plan_make(&a->options, out);
    assert_ok(status == GRAIL_OK ? grail_schedule_finish(s) : GRAIL_OK);
    grail_schedule_free(s);
    return status;
}

/* A run that was interrupted in the middle of its trials goes on with the next one, to the same
 * widths; one that begins anew makes all of them. */
ASKING_TEST(trials_are_not_made_again_by_a_run_that_resumes)
{
    const char *kept = lab_path(&a->l, "out.schedule");
    passes all = {.most = 1000000};
    passes anew = all;
    passes rest = all;
    grail_plan *whole = NULL;
    grail_plan *resumed = NULL;
    a->options.budget = "divergence";
    assert_ok(plan_towards(a, &all, false, &whole));
    assert_true(!file_exists(kept));
    grail_plan_free(whole);
    passes half = {.most = all.made / 2};
    assert_fails(plan_towards(a, &half, false, &whole), GRAIL_ERROR_CANCELLED, "cancelled");
    assert_true(file_exists(kept));
    assert_ok(plan_towards(a, &anew, false, &whole));
    assert_int_equal(anew.made, all.made);
    half.made = 0;
    assert_fails(plan_towards(a, &half, false, &resumed), GRAIL_ERROR_CANCELLED, "cancelled");
    assert_ok(plan_towards(a, &rest, true, &resumed));
    assert_true(rest.made > 0 && rest.made < all.made * 2 / 3);
    assert_string_equal(grail_plan_text(resumed), grail_plan_text(whole));
    assert_true(!file_exists(kept));
    grail_plan_free(whole);
    grail_plan_free(resumed);
}

ASKING_TEST(what_another_run_has_chosen_is_refused)
{
    a->effort.time_limit = 500.0;
    grail_schedule_free(scheduled(a, GRAIL_SCHEDULE_LIMITED, NULL));
    grail_schedule *s = NULL;
    a->options.compress.output.resume = 1;
    a->options.ratio = 0.7;
    assert_fails(grail_schedule_make(&a->effort, GRAIL_SCHEDULE_LIMITED, NULL, &a->options, &s),
                 GRAIL_ERROR_ARGUMENT, "another run");
    FILE *file = fopen(lab_path(&a->l, "out.schedule"), "w");
    assert_non_null(file);
    assert_true(fputs("{\"grail_schedule\": 1", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_fails(grail_schedule_make(&a->effort, GRAIL_SCHEDULE_LIMITED, NULL, &a->options, &s),
                 GRAIL_ERROR_FORMAT, "out.schedule");
}
