/* Aggregated cells: means over seeds, gains on the right plain cut, settings and sections. */
#include "support/support.h"

#include "study/page/aggregate.h"
#include "study/page/row.h"
#include "study/page/section.h"
#include "support/json_memory.h"
#include "sweep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct sample {
    results r;
    aggregate a;
} sample;

/* Takes the text. */
static sample make(buffer *text)
{
    sample s = {0};
    assert_ok(results_parse("r.jsonl", text->bytes, text->size, &s.r));
    assert_ok(aggregate_results(&s.r, &s.a));
    s.a.results = &s.r;
    buffer_fini(text);
    return s;
}

static void release(sample *s)
{
    aggregate_fini(&s->a);
    results_fini(&s->r);
}

static sweep_cell cell(const char *compensate, double sparsity, int samples, int seed, double top1)
{
    return (sweep_cell){.checkpoint = "a",
                        .selector = "random",
                        .compensate = compensate,
                        .sparsity = sparsity,
                        .samples = samples,
                        .seed = seed,
                        .top1 = top1};
}

static void add(buffer *text, const char *compensate, double sparsity, int samples, int seed,
                double top1)
{
    const sweep_cell c = cell(compensate, sparsity, samples, seed, top1);
    sweep_add_cell(text, &c);
}

static void seeds_become_mean_and_range(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    add(&text, "grail", 0.5, 64, 2, 0.9);
    add(&text, "grail", 0.5, 64, 0, 0.5);
    add(&text, "grail", 0.5, 64, 1, 0.7);
    sample s = make(&text);
    assert_int_equal(s.a.group_count, 1);
    const cell_group *g = section_at(&s.a.sections[0], 0, VARIANT_GRAIL, 0.5);
    assert_non_null(g);
    assert_int_equal(g->top1.count, 3);
    assert_near(g->top1.mean, 0.7, 1e-12);
    assert_near(g->top1.least, 0.5, 1e-12);
    assert_near(g->top1.most, 0.9, 1e-12);
    release(&s);
}

static void gains_are_paired_by_seed(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    add(&text, "none", 0.5, 64, 0, 0.1);
    add(&text, "none", 0.5, 64, 1, 0.4);
    add(&text, "full", 0.5, 64, 1, 0.5);
    add(&text, "full", 0.5, 64, 0, 0.7);
    sample s = make(&text);
    const cell_group *g = section_at(&s.a.sections[0], 0, VARIANT_FULL, 0.5);
    assert_near(g->gain.least, 0.1, 1e-12);
    assert_near(g->gain.most, 0.6, 1e-12);
    assert_near(g->plain.mean, 0.25, 1e-12);
    assert_int_equal(section_at(&s.a.sections[0], 0, VARIANT_NONE, 0.5)->gain.count, 0);
    release(&s);
}

static void healed_cells_are_variants_of_their_own(void **state)
{
    (void)state;
    const variant healed = variant_healed(VARIANT_FULL, HEAL_MODEL);
    buffer text;
    sweep_begin(&text);
    add(&text, "none", 0.5, 64, 0, 0.2);
    sweep_cell c = cell("full", 0.5, 64, 0, 0.7);
    c.heal = "model";
    sweep_add_cell(&text, &c);
    sample s = make(&text);
    const section *only = &s.a.sections[0];
    assert_null(section_at(only, 0, VARIANT_FULL, 0.5));
    const cell_group *g = section_at(only, 0, healed, 0.5);
    assert_non_null(g);
    assert_near(g->gain.mean, 0.5, 1e-12); /* on the plain cut, which is not healed */
    assert_near(g->seconds[SECONDS_HEAL].mean, 12.5, 1e-12);
    assert_int_equal(section_best_variant(only), healed); /* there is no other */
    release(&s);
}

static void every_variant_has_a_label_of_its_own(void **state)
{
    (void)state;
    json_t *labels = json_object();
    for (int v = 0; v < VARIANTS; v++) {
        json_t *label = variant_json((variant)v);
        assert_non_null(label);
        assert_null(strchr(json_string_value(label), '('));
        assert_int_equal(json_object_set_new(labels, json_string_value(label), label), 0);
    }
    assert_int_equal(json_object_size(labels), VARIANTS);
    assert_non_null(json_object_get(labels, "own + REPAIR + heal block,model"));
    assert_non_null(json_object_get(labels, "heal model"));
    assert_non_null(json_object_get(labels, "none"));
    json_decref(labels);
}

