#include "study/page/findings.h"

#include "base/median.h"
#include "study/page/command.h"
#include "study/page/decision.h"
#include "study/page/quality.h"
#include "study/page/row.h"
#include "study/page/section.h"
#include "study/page/sizes.h"

#include <math.h>
#include <stdio.h>

enum { MOST_COMMAND = 1 << 20 };

static const char *measure_name(quality_kind kind)
{
    return kind == QUALITY_ACCURACY ? "top-1" : "perplexity";
}

static grail_status put_row(json_t *object, const char *key, const aggregate *a,
                            const cell_group *g)
{
    return json_put(object, key, g == NULL ? json_null() : json_integer(g - a->groups));
}

static grail_status put_command(json_t *object, const aggregate *a, const cell_group *g)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, MOST_COMMAND);
    TRY(command_write(a, g, &text));
    TRY(json_put(object, "command", json_text((const char *)text.bytes)));
out:
    buffer_fini(&text);
    return status;
}

static int count_alike(const section *s, const cell_group *g)
{
    int count = 0;
    for (int i = 0; i < s->group_count; i++) {
        const cell_group *other = &s->groups[i];
        count += other != g && decision_is_alike(s, g, other) ? 1 : 0;
    }
    return count;
}

/* The largest cut within a limit, or else the one that comes nearest. */
static grail_status fill_decision(const aggregate *a, const section *s, double limit, json_t *out)
{
    const cell_group *g = decision_largest(a, s, limit);
    CHECK(json_put(out, "limit", number_json(limit)));
    CHECK(put_row(out, "row", a, g));
    CHECK(put_row(out, "nearest", a, g == NULL ? decision_least_loss(s) : NULL));
    if (g != NULL) {
        CHECK(json_put(out, "cut", number_json(decision_cut(g))));
        CHECK(json_put(out, "alike", json_integer(count_alike(s, g))));
        CHECK(put_command(out, a, g));
    }
    return GRAIL_OK;
}

static grail_status put_decisions(json_t *object, const aggregate *a, const section *s)
{
    json_t *list = json_array();
    CHECK(json_put(object, "decisions", list));
    for (int i = 0; i < DECISION_LIMITS; i++) {
        json_t *decision = json_object();
        CHECK(json_push(list, decision));
        CHECK(fill_decision(a, s, decision_limits(s->kind)[i], decision));
    }
    return GRAIL_OK;
}

static grail_status fill_dense(const aggregate *a, const section *s, json_t *out)
{
    bool pareto[SIZES] = {false};
    CHECK(sizes_find_pareto(a, s, NULL, pareto));
    CHECK(json_put(out, "value", number_json(s->dense_quality.value)));
    CHECK(json_put(out, "low", number_json(s->dense_quality.low)));
    CHECK(json_put(out, "high", number_json(s->dense_quality.high)));
    CHECK(json_put(out, "latency", number_json(s->dense_latency)));
    for (int i = 0; i < SIZES; i++) {
        char key[64];
        snprintf(key, sizeof key, "pareto_%s", size_name((size_kind)i));
        CHECK(json_put(out, key, json_boolean(pareto[i])));
    }
    return GRAIL_OK;
}

/* Where the section's best variant gains most at its setting; NULL where it gains nowhere. */
static const cell_group *largest_gain(const section *s)
{
    const cell_group *largest = NULL;
    const variant best = section_best_variant(s);
    for (int i = 0; i < s->group_count; i++) {
        const cell_group *g = &s->groups[i];
        if (g->key.variant == best && g->gain.mean > (largest == NULL ? 0.0 : largest->gain.mean) &&
            section_shows(s, g)) {
            largest = g;
        }
    }
    return largest;
}

static grail_status fill_network(const aggregate *a, const section *s, json_t *out)
{
    const variant best = section_best_variant(s);
    CHECK(json_put(out, "name", json_text(s->name)));
    CHECK(json_put(out, "measure", json_text(measure_name(s->kind))));
    CHECK(json_put(out, "setting", json_text(a->results->settings[s->setting].text)));
    CHECK(json_put(out, "is_architecture", json_boolean(s->is_architecture)));
    CHECK(json_put(out, "checkpoints", json_integer(s->checkpoints)));
    CHECK(json_put(out, "samples", json_integer(s->samples)));
    CHECK(json_put(out, "loop", json_text(s->open_loop ? "open" : "closed")));
    CHECK(json_put(out, "best", variant_json(best)));
    json_t *dense = json_object();
    CHECK(json_put(out, "dense", dense));
    CHECK(fill_dense(a, s, dense));
    CHECK(put_row(out, "largest_gain", a, largest_gain(s)));
    return estimate_is_known(&s->dense_quality) ? put_decisions(out, a, s) : GRAIL_OK;
}

grail_status findings_networks(const aggregate *a, json_t *list)
{
    for (int i = 0; i < a->section_count; i++) {
        if (a->sections[i].group_count > 0) {
            json_t *network = json_object();
            CHECK(json_push(list, network));
            CHECK(fill_network(a, &a->sections[i], network));
        }
    }
    return GRAIL_OK;
}

