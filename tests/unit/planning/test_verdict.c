/* Widths that were chosen are taken where they are ahead of uniform ones by more than chance. */
#include "plans.h"

#include "../pipeline/lab_model.h"
#include "../pipeline/vision_lab.h"

#include "planning/trials.h"
#include "planning/verdict.h"

#include <math.h>
#include <string.h>

/* -- leads ------------------------------------------------------------------------------------- */

static divergence parts(double *losses, double *weights, int64_t count)
{
    return (divergence){losses, weights, count};
}

/* A ratio of sums over parts, and its standard error by the parts' deviations from it. */
TEST(a_lead_is_paired_by_parts)
{
    double weights[] = {1.0, 2.0, 0.0, 1.0, 4.0};
    double narrow[] = {0.5, 0.6, 0.0, 0.1, 2.0};
    double other[] = {0.9, 0.8, 0.0, 0.7, 2.4};
    const divergence a = parts(narrow, weights, 5);
    const divergence b = parts(other, weights, 5);
    const lead l = divergence_lead(&a, &b);
    const double by = (4.8 - 3.2) / 8.0; /* 0.2 a row */
    const double off[] = {0.4 - by, 0.2 - 2.0 * by, 0.6 - by, 0.4 - 4.0 * by};
    double squares = 0.0;
    for (int i = 0; i < 4; i++) {
        squares += off[i] * off[i];
    }
    assert_near(divergence_mean(&a), 3.2 / 8.0, 1e-15);
    assert_near(l.by, by, 1e-15);
    assert_near(l.error, sqrt(squares * 4.0 / 3.0) / 8.0, 1e-15);
    const lead back = divergence_lead(&b, &a);
    assert_true(back.by == -l.by && fabs(back.error - l.error) < 1e-15);
    assert_true(divergence_leads(&a, &b, 1.0) == (l.by > l.error));
    assert_false(divergence_leads(&b, &a, 1.0));
}

/* By what all parts share nobody is ahead by chance; by less than its error nobody is ahead. */
TEST(a_lead_within_chance_is_none)
{
    double weights[] = {1.0, 1.0, 1.0, 1.0};
    double low[] = {1.0, 2.0, 3.0, 4.0};
    double shifted[] = {1.1, 2.1, 3.1, 4.1};
    double mixed[] = {2.1, 1.1, 4.1, 3.1};
    const divergence a = parts(low, weights, 4);
    const divergence b = parts(shifted, weights, 4);
    const divergence c = parts(mixed, weights, 4);
    assert_true(divergence_leads(&a, &b, 1.0));
    assert_true(divergence_lead(&a, &c).by > 0.0);
    assert_false(divergence_leads(&a, &c, 1.0));
    assert_false(divergence_leads(&c, &a, 1.0));
    assert_false(divergence_leads(&a, &a, 1.0));
    /* one sample that is lost is a lead of one standard error, of however many samples */
    double outlier[] = {1.0, 2.0, 3.0, 104.0};
    const divergence d = parts(outlier, weights, 4);
    const lead l = divergence_lead(&a, &d);
    assert_near(l.by, l.error, 1e-12 * l.by);
    assert_false(divergence_leads(&a, &d, VERDICT_ERRORS));
}

TEST(nothing_follows_from_one_part_and_what_is_not_finite_loses)
{
    double weights[] = {1.0, 1.0, 1.0};
    double low[] = {1.0, 2.0, 3.0};
    double high[] = {5.0, 6.0, 7.5};
    double broken[] = {1.0, (double)NAN, 3.0};
    const divergence a = parts(low, weights, 1);
    const divergence b = parts(high, weights, 1);
    assert_true(isinf(divergence_lead(&a, &b).error));
    assert_false(divergence_leads(&a, &b, 1.0));
    const divergence whole = parts(high, weights, 3);
    const divergence none = parts(broken, weights, 3);
    assert_true(divergence_leads(&whole, &none, 1.0));
    assert_false(divergence_leads(&none, &whole, 1.0));
    assert_false(divergence_leads(&none, &none, 1.0));
    double empty[] = {0.0, 0.0, 0.0};
    const divergence nothing = parts(low, empty, 3);
    assert_true(isnan(divergence_mean(&nothing)));
    assert_false(divergence_leads(&nothing, &nothing, 1.0));
}