static void an_update_of_the_selector_is_shown_where_nothing_else_repairs(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    add(&text, "none", 0.5, 64, 0, 0.2);
    add(&text, "own", 0.5, 64, 0, 0.6);
    sample s = make(&text);
    assert_int_equal(section_best_variant(&s.a.sections[0]), VARIANT_OWN);
    release(&s);
}

static void the_closed_form_is_shown_where_it_was_run(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    sweep_cell c = cell("full", 0.5, 64, 0, 0.7);
    c.heal = "block,model";
    sweep_add_cell(&text, &c);
    add(&text, "grail", 0.5, 64, 0, 0.6);
    sample s = make(&text);
    assert_int_equal(section_best_variant(&s.a.sections[0]), VARIANT_GRAIL);
    release(&s);
}

static void a_plain_cut_of_another_setting_stands_in(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    add(&text, "none", 0.5, 0, 0, 0.2); /* without samples, and of one seed */
    add(&text, "full", 0.5, 64, 0, 0.6);
    add(&text, "full", 0.5, 64, 1, 0.8);
    add(&text, "full", 0.5, 16, 0, 0.5);
    sample s = make(&text);
    const section *only = &s.a.sections[0];
    assert_int_equal(only->samples, 64);
    assert_near(section_at(only, 0, VARIANT_NONE, 0.5)->top1.mean, 0.2, 1e-12);
    assert_near(section_at(only, 0, VARIANT_FULL, 0.5)->gain.mean, 0.5, 1e-12);
    const group_key few = {.variant = VARIANT_FULL, .samples = 16, .sparsity = 0.5};
    assert_near(section_find(only, &few)->gain.mean, 0.3, 1e-12);
    assert_false(section_shows(only, section_find(only, &few)));
    release(&s);
}

static void the_setting_of_most_repaired_cells_is_shown(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    for (int seed = 0; seed < 3; seed++) {
        add(&text, "none", 0.1 * (seed + 1), 8, 0, 0.3);
    }
    add(&text, "grail", 0.5, 32, 0, 0.5);
    add(&text, "grail", 0.5, 128, 0, 0.5);
    sample s = make(&text);
    assert_int_equal(s.a.sections[0].samples, 128); /* of equally many cells the more samples */
    assert_false(s.a.sections[0].open_loop);
    release(&s);
}

static void of_repeated_cells_the_last_line_counts(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    const sweep_cell c = cell("full", 0.5, 64, 0, 0.6);
    sweep_add_failure(&text, &c, "out of memory");
    sweep_add_cell(&text, &c);
    add(&text, "full", 0.7, 64, 0, 0.5);
    add(&text, "full", 0.7, 64, 0, 0.4);
    sample s = make(&text);
    assert_int_equal(s.a.superseded, 2);
    assert_int_equal(s.a.failed_count, 0);
    assert_near(section_at(&s.a.sections[0], 0, VARIANT_FULL, 0.7)->top1.mean, 0.4, 1e-12);
    release(&s);
}

static void failed_cells_are_kept_apart(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    add(&text, "full", 0.5, 64, 0, 0.6);
    const sweep_cell c = cell("full", 0.7, 64, 0, 0.0);
    sweep_add_failure(&text, &c, "why");
    sample s = make(&text);
    assert_int_equal(s.a.failed_count, 1);
    assert_string_equal(s.a.failed[0]->error, "why");
    assert_int_equal(s.a.cell_count, 1);
    assert_null(section_at(&s.a.sections[0], 0, VARIANT_FULL, 0.7));
    release(&s);
}

static void a_missing_accuracy_does_not_count(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    add(&text, "full", 0.5, 64, 0, 0.6);
    sweep_add(&text, "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"random\", \"sparsity\": "
                     "0.5, \"compensate\": \"full\", \"samples\": 64, \"seed\": 1}, "
                     "\"top1\": null}");
    sample s = make(&text);
    const cell_group *g = section_at(&s.a.sections[0], 0, VARIANT_FULL, 0.5);
    assert_int_equal(g->count, 2);
    assert_int_equal(g->top1.count, 1);
    assert_near(g->top1.mean, 0.6, 1e-12);
    release(&s);
}

