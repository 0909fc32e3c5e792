/* Plans: the limit holds, a search is never worse than uniform widths, and a run takes what a plan
 * says. */
#include "plans.h"

#include "../pipeline/vision_lab.h"

#include <grail/plan.h>

#include <math.h>
#include <string.h>

static json_t *document_of(const grail_plan *p)
{
    json_t *document = json_loads(grail_plan_text(p), 0, NULL);
    assert_non_null(document);
    return document;
}

static int64_t kept_of(const json_t *document, size_t i)
{
    const json_t *one = json_array_get(json_object_get(document, "sites"), i);
    return json_integer_value(json_object_get(one, "kept"));
}

LAB_TEST(every_budget_stays_below_every_limit)
{
    static const char *const models[] = {"llama3", "qwen2"};
    for (int m = 0; m < 2; m++) {
        grail_compress_options run = lab_options(l, lab_golden(models[m]), NULL);
        run.cut.gqa = m == 0 ? GRAIL_GQA_KV_GROUPS : GRAIL_GQA_QUERY_PER_GROUP;
        for (int b = 0; grail_budget_at(b) != NULL; b++) {
            for (int limit = 0; grail_limit_at(limit) != NULL; limit++) {
                grail_plan_options options = plan_for(&run, grail_budget_at(b), 0.8);
                options.limit = grail_limit_at(limit);
                if (m == 1 &&
                    (strcmp(options.limit, "kv-bytes") == 0 || !support_takes(b + limit, 2))) {
                    continue; /* query heads have no cache; half of the others for a second model */
                }
                options.tries = 2;
                OWNED(grail_plan) *p = made(&options);
                const grail_plan_facts f = grail_plan_facts_get(p);
                assert_true(f.cost <= f.most && f.most == floor(0.8 * f.dense_cost));
                assert_true(f.cost > 0.3 * f.dense_cost);
                assert_string_equal(f.limit, grail_limit_at(limit));
            }
        }
    }
}

/* A selector without losses of its own, and a folding. */
LAB_TEST(every_selector_can_be_planned_for)
{
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    for (int i = 0; grail_selector_at(i) != NULL; i++) {
        grail_plan_options options = plan_for(&run, "search", 0.8);
        if (lab_is_for_experts(grail_selector_at(i))) {
            continue;
        }
        options.compress.cut.selector = grail_selector_at(i);
        options.tries = 2;
        OWNED(grail_plan) *p = made(&options);
        assert_true(grail_plan_facts_get(p).cost <= grail_plan_facts_get(p).most);
    }
}

/* The run has exactly the parameters that the plan promises. */
LAB_TEST(a_run_takes_the_widths_of_a_plan)
{
    grail_compress_options run = lab_options(l, lab_golden("llama3"), lab_path(l, "out"));
    const grail_plan_options options = plan_for(&run, "error", 0.85);
    OWNED(grail_plan) *p = made(&options);
    const grail_plan_facts f = grail_plan_facts_get(p);
    const char *path = lab_path(l, "plan.json");
    assert_ok(grail_plan_write(p, path));
    assert_fails(grail_plan_write(p, path), GRAIL_ERROR_EXISTS, "plan.json");
    assert_fails(grail_plan_write(p, "plan.gguf"), GRAIL_ERROR_ARGUMENT, "ends in .json");
    assert_fails(grail_plan_check_place(NULL), GRAIL_ERROR_ARGUMENT, "path");
    run.amount.plan = path;
    assert_ok(lab_compress(&run));
    json_t *report = read_json(run.output.path, "report.json");
    const json_t *narrow = json_object_get(report, "narrow");
    assert_true((double)json_integer_value(json_object_get(narrow, "parameters")) == f.cost);
    json_decref(report);
    run.amount.plan = NULL;
    run.amount.plan_text = grail_plan_text(p);
    run.output.path = lab_path(l, "from-text");
    assert_ok(lab_compress(&run));
    assert_same_checkpoint(lab_path(l, "out"), run.output.path);
}

