/* Plans of one session share what they measured: each is as if it were alone, whatever was planned
 * before it, and nothing is measured twice. */
#include "plans.h"

#include "../pipeline/vision_lab.h"

#include "base/random.h"
#include "planning/shared.h"

#include <grail/gram.h>
#include <grail/machine.h>

#include <string.h>
#include <unistd.h>

/* -- choices ----------------------------------------------------------------------------------- */

typedef struct place {
    lab text;
    vision_lab images;
    const char *residual, *biased; /* networks that read images, and text */
    char statistics[LAB_PATH];     /* of the latter */
} place;

static void place_open(place *p)
{
    lab_open(&p->text);
    vision_open(&p->images);
    p->residual = vision_network(&p->images, VISION_BASIC, "network");
    p->biased = lab_with_biases(&p->text, "llama3", "biased");
    snprintf(p->statistics, sizeof p->statistics, "%s", lab_path(&p->text, "statistics.gguf"));
}

static void place_close(place *p)
{
    vision_close(&p->images);
    lab_close(&p->text);
}

#define PLACE_TEST(name) TEST_OF(place, p, place_open, place_close, name)

/* What changes between two plans of a session. */
typedef struct change {
    const char *name;
    void (*make)(const place *p, grail_compress_options *o);
    bool keeps_curves, keeps_trials; /* of what was measured before */
} change;

static void nothing(const place *p, grail_compress_options *o)
{
}

static void other_selector(const place *p, grail_compress_options *o)
{
    o->cut.selector = "wanda";
}

static void other_seed(const place *p, grail_compress_options *o)
{
    o->read.seed = 7;
}

static void other_samples(const place *p, grail_compress_options *o)
{
    o->read.samples = 12;
}

static void other_gqa(const place *p, grail_compress_options *o)
{
    o->cut.gqa = GRAIL_GQA_QUERY_PER_GROUP;
}

static void no_repair(const place *p, grail_compress_options *o)
{
    o->fit.compensate = "none";
    o->fit.refit = o->fit.token_weights = NULL;
}

static void repair_of_the_paper(const place *p, grail_compress_options *o)
{
    o->fit.compensate = "grail";
}

static void other_target(const place *p, grail_compress_options *o)
{
    o->fit.target = "local";
}

static void other_bias(const place *p, grail_compress_options *o)
{
    o->fit.bias = "off";
}

static void other_conv_fit(const place *p, grail_compress_options *o)
{
    o->fit.conv_fit = "channel";
}

static void other_alpha(const place *p, grail_compress_options *o)
{
    o->fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 0.125};
}

static void other_refit(const place *p, grail_compress_options *o)
{
    o->fit.refit = "all";
}

static void other_token_weights(const place *p, grail_compress_options *o)
{
    o->fit.token_weights = "stream";
}

static void batch_norms(const place *p, grail_compress_options *o)
{
    o->fit.repair = 1;
}

static void other_precision(const place *p, grail_compress_options *o)
{
    o->run.precision = "bf16";
}

static void backend_of_tests(const place *p, grail_compress_options *o)
{
    o->run.backend = "ref";
}

static void other_statistics(const place *p, grail_compress_options *o)
{
    const grail_gram_options g = {.path = p->statistics, .full = 1};
    grail_compress_options run = *o;
    grail_gram_facts facts;
    unlink(p->statistics);
    run.read.session = NULL;
    run.read.samples = 12;
    assert_ok(grail_gram_write(&run, &g, &facts));
    o->cut.statistics = p->statistics;
}

/* A plan heals nothing. */
static void healing(const place *p, grail_compress_options *o)
{
    o->heal.what = "block,model";
}

static void other_align(const place *p, grail_compress_options *o)
{
    o->cut.align = 8;
}

static void deviation(const place *p, grail_compress_options *o)
{
    static grail_image_source other;
    other = *o->read.images;
    other.deviation = (grail_colour){1, {0.5, 0.5, 0.5}};
    o->read.images = &other;
}