static void ratios_are_listed_once_and_ascending(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    add(&text, "full", 0.75, 64, 0, 0.6);
    add(&text, "full", 0.25, 64, 0, 0.6);
    add(&text, "none", 0.25, 64, 0, 0.6);
    add(&text, "full", 0.9, 8, 0, 0.6); /* another setting */
    sample s = make(&text);
    const section *only = &s.a.sections[0];
    assert_int_equal(only->ratio_count, 2);
    assert_near(only->ratios[0], 0.25, 1e-12);
    assert_near(only->ratios[1], 0.75, 1e-12);
    release(&s);
}

static void many_checkpoints_share_the_section_of_their_architecture(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    for (int i = 0; i <= MOST_CHECKPOINT_SECTIONS; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        sweep_add_dense(&text, name, i % 2 == 0 ? "even" : "odd", 0.5 + 0.01 * i);
        sweep_cell c = cell("none", 0.5, 64, 0, 0.1 * i);
        c.checkpoint = name;
        sweep_add_cell(&text, &c);
        c.compensate = "full";
        c.top1 += 0.01 * (i + 1);
        sweep_add_cell(&text, &c);
    }
    sample s = make(&text);
    assert_int_equal(s.a.section_count, 2);
    const section *even = &s.a.sections[0];
    assert_string_equal(even->name, "even");
    assert_int_equal(even->checkpoints, 5);
    assert_near(even->dense.mean, 0.54, 1e-12);
    const cell_group *g = section_at(even, 0, VARIANT_FULL, 0.5);
    assert_int_equal(g->count, 5);
    assert_near(g->gain.mean, 0.05, 1e-12); /* each on the plain cut of its own checkpoint */
    assert_near(g->gain.least, 0.01, 1e-12);
    release(&s);
}

/* 90.0 and 88.0 % of 500 images each: the loss has the interval of Newcombe's tenth method. */
static void losses_have_the_interval_of_both_networks(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    sweep_add_dense(&text, "a", "net", 0.9);
    add(&text, "grail", 0.5, 64, 0, 0.88);
    sample s = make(&text);
    const estimate dense = estimate_of_share(0.9, 500.0, NOT_MEASURED);
    const estimate narrow = estimate_of_share(0.88, 500.0, NOT_MEASURED);
    const estimate lost = estimate_difference(&dense, &narrow);
    const cell_group *g = section_at(&s.a.sections[0], 0, VARIANT_GRAIL, 0.5);
    assert_near(s.a.sections[0].dense_quality.low, dense.low, 1e-12);
    assert_near(g->quality.value, 0.88, 1e-12);
    assert_near(g->quality.high, narrow.high, 1e-12);
    assert_near(g->lost.value, 2.0, 1e-9);
    assert_near(g->lost.low, 100.0 * lost.low, 1e-9);
    assert_near(g->lost.high, 100.0 * lost.high, 1e-9);
    assert_near(g->removed.mean, 0.5, 1e-12); /* 500 of 1000 */
    assert_near(g->removed_macs.mean, 0.55, 1e-12);
    assert_near(g->latency.mean, 3.0 / 500.0, 1e-12);
    release(&s);
}

/* Checkpoints differ much, but each loses 2 points: only their common loss counts. */
static void losses_are_paired_by_checkpoint(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    for (int i = 0; i < 9; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        sweep_add_dense(&text, name, "net", 0.5 + 0.05 * i);
        sweep_cell c = cell("full", 0.5, 64, 0, 0.48 + 0.05 * i);
        c.checkpoint = name;
        sweep_add_cell(&text, &c);
    }
    sample s = make(&text);
    const cell_group *g = section_at(&s.a.sections[0], 0, VARIANT_FULL, 0.5);
    assert_int_equal(g->count, 9);
    assert_near(g->lost.value, 2.0, 1e-9);
    assert_true(g->lost.high - g->lost.value < 6.0);        /* that of one checkpoint */
    assert_true(g->quality.high - g->quality.value > 0.08); /* checkpoints lie apart */
    release(&s);
}

static void an_unknown_interval_stays_unknown(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    sweep_add(&text, "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"random\", "
                     "\"sparsity\": 0.5, \"compensate\": \"full\"}, \"top1\": 0.5}");
    sample s = make(&text);
    const cell_group *g = &s.a.groups[0];
    assert_near(g->quality.value, 0.5, 0.0);
    assert_false(estimate_has_interval(&g->quality));
    assert_false(estimate_is_known(&g->lost)); /* no dense network */
    assert_false(estimate_is_known(&s.a.sections[0].dense_quality));
    assert_int_equal(g->removed.count, 0);
    release(&s);
}