/* The removed share of all heads (every head costs the same), and that of all neurons. */
static void removed_shares(const grail_plan *p, double *heads, double *neurons)
{
    double units[2] = {0.0, 0.0};
    double kept[2] = {0.0, 0.0};
    json_t *document = document_of(p);
    const json_t *list = json_object_get(document, "sites");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const int kind = strcmp(json_string_value(json_object_get(one, "kind")), "heads") == 0;
        units[kind] += (double)json_integer_value(json_object_get(one, "units"));
        kept[kind] += (double)json_integer_value(json_object_get(one, "kept"));
    }
    json_decref(document);
    *heads = 1.0 - kept[1] / units[1];
    *neurons = 1.0 - kept[0] / units[0];
}

/* FLAP's structures with a split by hand: UL-MM and AL-MM. */
LAB_TEST(no_widths_are_planned_for_a_network_with_a_teacher)
{
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    grail_plan_options options = plan_for(&run, "error", 0.8);
    grail_plan *p = NULL;
    options.compress.heal.teacher = lab_golden("llama3");
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT, "leave out the teacher");
}

LAB_TEST(the_share_of_heads_can_be_given)
{
    static const char *const budgets[] = {"uniform", "flap", "error"};
    static const double shares[] = {0.0, 0.25, 0.5};
    const grail_compress_options run = lab_options(l, lab_golden("llama-mha"), NULL);
    for (int i = 0; i < 9; i++) {
        if (!support_takes(i + i / 3, 3)) { /* another share for each budget */
            continue;
        }
        double heads = 0.0;
        double neurons = 0.0;
        grail_plan_options options = plan_for(&run, budgets[i / 3], 0.7);
        options.heads_removed = (grail_number){GRAIL_NUMBER_GIVEN, shares[i % 3]};
        grail_plan *p = made(&options);
        removed_shares(p, &heads, &neurons);
        assert_near(heads, shares[i % 3], 1e-9);
        assert_true(neurons > 0.0);
        assert_true(grail_plan_facts_get(p).cost <= grail_plan_facts_get(p).most);
        grail_plan_free(p);
    }
}

LAB_TEST(a_share_of_heads_is_refused_where_the_budget_chooses_it)
{
    grail_plan *p = NULL;
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    grail_plan_options options = plan_for(&run, "search", 0.8);
    options.heads_removed = (grail_number){GRAIL_NUMBER_GIVEN, 0.25};
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT,
                 "the budget 'search' chooses the share of heads itself");
    options.budget = "flap";
    options.heads_removed = (grail_number){GRAIL_NUMBER_GIVEN, 1.0};
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT,
                 "the share of heads to remove is 1");
}

typedef struct trials {
    int count, stop_at;
    double first, best;
} trials;

/* Trials of single slots count apart. */
static int note(void *user, const grail_plan_trial *t)
{
    trials *n = user;
    if (t->is_alone) {
        return 0;
    }
    n->count++;
    assert_int_equal(t->tried, n->count);
    assert_true(t->tried <= t->most);
    if (n->count == 1) {
        n->first = n->best = t->divergence;
        assert_string_equal(t->name, "uniform");
    }
    assert_int_equal(t->is_best, n->count == 1 || t->divergence < n->best);
    n->best = fmin(n->best, t->divergence);
    return n->count == n->stop_at;
}

LAB_TEST(a_search_keeps_the_best_of_its_trials)
{
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    grail_plan_options options = plan_for(&run, "search", 0.8);
    trials n = {0};
    options.observer = note;
    options.observer_user = &n;
    OWNED(grail_plan) *p = made(&options);
    const grail_plan_facts f = grail_plan_facts_get(p);
    assert_int_equal(n.count, f.tried);
    assert_true(n.count > 3 && n.count <= 8);
    assert_true(f.divergence == n.best && f.uniform_divergence == n.first);
    assert_true(f.divergence <= f.uniform_divergence);
}

static int never_heals(void *user, const grail_healing *now)
{
    fail_msg("a trial was healed");
    return 0;
}