static const change of_text[] = {
    {"nothing", nothing, true, true},
    {"selector", other_selector, true, false},
    {"seed", other_seed, false, false},
    {"samples", other_samples, false, false},
    {"gqa", other_gqa, false, false},
    {"no repair", no_repair, false, false}, /* no fit has a bias then */
    {"bias", other_bias, false, false},
    {"target", other_target, true, false},
    {"conv_fit", other_conv_fit, true, false}, /* there are no convolutions */
    {"alpha", other_alpha, true, false},
    {"refit", other_refit, true, false},
    {"token_weights", other_token_weights, true, false},
    {"precision", other_precision, false, false},
    {"backend", backend_of_tests, false, false},
    {"statistics", other_statistics, false, false},
    {"healing", healing, true, true},
    {"alignment", other_align, true, false},
};

static const change of_images[] = {
    {"nothing", nothing, true, true},
    {"seed", other_seed, false, false},
    {"no repair", no_repair, false, false},
    {"repair of the paper", repair_of_the_paper, false, false},
    {"conv_fit", other_conv_fit, false, false},
    {"BatchNorms", batch_norms, true, false},
    {"deviation", deviation, false, false},
};

/* -- loss curves ------------------------------------------------------------------------------- */

/* Hashes those of a request that judges or not; *shared tells whether the session had them. */
static void hash_curves(const grail_compress_options *o, bool judges, char hash[HASH_TEXT_SIZE],
                        bool *shared)
{
    compression_request *r = NULL;
    loss_curves curves = {0};
    loss_times times = {0};
    grail_compress_options uncut = *o;
    const request_purpose purpose = {.reads_samples = true, .judges = judges};
    uncut.amount = (grail_amount_options){0};
    assert_ok(request_open(&uncut, purpose, &r));
    assert_ok(shared_curves(r, &uncut, &times, &curves));
    hash_bytes(curves.numbers, curves.count * sizeof curves.numbers[0], hash);
    *shared = !(times.pass > 0.0);
    loss_curves_fini(&curves);
    request_close(r);
}

/* In the session of `o`, and alone. */
static void assert_curves(const grail_compress_options *o, bool judges, bool shares,
                          const char *name)
{
    char together[HASH_TEXT_SIZE];
    char alone[HASH_TEXT_SIZE];
    bool shared = false;
    bool again = false;
    grail_compress_options own = *o;
    own.read.session = NULL;
    hash_curves(o, judges, together, &shared);
    hash_curves(&own, judges, alone, &again);
    assert_false(again);
    if (strcmp(together, alone) != 0 || shared != shares) {
        fail_msg("%s: the session %s, and gives %s curves", name, shared ? "had them" : "took them",
                 strcmp(together, alone) == 0 ? "these" : "other");
    }
}

static void walk_curves(const place *p, const grail_compress_options *base, const change *changes,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        grail_compress_options o = *base;
        char hash[HASH_TEXT_SIZE];
        bool shared = false;
        if (changes[i].make == other_precision && !lab_computes_bf16(changes[i].name)) {
            continue;
        }
        assert_ok(grail_session_open(base->read.model, NULL, &o.read.session));
        hash_curves(&o, false, hash, &shared);
        assert_false(shared);
        assert_curves(&o, true, false, "samples that judge");
        changes[i].make(p, &o);
        for (int judges = 0; judges < 2; judges++) {
            assert_curves(&o, judges == 1, changes[i].keeps_curves, changes[i].name);
        }
        grail_session_close(o.read.session);
    }
}

static grail_compress_options text_options(const place *p)
{
    grail_compress_options o = lab_options(&p->text, p->biased, NULL);
    o.cut.selector = "obs";
    o.read.samples = 8;
    return o;
}

static grail_compress_options image_options(const place *p)
{
    grail_compress_options o = vision_options(&p->images, p->residual, NULL);
    o.cut.selector = "obs";
    o.read.samples = 8;
    return o;
}

