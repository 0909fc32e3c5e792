/* Weights of errors by what the cut of one site alone does to the network's output. */
#include "plans.h"

#include "../pipeline/vision_lab.h"

#include "planning/search.h"
#include "planning/slot_weights.h"
#include "planning/trials.h"

#include <math.h>
#include <string.h>

typedef struct trials {
    int count, stop_at;
    double divergence[64];
} trials;

static int note(void *user, const grail_plan_trial *t)
{
    trials *n = user;
    assert_true(n->count < 64);
    assert_int_equal(t->tried, n->count + 1);
    assert_true(t->is_alone == 1 && t->tried <= t->most && t->cost > 0.0);
    n->divergence[n->count++] = t->divergence;
    return n->count == n->stop_at;
}

static grail_status measure(const grail_compress_options *run, const spaced *s, trials *n,
                            double *weights, slot_trials *made)
{
    grail_plan_options options = plan_for(run, "divergence", 0.8);
    options.observer = note;
    options.observer_user = n;
    return slot_weights_measure(&s->space, s->request->samples, &options, 0.0, weights, made);
}

/* weights[slot] e(K) is the divergence of the network in which that slot alone has K units. */
VISION_TEST(a_weight_is_the_divergence_of_a_single_cut)
{
    OWNED(lab) l;
    lab_open(&l);
    const char *network = vision_network(v, VISION_BASIC, "network");
    const grail_compress_options runs[] = {lab_options(&l, lab_golden("llama3"), NULL),
                                           vision_options(v, network, NULL)};
    for (int i = 0; i < 2; i++) {
        spaced s = {0};
        trials n = {0};
        double weights[64];
        slot_trials tried = {0};
        grail_compress_options run = runs[i];
        grail_session *session = NULL;
        run.cut.selector = "obs";
        run.fit.refit = "none";
        run.cut.metric = "plain"; /* as trials choose */
        assert_ok(grail_session_open(run.read.model, NULL, &session));
        run.read.session = session; /* its trials begin where the dense network was carried to */
        spaced_open(&run, SHARE_NONE, &s);
        assert_ok(measure(&run, &s, &n, weights, &tried));
        run.read.session = NULL; /* and these before node 0 */
        assert_int_equal(tried.count, n.count);
        assert_int_equal(tried.count, s.space.slot_count);
        int64_t kept[64];
        const calibration *c = s.request->samples;
        run.read.samples = slot_weights_samples(s.request->graph, 0, c->windows.length, c->count);
        const formula_choice uniform = {.formula = FORMULA_UNIFORM, .head_factor = 1.0};
        for (int slot = 0; slot < s.space.slot_count; slot++) {
            divergence d = {0};
            assert_ok(widths_by_formula(&s.space, uniform, kept));
            int64_t width = width_space_slot(&s.space, slot, kept);
            if (width == s.space.slots[slot].units) {
                width -= s.space.slots[slot].step;
            }
            for (int k = 0; k < s.request->sites->list.count; k++) {
                kept[k] = site_at(s.request, k)->units;
            }
            width_space_set_slot(&s.space, slot, width, kept);
            assert_ok(judge_widths(&run, kept, JUDGES_CHOICES, NULL, &d));
            const double mean = divergence_mean(&d);
            assert_true(mean > 0.0);
            assert_near(n.divergence[slot], mean, 1e-12 * mean);
            assert_near(weights[slot] * s.space.slots[slot].errors[width], mean, 1e-9 * mean);
            divergence_fini(&d);
        }
        spaced_close(&s);
        grail_session_close(session);
    }
}