/* Widths are judged by the closed form, also where the run will heal it. */
LAB_TEST(a_search_heals_no_trial)
{
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    grail_plan_options options = plan_for(&run, "search", 0.8);
    options.tries = 3;
    grail_plan *plain = made(&options);
    options.compress.heal.what = "block,model";
    options.compress.run.heal_observer = never_heals;
    grail_plan *healed = made(&options);
    assert_string_equal(grail_plan_text(plain), grail_plan_text(healed));
    grail_plan_free(plain);
    grail_plan_free(healed);
    options.compress.heal.what = "everything";
    assert_fails(grail_plan_make(&options, &healed), GRAIL_ERROR_ARGUMENT,
                 "unknown healing 'everything'");
}

LAB_TEST(a_search_repeats_and_ends_when_told)
{
    const grail_compress_options run = lab_options(l, lab_golden("qwen2"), NULL);
    grail_plan_options options = plan_for(&run, "search", 0.8);
    options.tries = 6;
    OWNED(grail_plan) *first = made(&options);
    OWNED(grail_plan) *second = made(&options);
    assert_string_equal(grail_plan_text(first), grail_plan_text(second));
    trials n = {.stop_at = 2};
    options.observer = note;
    options.observer_user = &n;
    OWNED(grail_plan) *stopped = made(&options);
    assert_int_equal(grail_plan_facts_get(stopped).tried, 2);
    options.observer = NULL;
    options.seconds = 1e-9;
    OWNED(grail_plan) *hurried = made(&options);
    assert_int_equal(grail_plan_facts_get(hurried).tried, 1);
}

LAB_TEST(uniform_widths_are_one_for_each_kind)
{
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    for (int b = 3; b < 5; b++) {
        grail_plan_options options = plan_for(&run, grail_budget_at(b), 0.8);
        options.uniform_widths = 1;
        OWNED(grail_plan) *p = made(&options);
        OWNED(json_t) *document = document_of(p);
        const size_t sites = json_array_size(json_object_get(document, "sites"));
        for (size_t i = 2; i < sites; i++) {
            assert_int_equal(kept_of(document, i), kept_of(document, i - 2));
        }
    }
}

LAB_TEST(uniform_heads_let_ffns_alone_differ)
{
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    grail_plan_options options = plan_for(&run, "error", 0.7);
    options.uniform_heads = 1;
    options.compress.cut.align = 1;
    grail_plan *p = made(&options);
    json_t *document = document_of(p);
    assert_int_equal(kept_of(document, 2), kept_of(document, 0)); /* heads, ffn, heads, ffn */
    assert_int_not_equal(kept_of(document, 3), kept_of(document, 1));
    json_decref(document);
    grail_plan_free(p);
    options.budget = "slimgpt";
    assert_int_equal(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT);
    assert_string_equal(grail_error_fields(), "uniform_heads budget");
}

/* What one more step of all sites of a kind costs; huge where they keep everything. */
static double step_cost(const grail_site_list *sites, const json_t *document, const char *kind,
                        int64_t align)
{
    double cost = 0.0;
    for (int i = 0; i < grail_site_list_count(sites); i++) {
        const grail_site_facts f = grail_site_list_at(sites, i);
        const int64_t kept = kept_of(document, (size_t)i);
        const int64_t step = strcmp(kind, "heads") == 0 ? f.groups : align;
        if (strcmp(f.kind, kind) == 0) {
            const int64_t more = (kept / step + 1) * step;
            cost += more > f.units ? 1e30 : (double)((more - kept) * f.parameters_per_unit);
        }
    }
    return cost;
}

/* As near below the limit as steps of the widths allow: one more would be beyond it. */
LAB_TEST(uniform_widths_are_as_near_to_the_limit_as_their_steps_allow)
{
    static const double ratios[] = {0.95, 0.8, 0.7, 0.66, 0.6};
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    OPENED(grail_model, m, grail_model_open(run.read.model, &m));
    OPENED(grail_site_list, sites, grail_model_sites(m, GRAIL_GQA_KV_GROUPS, &sites));
    for (int i = 0; i < 2 * 5; i++) {
        grail_plan_options options = plan_for(&run, i < 5 ? "uniform" : "search", ratios[i % 5]);
        options.uniform_widths = 1;
        options.tries = 3;
        options.compress.cut.align = 1 + i % 3;
        OWNED(grail_plan) *p = made(&options);
        OWNED(json_t) *document = document_of(p);
        const grail_plan_facts f = grail_plan_facts_get(p);
        assert_true(f.cost <= f.most);
        assert_true(f.most - f.cost <
                    step_cost(sites, document, "ffn", options.compress.cut.align));
        assert_true(f.most - f.cost < step_cost(sites, document, "heads", 1));
    }
}