PLACE_TEST(curves_are_shared_where_they_follow_from_the_same)
{
    const grail_compress_options text = text_options(p);
    const grail_compress_options images = image_options(p);
    walk_curves(p, &text, of_text, sizeof of_text / sizeof of_text[0]);
    walk_curves(p, &images, of_images, sizeof of_images / sizeof of_images[0]);
}

PLACE_TEST(curves_of_other_threads_are_others)
{
    char hash[HASH_TEXT_SIZE];
    bool shared = false;
    grail_compress_options o = text_options(p);
    assert_ok(grail_session_open(o.read.model, NULL, &o.read.session));
    const int threads = grail_threads();
    for (int i = 0; i < 3; i++) {
        grail_set_threads(1 + i % 2);
        hash_curves(&o, false, hash, &shared);
        assert_int_equal(shared, i == 2);
    }
    grail_set_threads(threads);
    grail_session_close(o.read.session);
}

/* -- trials ------------------------------------------------------------------------------------ */

static int64_t kept_count(const grail_plan_options *o)
{
    return (int64_t)o->compress.read.session->kept.count;
}

/* The document holds what a search judged. */
static void assert_as_alone(const grail_plan_options *o, const char *name)
{
    grail_plan_options own = *o;
    own.compress.read.session = NULL;
    OWNED(grail_plan) *together = made(o);
    OWNED(grail_plan) *alone = made(&own);
    if (strcmp(grail_plan_text(together), grail_plan_text(alone)) != 0) {
        fail_msg("%s: the plan of the session is another one", name);
    }
    assert_int_equal(grail_plan_facts_get(together).tried, grail_plan_facts_get(alone).tried);
}

static void walk_plans(const place *p, const grail_compress_options *base, const change *changes,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        grail_plan_options o = plan_for(base, "search", 0.8);
        if (changes[i].make == other_precision && !lab_computes_bf16(changes[i].name)) {
            continue;
        }
        o.tries = 1;
        o.compress.cut.selector = base->cut.selector;
        assert_ok(grail_session_open(base->read.model, NULL, &o.compress.read.session));
        grail_plan_free(made(&o));
        const int64_t before = kept_count(&o);
        assert_int_equal(before, 1 + 1);
        changes[i].make(p, &o.compress);
        assert_as_alone(&o, changes[i].name);
        if (kept_count(&o) !=
            before + (changes[i].keeps_curves ? 0 : 1) + (changes[i].keeps_trials ? 0 : 1)) {
            fail_msg("%s: the session has %d arrays, before %d", changes[i].name,
                     (int)kept_count(&o), (int)before);
        }
        grail_session_close(o.compress.read.session);
    }
}

PLACE_TEST(trials_are_shared_where_they_follow_from_the_same)
{
    const grail_compress_options text = text_options(p);
    const grail_compress_options images = image_options(p);
    walk_plans(p, &text, of_text, sizeof of_text / sizeof of_text[0]);
    walk_plans(p, &images, of_images, sizeof of_images / sizeof of_images[0]);
}

/* -- sweeps of plans --------------------------------------------------------------------------- */

static grail_plan_options in_session(const place *p, const char *budget, double ratio)
{
    const grail_compress_options run = text_options(p);
    const grail_plan_options o = plan_for(&run, budget, ratio);
    return o;
}

PLACE_TEST(ratios_and_budgets_share_one_pass)
{
    static const char *const budgets[] = {"error", "divergence"};
    static const double ratios[] = {0.9, 0.8, 0.7};
    int passes = 0;
    OPENED(grail_session, session, grail_session_open(p->biased, NULL, &session));
    for (int i = 0; i < 6; i++) {
        grail_plan_options o = in_session(p, budgets[i / 3], ratios[i % 3]);
        OWNED(grail_plan) *alone = made(&o);
        o.compress.read.session = session;
        OWNED(grail_plan) *together = made(&o);
        assert_string_equal(grail_plan_text(together), grail_plan_text(alone));
        assert_true(grail_plan_facts_get(alone).pass_seconds > 0.0);
        passes += grail_plan_facts_get(together).pass_seconds > 0.0 ? 1 : 0;
    }
    assert_int_equal(passes, 1);
}

