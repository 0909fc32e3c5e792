#include "planning/choosing.h"

#include "arch/model.h"
#include "pipeline/request/usual_samples.h"
#include "planning/rates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { QUICK_SAMPLES = 32 };

bool choosing_is_given(const choosing *c, const char *field)
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

bool choosing_leaves_recipe(const choosing *c)
{
    return c->run->amount.plan == NULL && c->run->amount.plan_text == NULL &&
           c->run->heal.teacher == NULL && !choosing_is_given(c, "cut.selector") &&
           !choosing_is_given(c, "fit.compensate");
}

void choosing_set_recipe(choosing *c, bool is_quick)
{
    if (choosing_leaves_recipe(c)) {
        c->run->cut.selector = is_quick ? "wanda" : "obs";
        c->run->fit.compensate = is_quick ? "grail" : "full";
    }
}

static bool chooses_widths(const choosing *c)
{
    return c->subject != GRAIL_SCHEDULE_RUN && !choosing_is_given(c, "budget");
}

void choosing_set_budget(choosing *c, const char *budget)
{
    if (chooses_widths(c)) {
        c->options->budget = budget;
    }
}

bool choosing_heals(const choosing *c)
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
    const int64_t fewer = c->most_healed > 0 && c->most_healed < most ? c->most_healed : most;
    const int64_t all = wanted < fewer ? wanted : fewer;
    const int64_t read =
        c->run->read.samples > 0 ? c->run->read.samples : usual_samples(c->graph, c->length);
    if (!choosing_is_given(c, "heal.own_samples")) {
        c->run->heal.own_samples = all > read ? all : 0;
    }
}

void choosing_set_tokens(choosing *c, double tokens)
{
    enum { MOST_SAMPLES = 64, IMAGES = 64, MOST_IMAGE_STEPS = 640 };
    static const double most = 1e10;
    grail_heal_options *h = &c->run->heal;
    const bool of_images = c->length == 1;
    const double of_step = tokens < 1.5e5 ? 2048.0 : tokens < 8e5 ? 4096.0 : 8192.0;
    const double windows = fmin(fmax(1.0, floor(of_step / (double)c->length)), MOST_SAMPLES);
    if (!choosing_is_given(c, "heal.batch")) {
        h->batch = of_images ? IMAGES : (int64_t)windows;
    }
    const double batch = (double)(h->batch > 0 ? h->batch : 1);
    if (!choosing_is_given(c, "heal.steps")) {
        const double steps = fmax(1.0, floor(fmin(tokens, most) / batch / (double)c->length));
        h->steps = (int64_t)(of_images ? fmin(steps, MOST_IMAGE_STEPS) : steps);
    }
    set_own_samples(c, h->steps * h->batch);
}

static void set_healing(choosing *c, bool heals)
{
    static const double usual_tokens = 3e5;
    static const int64_t usual_images = 160 * 64; /* what steps see where none are named */
    if (choosing_is_given(c, "heal.what")) {
        return;
    }
    c->run->heal.what = !heals ? "none" : c->length == 1 ? "block,model" : "model";
    if (heals && c->length > 1) {
        choosing_set_tokens(c, usual_tokens);
    } else if (heals) {
        set_own_samples(c, usual_images);
    }
}

grail_status choosing_apply_effort(choosing *c)
{
    static const char *const of_plans[] = {"error", "divergence", "search"};
    static const double of_teachers[] = {1e5, 3e5, 1.6e6}; /* tokens */
    const effort_kind effort = c->schedule->effort;
    if (effort == EFFORT_NONE) {
        return GRAIL_OK;
    }
    if (c->run->heal.teacher != NULL) {
        choosing_set_tokens(c, of_teachers[effort]);
        return GRAIL_OK;
    }
    choosing_set_recipe(c, effort == EFFORT_QUICK);
    choosing_set_budget(c, c->subject == GRAIL_SCHEDULE_PLAN ? of_plans[effort]
                           : effort == EFFORT_QUICK          ? "uniform"
                                                             : "divergence");
    if (c->subject != GRAIL_SCHEDULE_PLAN) {
        set_healing(c, effort == EFFORT_BEST);
    }
    named_samples few = {.count = c->run->read.samples};
    if (effort == EFFORT_QUICK && !choosing_is_given(c, "read.samples")) {
        CHECK(samples_at_most(c->run, QUICK_SAMPLES, &few));
    }
    c->run->read.samples = few.count;
    return GRAIL_OK;
}

void choosing_tell(choosing *c)
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
        say(s, "healing", choosing_heals(c) ? h->what : "none");
    }
    if (choosing_heals(c) && h->steps > 0) {
        say_number(s, "steps", h->steps);
    }
    s->facts.choices = s->choices;
}
