#include "study/page/headline.h"

#include "study/page/describe.h"
#include "study/page/section.h"
#include "study/page/series.h"

#include <math.h>

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

/* ", grail 84.8 %, full 85.5 %": what every repair has at the same place. */
static void write_repaired(const section *s, const cell_group *at, markup *m)
{
    for (int v = VARIANT_REPAIR; v < VARIANTS; v++) {
        const cell_group *g = section_at(s, at->key.selector, (variant)v, at->key.sparsity);
        if (g != NULL && g->top1.count > 0) {
            markup_format(m, ", %s %s\xC2\xA0%%", variant_label((variant)v),
                          percent_text(g->top1.mean).text);
        }
    }
}

static void write_section(const aggregate *a, const section *s, markup *m)
{
    const cell_group *at = largest_gain(s);
    if (at == NULL) {
        return;
    }
    markup_format(m, "<p><i>%s</i>", start_of(s->name, 60).text);
    if (!isnan(s->dense.mean)) {
        markup_format(m, ", %s\xC2\xA0%% top-1 when dense", percent_text(s->dense.mean).text);
    }
    markup_format(m,
                  ": with %s\xC2\xA0%% of the units removed by %s, the plain cut keeps "
                  "%s\xC2\xA0%%",
                  ratio_text(at->key.sparsity).text,
                  start_of(a->results->selectors[at->key.selector], 60).text,
                  percent_text(at->plain.mean).text);
    write_repaired(s, at, m);
    markup_raw(m, ".</p>\n");
}

/* By how much `better` is above `worse` wherever both were measured at a section's setting; *apart
 * counts where the interval of the one lies above that of the other. */
static int collect_differences(const aggregate *a, variant better, variant worse,
                               double *differences, int *apart)
{
    int count = 0;
    *apart = 0;
    for (int i = 0; i < a->group_count; i++) {
        const cell_group *g = &a->groups[i];
        const section *s = &a->sections[g->key.section];
        if (g->key.variant != better || !section_shows(s, g)) {
            continue;
        }
        const cell_group *other = section_at(s, g->key.selector, worse, g->key.sparsity);
        double base = other == NULL ? NOT_MEASURED : other->top1.mean;
        base = worse == VARIANT_NONE ? g->plain.mean : base;
        if (!isnan(g->top1.mean - base)) {
            differences[count++] = g->top1.mean - base;
            *apart += other != NULL && estimate_is_above(&g->quality, &other->quality) ? 1 : 0;
        }
    }
    return count;
}

static void write_comparison(const aggregate *a, variant better, variant worse, double *differences,
                             bool *is_first, markup *m)
{
    int above = 0;
    int apart = 0;
    const int count = collect_differences(a, better, worse, differences, &apart);
    if (count == 0) {
        return;
    }
    for (int i = 0; i < count; i++) {
        above += differences[i] > 0.0 ? 1 : 0;
    }
    sort_values(differences, count);
    const double median = (differences[(count - 1) / 2] + differences[count / 2]) / 2.0;
    markup_format(m,
                  "%s%s is above %s in %d of %d (by more than both intervals in %d; median "
                  "difference %s\xC2\xA0points)",
                  *is_first ? "<p>Setting by setting, " : "; ", variant_label(better),
                  variant_label(worse), above, count, apart, percent_text(median).text);
    *is_first = false;
}

/* Against its form as it was before, and against the plain cut that was healed alike. */
static void write_healed(const aggregate *a, double *differences, bool *is_first, markup *m)
{
    for (int i = VARIANT_FORMS; i < VARIANTS; i++) {
        const variant v = (variant)i;
        const variant plain = variant_healed(VARIANT_NONE, variant_heal(v));
        write_comparison(a, v, variant_form(v), differences, is_first, m);
        if (v != plain) {
            write_comparison(a, v, plain, differences, is_first, m);
        }
    }
}

grail_status headline_write(const aggregate *a, markup *page)
{
    static const variant pairs[][2] = {
        {VARIANT_REPAIR, VARIANT_NONE},        {VARIANT_GRAIL, VARIANT_NONE},
        {VARIANT_GRAIL_REPAIR, VARIANT_GRAIL}, {VARIANT_FULL, VARIANT_GRAIL},
        {VARIANT_FULL_REPAIR, VARIANT_FULL},
    };
    double *differences = NULL;
    bool is_first = true;
    CHECK(memory_new(&differences, (size_t)a->group_count, sizeof differences[0]));
    for (int i = 0; i < a->section_count; i++) {
        write_section(a, &a->sections[i], page);
    }
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        write_comparison(a, pairs[i][0], pairs[i][1], differences, &is_first, page);
    }
    write_healed(a, differences, &is_first, page);
    markup_raw(page, is_first ? "" : ".</p>\n");
    memory_free(differences);
    return markup_status(page);
}

static void write_fact(markup *m, const char *name, const char *value)
{
    markup_format(m, "<div><dt>%s</dt><dd>%s</dd></div>\n", name, value);
}

static void fact_text(markup *m, const char *name, const char *text)
{
    if (text != NULL && text[0] != 0) {
        write_fact(m, name, start_of(text, MOST_START).text);
    }
}

static void fact_images(const aggregate *a, markup *m)
{
    spread images = {0};
    for (int i = 0; i < a->cell_count; i++) {
        spread_add(&images, a->cells[i]->measures.images);
    }
    const short_text least = number_text(images.least, 0);
    if (images.count > 0) {
        write_fact(
            m, "test images",
            images.least == images.most
                ? least.text
                : text_format("%s to %s", least.text, number_text(images.most, 0).text).text);
    }
}

void facts_write(const aggregate *a, markup *page)
{
    const line_header *header = &a->results->header;
    markup_raw(page, "<dl>\n");
    write_fact(page, "checkpoints", number_text(a->results->checkpoint_count, 0).text);
    write_fact(page, "cells measured", number_text(a->cell_count, 0).text);
    fact_images(a, page);
    fact_text(page, "started", header->started);
    fact_text(page, "processor", header->cpu);
    if (header->threads > 0) {
        write_fact(page, "threads", number_text((double)header->threads, 0).text);
    }
    fact_text(page, "grail", header->version);
    markup_raw(page, "</dl>\n");
}

void remarks_write(const aggregate *a, markup *page)
{
    if (a->failed_count > 0) {
        markup_format(page,
                      "<p class=\"remark\">%s failed; they are listed <a "
                      "href=\"#failures\">below</a>.</p>\n",
                      count_text(a->failed_count, "cell").text);
    }
    if (a->superseded > 0) {
        markup_format(page,
                      "<p class=\"remark\">%s of the file ignored, because a later line has the "
                      "same setting.</p>\n",
                      count_text(a->superseded, "line").text);
    }
    if (a->results->cut_line > 0) {
        markup_format(page,
                      "<p class=\"remark\">The file ends within line %zu. The report leaves this "
                      "line out. The sweep was interrupted or is still running.</p>\n",
                      a->results->cut_line);
    }
    if (a->cell_count == 0) {
        markup_raw(page, "<p class=\"remark\">No cell has been measured yet.</p>\n");
    }
}