/* How much better a value is than another: a difference of shares, or the share of a perplexity
 * that is gone. */
static double gain_over(quality_kind kind, double value, double base)
{
    return kind == QUALITY_ACCURACY ? value - base : 1.0 - value / base;
}

/* By how much `better` beats `worse` wherever both were measured at a section's setting; *apart
 * counts where it does by more than chance. */
static int collect_differences(const aggregate *a, quality_kind kind, variant better, variant worse,
                               double *differences, int *apart)
{
    int count = 0;
    *apart = 0;
    for (int i = 0; i < a->group_count; i++) {
        const cell_group *g = &a->groups[i];
        const section *s = &a->sections[g->key.section];
        if (s->kind != kind || g->key.variant != better || !section_shows(s, g)) {
            continue;
        }
        const cell_group *other = section_at(s, g->key.selector, worse, g->key.sparsity);
        double base = other == NULL ? NOT_MEASURED : other->quality.value;
        base = worse == VARIANT_NONE ? g->plain.mean : base;
        const double gain = gain_over(kind, g->quality.value, base);
        if (!isnan(gain)) {
            differences[count++] = gain;
            *apart += other != NULL && quality_is_better(kind, g, other) ? 1 : 0;
        }
    }
    return count;
}

static grail_status add_comparison(const aggregate *a, quality_kind kind, variant better,
                                   variant worse, double *differences, json_t *list)
{
    int above = 0;
    int apart = 0;
    const int count = collect_differences(a, kind, better, worse, differences, &apart);
    if (count == 0) {
        return GRAIL_OK;
    }
    for (int i = 0; i < count; i++) {
        above += differences[i] > 0.0 ? 1 : 0;
    }
    median_sort(differences, count);
    return json_push(list,
                     json_pack("{s:o, s:o, s:o, s:i, s:i, s:i, s:o}", "measure",
                               json_text(measure_name(kind)), "better", variant_json(better),
                               "worse", variant_json(worse), "above", above, "of", count, "apart",
                               apart, "median", number_json(median_of_sorted(differences, count))));
}

/* Against its form as it was before, and against the plain cut that was healed alike. */
static grail_status add_healed(const aggregate *a, quality_kind kind, variant v,
                               double *differences, json_t *list)
{
    const variant plain = variant_healed(VARIANT_NONE, variant_heal(v));
    CHECK(add_comparison(a, kind, v, variant_form(v), differences, list));
    return v == plain ? GRAIL_OK : add_comparison(a, kind, v, plain, differences, list);
}

static grail_status add_comparisons(const aggregate *a, quality_kind kind, double *differences,
                                    json_t *list)
{
    static const variant pairs[][2] = {
        {VARIANT_REPAIR, VARIANT_NONE},        {VARIANT_OWN, VARIANT_NONE},
        {VARIANT_GRAIL, VARIANT_NONE},         {VARIANT_GRAIL, VARIANT_OWN},
        {VARIANT_GRAIL_REPAIR, VARIANT_GRAIL}, {VARIANT_FULL, VARIANT_GRAIL},
        {VARIANT_FULL_REPAIR, VARIANT_FULL},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        CHECK(add_comparison(a, kind, pairs[i][0], pairs[i][1], differences, list));
    }
    for (int v = VARIANT_FORMS; v < VARIANTS; v++) {
        CHECK(add_healed(a, kind, (variant)v, differences, list));
    }
    return GRAIL_OK;
}

grail_status findings_comparisons(const aggregate *a, json_t *list)
{
    grail_status status = GRAIL_OK;
    double *differences = NULL;
    TRY(memory_new(&differences, (size_t)a->group_count, sizeof differences[0]));
    TRY(add_comparisons(a, QUALITY_ACCURACY, differences, list));
    TRY(add_comparisons(a, QUALITY_PERPLEXITY, differences, list));
out:
    memory_free(differences);
    return status;
}

static json_t *text_or_null(const char *text)
{
    return text == NULL ? json_null() : json_text(text);
}

grail_status findings_facts(const aggregate *a, json_t *out)
{
    const line_header *header = &a->results->header;
    spread images = spread_empty();
    for (int i = 0; i < a->cell_count; i++) {
        spread_add(&images, a->cells[i]->measures.images);
    }
    CHECK(json_put(out, "checkpoints", json_integer(aggregate_networks(a))));
    CHECK(json_put(out, "cells", json_integer(aggregate_lines(a->cells, a->cell_count))));
    CHECK(json_put(out, "failed", json_integer(aggregate_lines(a->failed, a->failed_count))));
    CHECK(json_put(out, "superseded", json_integer(a->superseded)));
    CHECK(json_put(out, "cut_line", json_integer((json_int_t)a->results->cut_line)));
    CHECK(json_put(out, "fewest_images", number_json(images.least)));
    CHECK(json_put(out, "most_images", number_json(images.most)));
    CHECK(json_put(out, "started", text_or_null(header->started)));
    CHECK(json_put(out, "processor", text_or_null(header->cpu)));
    CHECK(json_put(out, "threads", json_integer(header->threads)));
    return json_put(out, "version", text_or_null(header->version));
}