/* The slot trials of a plan read the samples that its tokens make, and images all. */
TEST(a_trial_reads_the_tokens_that_are_asked_for)
{
    lab l;
    grail_session *session = NULL;
    double few = 0.0;
    double weights[64];
    lab_open(&l);
    grail_compress_options run = lab_options(&l, lab_golden("llama3"), NULL);
    run.cut.selector = "obs";
    assert_ok(grail_session_open(run.read.model, NULL, &session));
    run.read.session = session;
    for (int i = 0; i < 2; i++) {
        spaced s = {0};
        trials n = {.stop_at = 1};
        slot_trials made = {0};
        spaced_open(&run, SHARE_NONE, &s);
        grail_plan_options options = plan_for(&run, "divergence", 0.8);
        options.observer = note;
        options.observer_user = &n;
        options.trial_tokens = i == 0 ? 8 * LAB_LENGTH : 0;
        assert_ok(
            slot_weights_measure(&s.space, s.request->samples, &options, 0.0, weights, &made));
        assert_true(i == 0 || n.divergence[0] != few);
        few = n.divergence[0];
        const graph *g = s.request->graph;
        assert_int_equal(slot_weights_samples(g, 8 * LAB_LENGTH, LAB_LENGTH, LAB_SAMPLES), 8);
        assert_int_equal(slot_weights_samples(g, 8 * LAB_LENGTH + 1, LAB_LENGTH, LAB_SAMPLES), 9);
        assert_int_equal(slot_weights_samples(g, INT64_MAX, LAB_LENGTH, LAB_SAMPLES), LAB_SAMPLES);
        assert_int_equal(slot_weights_samples(g, 0, 512, 1000), 64);
        spaced_close(&s);
    }
    grail_session_close(session);
    lab_close(&l);
}

/* Opens a trial that halves one site, and gives it its start; returns where its streams wait. */
static int start_of(trial_start *start, int cut)
{
    int64_t kept[64];
    compression_request *trial = NULL;
    calibration_network *network = NULL;
    const request_purpose purpose = {.kept = kept, .reads_samples = true, .judges = true};
    memcpy(kept, start->units, 64 * sizeof kept[0]);
    kept[cut] /= 2;
    assert_ok(request_open(start->options, purpose, &trial));
    assert_ok(network_create(trial, 0, &network));
    assert_ok(trial_start_give(start, network));
    const int position = network->current.stream.position;
    assert_int_equal(network->dense.stream.position, position);
    for (int64_t b = 0; position > 0 && b < trial->samples->batch_count; b++) {
        assert_true(sample_stream_holds(&network->current.stream, b));
        assert_true(sample_stream_holds(&network->dense.stream, b));
    }
    network_free(network);
    request_close(trial);
    return position;
}

static int begin_of(const grail_model *model, int block)
{
    int begin = 0;
    int end = 0;
    graph_block_range(model->graph, block, &begin, &end);
    return begin;
}

/* Trials in the order of the blocks begin before theirs; others, and those that need the dense
 * network's statistics first, before node 0. */
LAB_TEST(a_trial_begins_before_the_block_that_it_cuts)
{
    int64_t units[64] = {0};
    grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    OPENED(grail_session, session, grail_session_open(run.read.model, NULL, &session));
    run.read.session = session;
    run.amount.sparsity_ffn = run.amount.sparsity_heads = 0.0;
    spaced s = {0};
    spaced_open(&run, SHARE_NONE, &s);
    const int sites = s.request->sites->list.count;
    for (int i = 0; i < sites; i++) {
        units[i] = site_at(s.request, i)->units;
    }
    assert_true(sites == 4 && site_at(s.request, 0)->block == 0 &&
                site_at(s.request, sites - 1)->block == 1);
    for (int open = 0; open < 2; open++) {
        trial_start start = {.options = &run, .units = units};
        run.cut.select = open == 0 ? "closed" : "open";
        for (int i = 0; i < sites; i++) {
            const int block = site_at(s.request, i)->block;
            assert_int_equal(start_of(&start, i), open == 0 ? begin_of(session->model, block) : 0);
        }
        assert_int_equal(start_of(&start, 0), 0); /* the dense network is further on */
        trial_start_fini(&start);
    }
    spaced_close(&s);
}