static void text_is_measured_by_perplexity(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    sweep_add(&text, "{\"dense\": {\"checkpoint\": \"a\", \"perplexity\": 10, "
                     "\"perplexity_error\": 0.1}}");
    sweep_add(&text,
              "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"random\", \"sparsity\": "
              "0.5, \"compensate\": \"full\"}, \"perplexity\": 11, \"perplexity_error\": 0.11}");
    sample s = make(&text);
    const cell_group *g = &s.a.groups[0];
    const double z = 1.959963984540054;
    assert_int_equal(s.a.sections[0].kind, QUALITY_PERPLEXITY);
    assert_near(g->quality.value, 11.0, 1e-9);
    assert_near(g->quality.high, 11.0 * exp(0.01 * z), 1e-9);
    assert_near(g->lost.value, 10.0, 1e-9);
    assert_near(g->lost.high, 100.0 * (1.1 * exp(z * 0.01 * sqrt(2.0)) - 1.0), 1e-9);
    release(&s);
}

static void more_settings_than_a_page_can_show_are_refused(void **state)
{
    (void)state;
    buffer text;
    results r = {0};
    aggregate a = {0};
    sweep_begin(&text);
    for (int i = 0; i <= MOST_GROUPS; i++) {
        assert_ok(buffer_format(&text,
                                "{\"cell\":{\"checkpoint\":\"a\",\"selector\":\"random\","
                                "\"sparsity\":0.5,\"compensate\":\"full\",\"samples\":%d}}\n",
                                i));
    }
    assert_ok(results_parse("r.jsonl", text.bytes, text.size, &r));
    assert_fails(aggregate_results(&r, &a), GRAIL_ERROR_FORMAT, "more than 20000 different");
    results_fini(&r);
    buffer_fini(&text);
}

static void more_ratios_than_a_plot_can_show_are_refused(void **state)
{
    (void)state;
    buffer text;
    results r = {0};
    aggregate a = {0};
    sweep_begin(&text);
    for (int i = 0; i <= MOST_RATIOS; i++) {
        add(&text, "none", i / 2048.0, 64, 0, 0.5);
    }
    assert_ok(results_parse("r.jsonl", text.bytes, text.size, &r));
    assert_fails(aggregate_results(&r, &a), GRAIL_ERROR_FORMAT, "more than 1000 ratios");
    results_fini(&r);
    buffer_fini(&text);
}

static grail_status aggregate_once(void *context)
{
    aggregate a = {0};
    const grail_status status = aggregate_results(context, &a);
    aggregate_fini(&a);
    return status;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    buffer text;
    results r = {0};
    sweep_fill(&text);
    assert_ok(results_parse("r.jsonl", text.bytes, text.size, &r));
    support_fail_each_allocation(aggregate_once, &r);
    results_fini(&r);
    buffer_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeds_become_mean_and_range),
        cmocka_unit_test(gains_are_paired_by_seed),
        cmocka_unit_test(healed_cells_are_variants_of_their_own),
        cmocka_unit_test(every_variant_has_a_label_of_its_own),
        cmocka_unit_test(an_update_of_the_selector_is_shown_where_nothing_else_repairs),
        cmocka_unit_test(the_closed_form_is_shown_where_it_was_run),
        cmocka_unit_test(a_plain_cut_of_another_setting_stands_in),
        cmocka_unit_test(the_setting_of_most_repaired_cells_is_shown),
        cmocka_unit_test(of_repeated_cells_the_last_line_counts),
        cmocka_unit_test(failed_cells_are_kept_apart),
        cmocka_unit_test(a_missing_accuracy_does_not_count),
        cmocka_unit_test(ratios_are_listed_once_and_ascending),
        cmocka_unit_test(many_checkpoints_share_the_section_of_their_architecture),
        cmocka_unit_test(losses_have_the_interval_of_both_networks),
        cmocka_unit_test(losses_are_paired_by_checkpoint),
        cmocka_unit_test(an_unknown_interval_stays_unknown),
        cmocka_unit_test(text_is_measured_by_perplexity),
        cmocka_unit_test(more_settings_than_a_page_can_show_are_refused),
        cmocka_unit_test(more_ratios_than_a_plot_can_show_are_refused),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