/* -- networks ---------------------------------------------------------------------------------- */

/* Widths that leave one layer next to nothing lose to uniform ones of as many parameters, which
 * are kept, and the other way round. */
LAB_TEST(widths_that_lose_are_not_taken)
{
    spaced s = {0};
    verdict v = {0};
    int64_t uniform[64];
    int64_t uneven[64];
    char text[VERDICT_TEXT];
    grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    run.cut.selector = "obs";
    spaced_open(&run, SHARE_NONE, &s);
    const int sites = s.request->sites->list.count;
    const formula_choice even = {.formula = FORMULA_UNIFORM, .head_factor = 1.0};
    assert_ok(widths_by_formula(&s.space, even, uniform));
    width_space_widen(&s.space, uneven);
    for (int i = 0; i < sites; i++) {
        const site *own = site_at(s.request, i);
        uneven[i] = own->kind == SITE_FFN ? 1 : uneven[i];
    }
    assert_ok(verdict_find(&run, uneven, uniform, sites, &v));
    assert_true(v.is_judged && !v.is_ahead && v.lead.by < 0.0);
    assert_near(v.lead.by, v.uniform_divergence - v.divergence, 1e-12);
    verdict_text(&v, "divergence", text);
    assert_non_null(strstr(text, "uniform widths kept: those of 'divergence' are behind by"));
    assert_ok(verdict_find(&run, uniform, uneven, sites, &v));
    assert_true(v.is_judged && v.is_ahead && v.lead.by > 2.0 * v.lead.error);
    verdict_text(&v, "divergence", text);
    assert_non_null(strstr(text, "widths of 'divergence': ahead by"));
    assert_ok(verdict_find(&run, uniform, uniform, sites, &v));
    assert_true(!v.is_judged && !v.is_ahead);
    spaced_close(&s);
}

/* The samples of a verdict are others than those that the choice was made by. */
LAB_TEST(a_verdict_is_by_samples_that_the_choice_has_not_seen)
{
    compression_request *r = NULL;
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    const request_purpose purpose = {.reads_samples = true, .judges = JUDGES_CHOICES};
    assert_ok(request_open(&run, purpose, &r));
    const calibration *c = r->samples;
    int64_t judged[2] = {0};
    assert_true(trials_can_judge(c));
    for (int64_t b = 0; b < c->batch_count; b++) {
        const bool choice = calibration_judges(c, JUDGES_CHOICES, b);
        const bool after = calibration_judges(c, JUDGES_THE_CHOICE, b);
        assert_false(choice && after);
        assert_false((choice || after) && calibration_holds_out(c, b));
        assert_false(calibration_judges(c, JUDGES_NOTHING, b));
        judged[0] += choice ? 1 : 0;
        judged[1] += after ? 1 : 0;
    }
    assert_true(judged[0] > 0 && judged[1] > 0);
    request_close(r);
}

/* -- plans ------------------------------------------------------------------------------------- */

static void kept_of(const grail_plan *p, int64_t kept[64])
{
    OWNED(json_t) *document = NULL;
    assert_ok(json_parse("plan", grail_plan_text(p), strlen(grail_plan_text(p)), &document));
    const json_t *sites = json_object_get(document, "sites");
    assert_true(json_array_size(sites) <= 64);
    for (size_t i = 0; i < json_array_size(sites); i++) {
        kept[i] = json_integer_value(json_object_get(json_array_get(sites, i), "kept"));
    }
}