LAB_TEST(slots_after_a_stop_get_the_mean)
{
    spaced s = {0};
    trials n = {.stop_at = 2};
    double weights[64];
    slot_trials tried = {0};
    grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    run.cut.selector = "obs";
    spaced_open(&run, SHARE_NONE, &s);
    assert_ok(measure(&run, &s, &n, weights, &tried));
    assert_int_equal(tried.count, 2);
    assert_true(tried.stopped);
    assert_true(s.space.slot_count > 2 && weights[0] != weights[1]);
    for (int slot = 2; slot < s.space.slot_count; slot++) {
        assert_near(weights[slot], 0.5 * (weights[0] + weights[1]), 1e-12 * weights[slot]);
    }
    spaced_close(&s);
}

/* One trial for all sites of a kind that get the same width. */
LAB_TEST(sites_of_one_width_are_cut_together)
{
    spaced s = {0};
    trials n = {0};
    double weights[64];
    slot_trials tried = {0};
    grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    run.cut.selector = "obs";
    spaced_open(&run, SHARE_ALL, &s);
    assert_ok(measure(&run, &s, &n, weights, &tried));
    assert_int_equal(tried.count, 2);
    spaced_close(&s);
}

LAB_TEST(a_plan_repeats_and_counts_its_trials)
{
    trials n = {0};
    const grail_compress_options run = lab_options(l, lab_golden("qwen2"), NULL);
    grail_plan_options options = plan_for(&run, "divergence", 0.8);
    OWNED(grail_plan) *first = made(&options);
    options.observer = note;
    options.observer_user = &n;
    OWNED(grail_plan) *second = made(&options);
    const grail_plan_facts facts = grail_plan_facts_get(second);
    assert_string_equal(grail_plan_text(first), grail_plan_text(second));
    assert_string_equal(facts.formula,
                        facts.ahead > 2.0 * facts.ahead_error ? "divergence" : "uniform");
    assert_int_equal(facts.tried, n.count);
    assert_true(n.count > 0 && facts.cost <= facts.most && facts.divergence > 0.0);
}

/* The trials of a search, in order. */
typedef struct heard {
    int alone, tried;
    int weighed_at; /* the trial by weighted errors; 0: none */
    int stop_alone; /* stops there; 0: nowhere */
} heard;

static int hear(void *user, const grail_plan_trial *t)
{
    heard *h = user;
    if (t->is_alone == 1) {
        assert_int_equal(h->tried, 2); /* after the widths that need no trial of their own */
        assert_int_equal(t->tried, ++h->alone);
        return h->alone == h->stop_alone;
    }
    assert_int_equal(t->tried, ++h->tried);
    h->weighed_at = strcmp(t->name, "divergence") == 0 ? t->tried : h->weighed_at;
    return h->tried == 3;
}

/* A search whose trials are many beside those of single slots weighs the slots. */
LAB_TEST(a_search_weighs_slots_where_that_costs_little)
{
    /* 60 slots by 12 of 32 windows take as long as 2.8 trials. */
    assert_true(width_search_weighs(12, slot_weights_compressions(60, 12.0 / 32.0)));
    assert_false(width_search_weighs(11, slot_weights_compressions(60, 12.0 / 32.0)));
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    for (int i = 0; i < 3; i++) {
        heard h = {.stop_alone = i == 2 ? 2 : 0};
        grail_plan_options options = plan_for(&run, "search", 0.8);
        options.tries = i == 0 ? 1 : 64;
        options.observer = hear;
        options.observer_user = &h;
        OWNED(grail_plan) *p = made(&options);
        assert_int_equal(h.alone, i == 0 ? 0 : i == 1 ? 4 : 2);
        assert_int_equal(h.weighed_at, i == 1 ? 3 : 0);
        assert_int_equal(grail_plan_facts_get(p).tried, i == 0 ? 1 : i == 1 ? 3 : 2);
    }
}

LAB_TEST(what_cannot_be_judged_is_refused)
{
    grail_plan *p = NULL;
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    grail_plan_options options = plan_for(&run, "divergence", 0.8);
    options.compress.fit.open_loop = 1;
    options.compress.fit.target = NULL;
    options.compress.fit.refit = NULL;
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT,
                 "the budget 'divergence' needs a closed loop");
    options = plan_for(&run, "divergence", 0.8);
    options.drop_sublayers = 1;
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT,
                 "sublayers are dropped by the budgets search and error");
    assert_null(p);
}