/* A site that is worth nothing loses its units first. */
LAB_TEST(the_least_error_spares_what_matters)
{
    OWNED(lab_model) m;
    lab_read(&m, lab_golden("llama3"));
    lab_tensor *down = lab_find(&m, 0, "mlp.down_proj.weight");
    for (int64_t i = 0; i < lab_elements(down); i++) {
        down->values[i] *= 1e-3F;
    }
    lab_write(&m, lab_path(l, "quiet"), GRAIL_DTYPE_F32);
    const grail_compress_options run = lab_options(l, lab_path(l, "quiet"), NULL);
    grail_plan_options options = plan_for(&run, "error", 0.85);
    options.kinds = "ffn";
    OWNED(grail_plan) *p = made(&options);
    OWNED(json_t) *document = document_of(p);
    assert_true(2 * kept_of(document, 1) < kept_of(document, 3)); /* the FFNs of both blocks */
}

/* The head reads a stream, so it is fitted to the dense network's output, which has run to its end
 * when the widths are judged. */
VISION_TEST(widths_of_streams_are_judged_behind_a_fitted_head)
{
    const char *model = vision_network(v, VISION_BASIC, "resnet");
    const grail_compress_options run = vision_options(v, model, NULL);
    grail_plan_options options = plan_for(&run, "search", 0.6);
    options.kinds = "conv,stream";
    options.tries = 3;
    OWNED(grail_plan) *p = made(&options);
    const grail_plan_facts f = grail_plan_facts_get(p);
    assert_true(f.divergence > 0.0 && f.divergence <= f.uniform_divergence);
}

VISION_TEST(image_networks_have_plans_too)
{
    static const vision_family families[] = {VISION_PADDED, VISION_TIMM_VIT};
    for (int i = 0; i < 2; i++) {
        const char *model = vision_network(v, families[i], i == 0 ? "resnet" : "vit");
        const grail_compress_options run = vision_options(v, model, NULL);
        grail_plan_options options = plan_for(&run, "search", 0.9);
        options.limit = "macs";
        options.tries = 4;
        grail_plan *p = made(&options);
        const grail_plan_facts f = grail_plan_facts_get(p);
        assert_true(f.cost <= f.most && f.divergence <= f.uniform_divergence);
        grail_plan_free(p);
        p = NULL;
        options.budget = "flap";
        if (i == 0) {
            assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT,
                         "ranks neurons and heads");
        }
    }
}

LAB_TEST(what_cannot_be_met_is_refused_with_the_least)
{
    grail_plan *p = NULL;
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    grail_plan_options options = plan_for(&run, "error", 0.01);
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT,
                 "cannot be met: with the least widths of all sites");
    options.ratio = 0.0;
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT, "give a limit above 0");
    options = plan_for(&run, "least", 0.8);
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT,
                 "unknown budget 'least'; expected one of uniform, flap, slimgpt, error, "
                 "divergence, search");
    options = plan_for(&run, "error", 0.8);
    options.limit = "watts";
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT, "unknown limit 'watts'");
    options.limit = "params";
    options.kinds = "ffn,knees";
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT,
                 "unknown kind of site 'knees'");
    options.kinds = "conv";
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT,
                 "the model has no site of the kinds that may be cut");
    options.kinds = NULL;
    options.budget = "slimgpt";
    options.uniform_widths = 1;
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT, "every depth its own width");
    options = plan_for(&run, "search", 0.8);
    options.compress.read.samples = 2;
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT, "give more samples");
    options = plan_for(&run, "search", 0.8);
    options.compress.fit.open_loop = 1;
    options.compress.fit.compensate = "grail";
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT, "needs a closed loop");
    assert_null(p);
}