/* Both budgets of trials take what leads, and else the uniform widths, and say so. */
LAB_TEST(a_plan_takes_what_leads)
{
    static const char *const models[] = {"llama3", "qwen2", "mistral"};
    static const char *const budgets[] = {"divergence", "search"};
    int kept_uniform = 0;
    for (int i = 0; i < 12; i++) {
        int64_t kept[64] = {0};
        int64_t uniform[64] = {0};
        const grail_compress_options run = lab_options(l, lab_golden(models[i % 3]), NULL);
        const double ratio = i < 6 ? 0.9 : 0.7;
        grail_plan_options options = plan_for(&run, budgets[i / 3 % 2], ratio);
        OWNED(grail_plan) *p = made(&options);
        const grail_plan_facts f = grail_plan_facts_get(p);
        options.budget = "uniform";
        OWNED(grail_plan) *even = made(&options);
        kept_of(p, kept);
        kept_of(even, uniform);
        assert_string_equal(grail_plan_facts_get(even).reason, "");
        assert_true(isnan(grail_plan_facts_get(even).ahead));
        const bool leads = f.ahead > 2.0 * f.ahead_error;
        if (!leads) {
            assert_memory_equal(kept, uniform, sizeof kept);
            assert_string_equal(f.formula, "uniform");
            assert_true(f.divergence == f.uniform_divergence || isnan(f.divergence));
        }
        assert_non_null(strstr(f.reason, leads ? "ahead by" : "uniform widths"));
        kept_uniform += leads ? 0 : 1;
    }
    assert_true(kept_uniform > 0);
}

/* What cannot be judged is cut uniformly, with the reason. */
LAB_TEST(too_few_samples_keep_uniform_widths)
{
    int64_t kept[64] = {0};
    int64_t uniform[64] = {0};
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    grail_plan_options options = plan_for(&run, "divergence", 0.8);
    options.compress.read.samples = 2;
    OWNED(grail_plan) *p = made(&options);
    const grail_plan_facts f = grail_plan_facts_get(p);
    assert_string_equal(f.formula, "uniform");
    assert_int_equal(f.tried, 0);
    assert_non_null(strstr(f.reason, "2 samples make 2 batches, too few to judge others by"));
    options.budget = "uniform";
    OWNED(grail_plan) *even = made(&options);
    kept_of(p, kept);
    kept_of(even, uniform);
    assert_memory_equal(kept, uniform, sizeof kept);
}

/* A trial whose outputs are not finite says nothing of a site, and ends the choice. */
LAB_TEST(outputs_that_are_not_finite_are_refused)
{
    lab_model m;
    grail_plan *p = NULL;
    lab_read(&m, lab_golden("llama3"));
    for (int i = 0; i < m.count; i++) {
        if (strcmp(m.tensors[i].name, "lm_head.weight") == 0) {
            m.tensors[i].values[0] = 3e38F;
        }
    }
    const char *model = lab_path(l, "model");
    lab_write(&m, model, GRAIL_DTYPE_F32);
    lab_fini(&m);
    const grail_compress_options run = lab_options(l, model, NULL);
    grail_plan_options options = plan_for(&run, "divergence", 0.8);
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_NUMERIC, "one of them is not finite");
    assert_null(p);
}

/* Uniform widths that were asked for are given, with what they cost. */
LAB_TEST(uniform_widths_that_were_asked_for_tell_what_they_cost)
{
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    for (int i = 0; i < 2; i++) {
        int64_t kept[64] = {0};
        grail_plan_options options = plan_for(&run, "divergence", 0.8);
        options.uniform_widths = 1;
        options.kinds = i == 0 ? "ffn" : NULL;
        OWNED(grail_plan) *p = made(&options);
        const grail_plan_facts f = grail_plan_facts_get(p);
        kept_of(p, kept);
        assert_true(kept[0] == kept[2] && kept[1] == kept[3]);
        assert_non_null(strstr(f.reason, "may differ from layer to layer"));
        assert_int_equal(f.tried, f.trials);
        assert_int_equal(f.trials, i == 0 ? 2 : 6);
    }
}

/* The report of a run says why it has these widths. */
LAB_TEST(a_report_says_why)
{
    grail_compress_options run = lab_options(l, lab_golden("llama3"), lab_path(l, "out"));
    run.amount.sparsity_ffn = run.amount.sparsity_heads = 0.0;
    const grail_plan_options options = plan_for(&run, "divergence", 0.8);
    OWNED(grail_plan) *p = made(&options);
    run.amount.plan_text = grail_plan_text(p);
    assert_ok(lab_compress(&run));
    OWNED(json_t) *report = read_json(run.output.path, "report.json");
    const json_t *budget = json_object_get(json_object_get(report, "plan"), "budget");
    const char *reason = json_string_value(json_object_get(budget, "reason"));
    assert_string_equal(reason, grail_plan_facts_get(p).reason);
    assert_true(json_is_real(json_object_get(budget, "ahead")));
}