/* The trials of single slots are the same for a search and for weights alone, and the openings are
 * those of a longer search. */
PLACE_TEST(a_search_goes_on_where_others_were)
{
    grail_plan_options o = in_session(p, "divergence", 0.8);
    o.compress.read.samples = 4;
    assert_ok(grail_session_open(p->biased, NULL, &o.compress.read.session));
    grail_plan_free(made(&o));
    const int64_t alone = kept_count(&o) - 1;
    assert_true(alone > 1);
    o.budget = "search";
    o.tries = 16; /* so many that slots are weighed */
    grail_plan *first = made(&o);
    const int64_t tried = grail_plan_facts_get(first).tried;
    assert_int_equal(kept_count(&o), alone + 1 + tried + 1);
    grail_plan_free(first);
    o.tries = 18;
    assert_as_alone(&o, "a longer search");
    assert_in_range(kept_count(&o), alone + 1 + tried + 2, alone + 1 + tried + 3);
    grail_session_close(o.compress.read.session);
}

/* -- other files, ends and failures ------------------------------------------------------------ */

static void change_text(const place *p)
{
    int32_t ids[LAB_SAMPLES * LAB_LENGTH];
    random_state random;
    random_seed(&random, 8, 0);
    for (int i = 0; i < LAB_SAMPLES * LAB_LENGTH; i++) {
        ids[i] = (int32_t)random_below(&random, 90);
    }
    lab_write_ids(&p->text, "ids.npy", LAB_SAMPLES, LAB_LENGTH, ids);
}

/* A file that has changed when it is read again gives other samples under the same options. */
PLACE_TEST(samples_are_told_apart_by_what_they_hold)
{
    grail_plan_options o = in_session(p, "search", 0.8);
    o.tries = 2;
    assert_ok(grail_session_open(p->biased, NULL, &o.compress.read.session));
    grail_plan_free(made(&o));
    change_text(p);
    o.compress.read.samples = 12;
    assert_as_alone(&o, "more samples");
    o.compress.read.samples = 8;
    assert_as_alone(&o, "another text");
    assert_int_equal(kept_count(&o), 3 * (1 + 2 + 2)); /* with both that the verdict judges */
    grail_session_close(o.compress.read.session);
}

static int stop(void *user, const grail_plan_trial *t)
{
    const int *at = user;
    return t->tried >= *at;
}

PLACE_TEST(a_plan_that_was_stopped_leaves_what_it_measured)
{
    int at = 2;
    grail_plan_options o = in_session(p, "search", 0.8);
    assert_ok(grail_session_open(p->biased, NULL, &o.compress.read.session));
    o.observer = stop;
    o.observer_user = &at;
    grail_plan_free(made(&o));
    assert_int_equal(kept_count(&o), 1 + at);
    o.observer = NULL;
    assert_as_alone(&o, "a whole search");
    grail_session_close(o.compress.read.session);
}

/* What is cut in the options is no part of a plan, and of a network with a teacher nothing is. */
PLACE_TEST(curves_are_of_the_whole_network)
{
    grail_plan *again = NULL;
    grail_plan_options o = in_session(p, "error", 0.8);
    grail_plan *plain = made(&o);
    for (int k = 0; grail_site_kind_at(k) != NULL; k++) {
        *grail_compress_sparsity(&o.compress, grail_site_kind_at(k)) = 0.25;
    }
    again = made(&o);
    assert_string_equal(grail_plan_text(again), grail_plan_text(plain));
    grail_plan_free(again);
    grail_plan_free(plain);
    o.compress.heal.teacher = p->biased;
    assert_fails(grail_plan_make(&o, &again), GRAIL_ERROR_ARGUMENT, "leave out the teacher");
    assert_string_equal(grail_error_fields(), "heal.teacher");
}
