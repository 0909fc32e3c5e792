#include "study/page/tables.h"

#include "study/page/cost.h"
#include "study/page/describe.h"
#include "study/page/healed.h"
#include "study/page/section.h"
#include "study/page/series.h"

/* The heading follows; table_head ends it. */
static void table_begin(markup *m)
{
    markup_raw(m, "<h3>");
}

/* A box that scrolls sideways by itself, also by keyboard. */
static void table_scroll(markup *m, const char *name)
{
    markup_format(m,
                  "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"%s\">\n"
                  "<table>\n<thead><tr>",
                  name);
}

/* Ends the heading. */
static void table_head(markup *m, const char *name)
{
    markup_raw(m, "</h3>\n");
    table_scroll(m, name);
}

static void table_body(markup *m)
{
    markup_raw(m, "</tr></thead>\n<tbody>\n");
}

static void table_end(markup *m)
{
    markup_raw(m, "</tbody>\n</table>\n</div>\n");
}

static void column(markup *m, const char *name, bool is_text)
{
    markup_format(m, "<th scope=\"col\"%s>%s</th>", is_text ? " class=\"text\"" : "", name);
}

static void text_cell(markup *m, const char *text)
{
    markup_raw(m, "<td class=\"text long\">");
    markup_text(m, text);
    markup_raw(m, "</td>");
}

static void row_name(markup *m, const char *text)
{
    markup_raw(m, "<th scope=\"row\" class=\"text long\">");
    markup_text(m, text);
    markup_raw(m, "</th>");
}

static void percent_cell(markup *m, double fraction)
{
    markup_raw(m, "<td>");
    markup_percent(m, fraction);
    markup_raw(m, "</td>");
}

static void ratio_cell(markup *m, double fraction)
{
    markup_raw(m, "<td>");
    markup_ratio(m, fraction);
    markup_raw(m, "</td>");
}

static void number_cell(markup *m, double value, int decimals)
{
    markup_raw(m, "<td>");
    markup_number(m, value, decimals);
    markup_raw(m, "</td>");
}

static void seconds_cell(markup *m, double seconds)
{
    markup_raw(m, "<td>");
    markup_seconds(m, seconds);
    markup_raw(m, "</td>");
}

static void scaled_cell(markup *m, double value, const char *unit)
{
    markup_raw(m, "<td>");
    markup_scaled(m, value, unit);
    markup_raw(m, "</td>");
}

void table_dense(const aggregate *a, markup *page)
{
    table_begin(page);
    markup_raw(page, "Dense checkpoints");
    table_head(page, "Dense checkpoints");
    column(page, "checkpoint", true);
    column(page, "architecture", true);
    column(page, "parameters", false);
    column(page, "MACs", false);
    column(page, "top-1, %", false);
    column(page, "\xC2\xB1", false);
    column(page, "top-5, %", false);
    column(page, "images", false);
    table_body(page);
    for (int i = 0; i < a->results->checkpoint_count; i++) {
        const result_checkpoint *c = &a->results->checkpoints[i];
        markup_raw(page, "<tr>");
        row_name(page, c->name);
        text_cell(page, c->architecture == NULL ? "not measured" : c->architecture);
        scaled_cell(page, c->measures.parameters, "");
        scaled_cell(page, c->measures.macs, "");
        percent_cell(page, c->measures.top1);
        percent_cell(page, c->measures.interval);
        percent_cell(page, c->measures.top5);
        number_cell(page, c->measures.images, 0);
        markup_raw(page, "</tr>\n");
    }
    table_end(page);
}

static bool is_better(quality_kind kind, const estimate *one, const estimate *other)
{
    return kind == QUALITY_ACCURACY ? estimate_is_above(one, other) : estimate_is_above(other, one);
}

/* The variant whose interval lies beyond those of all others at this selector and ratio; VARIANTS
 * where there is none, or nothing to compare with. */
static int winner_of(const section *s, int selector, double ratio)
{
    for (int v = 0; v < VARIANTS; v++) {
        const cell_group *g = section_at(s, selector, (variant)v, ratio);
        int beaten = 0;
        int others = 0;
        for (int w = 0; w < VARIANTS && g != NULL; w++) {
            const cell_group *other = w == v ? NULL : section_at(s, selector, (variant)w, ratio);
            if (other != NULL && estimate_is_known(&other->quality)) {
                others++;
                beaten += is_better(s->kind, &g->quality, &other->quality) ? 1 : 0;
            }
        }
        if (others > 0 && beaten == others) {
            return v;
        }
    }
    return VARIANTS;
}

static void quality_cell(markup *m, const section *s, const cell_group *g, bool is_winner)
{
    if (g == NULL) {
        markup_raw(m, "<td></td>");
        return;
    }
    markup_raw(m, is_winner ? "<td><b>" : "<td>");
    describe_value(m, s->kind, g->quality.value);
    markup_raw(m, is_winner ? "</b>" : "");
    if (estimate_has_interval(&g->quality)) {
        markup_raw(m, "<small>");
        describe_value(m, s->kind, g->quality.low);
        markup_raw(m, "\xE2\x80\x93");
        describe_value(m, s->kind, g->quality.high);
        markup_raw(m, "</small>");
    }
    markup_raw(m, "</td>");
}

/* A group of any variant, since all variants of a cut have the same size. NULL where none was
 * measured. */
static const cell_group *any_group(const section *s, int selector, double ratio)
{
    for (int v = 0; v < VARIANTS; v++) {
        const cell_group *g = section_at(s, selector, (variant)v, ratio);
        if (g != NULL) {
            return g;
        }
    }
    return NULL;
}

/* A count and the share of the dense network's that was removed. */
static void size_cell(markup *m, double count, const spread *removed)
{
    markup_raw(m, "<td>");
    markup_scaled(m, count, "");
    if (removed->count > 0) {
        markup_raw(m, "<small>\xE2\x88\x92");
        markup_percent(m, removed->mean);
        markup_raw(m, "\xC2\xA0%</small>");
    }
    markup_raw(m, "</td>");
}

static void accuracy_row(const section *s, const cell_group *any, markup *m)
{
    const int selector = any->key.selector;
    const double ratio = any->key.sparsity;
    const int winner = winner_of(s, selector, ratio);
    ratio_cell(m, ratio);
    for (int v = 0; v < VARIANTS; v++) {
        if (s->variants[v]) {
            quality_cell(m, s, section_at(s, selector, (variant)v, ratio), v == winner);
        }
    }
    size_cell(m, any->parameters.mean, &any->removed);
    size_cell(m, any->macs.mean, &any->removed_macs);
    markup_raw(m, "</tr>\n");
}

/* The selector's name once, for all its ratios. */
static void accuracy_rows(const aggregate *a, const section *s, int selector, markup *m)
{
    int rows = 0;
    for (int i = 0; i < s->ratio_count; i++) {
        rows += any_group(s, selector, s->ratios[i]) != NULL ? 1 : 0;
    }
    bool is_first = true;
    for (int i = 0; i < s->ratio_count; i++) {
        const cell_group *any = any_group(s, selector, s->ratios[i]);
        if (any != NULL && is_first) {
            markup_format(m,
                          "<tr class=\"first\"><th scope=\"rowgroup\" rowspan=\"%d\" "
                          "class=\"text long\">",
                          rows);
            markup_text(m, a->results->selectors[selector]);
            markup_raw(m, "</th>");
        } else if (any != NULL) {
            markup_raw(m, "<tr>");
        }
        if (any != NULL) {
            accuracy_row(s, any, m);
            is_first = false;
        }
    }
}

void table_accuracy(const aggregate *a, const section *s, markup *page)
{
    table_begin(page);
    markup_raw(page, s->kind == QUALITY_ACCURACY ? "Top-1 accuracy in %, " : "Perplexity, ");
    markup_start_of(page, s->name, 60);
    markup_raw(page, ", ");
    describe_setting(page, s->samples, s->open_loop);
    markup_raw(page,
               "</h3>\n<p class=\"note\">Below each value is its 95 % interval. A value is bold "
               "where its interval lies beyond those of all other repairs.</p>\n");
    table_scroll(page, "Quality by selector and ratio");
    column(page, "selector", true);
    column(page, "units removed, %", false);
    for (int v = 0; v < VARIANTS; v++) {
        if (s->variants[v]) {
            column(page, variant_label((variant)v), false);
        }
    }
    column(page, "parameters", false);
    column(page, "MACs", false);
    table_body(page);
    for (int i = 0; i < MOST_SELECTORS; i++) {
        if (s->selectors[i]) {
            accuracy_rows(a, s, i, page);
        }
    }
    table_end(page);
}

void table_cost(const section *s, markup *page)
{
    cost costs[VARIANTS];
    cost_measure(s, costs);
    table_begin(page);
    markup_raw(page, "Time per cell and peak memory, ");
    markup_start_of(page, s->name, 60);
    table_head(page, "Time and memory");
    column(page, "repair", true);
    column(page, "calibrate", false);
    column(page, "compensate", false);
    if (section_heals(s)) {
        column(page, "heal", false);
    }
    column(page, "evaluate", false);
    column(page, "total", false);
    column(page, "peak memory", false);
    table_body(page);
    for (int v = 0; v < VARIANTS; v++) {
        if (s->variants[v]) {
            markup_raw(page, "<tr>");
            row_name(page, variant_label((variant)v));
            for (int i = 0; i < SECONDS_KINDS; i++) {
                if (i != SECONDS_HEAL || section_heals(s)) {
                    seconds_cell(page, costs[v].seconds[i].mean);
                }
            }
            scaled_cell(page, costs[v].peak.most, "B");
            markup_raw(page, "</tr>\n");
        }
    }
    table_end(page);
}

static void healing_row(variant v, const char *what, const healed *h, markup *m)
{
    markup_raw(m, "<tr>");
    row_name(m, variant_label(v));
    markup_format(m, "<td class=\"text\">%s</td>", what);
    number_cell(m, h->steps.mean, 0);
    number_cell(m, h->before.mean, 4);
    number_cell(m, h->after.mean, 4);
    seconds_cell(m, h->seconds.mean);
    markup_raw(m, "</tr>\n");
}

void table_healing(const section *s, markup *page)
{
    if (!section_heals(s)) {
        return;
    }
    table_begin(page);
    markup_raw(page, "Healing: steps and held-out loss of a training, and time per cell, ");
    markup_start_of(page, s->name, 60);
    table_head(page, "Healing");
    column(page, "repair", true);
    column(page, "trained", true);
    column(page, "steps", false);
    column(page, "loss before", false);
    column(page, "loss after", false);
    column(page, "time", false);
    table_body(page);
    for (int v = VARIANT_FORMS; v < VARIANTS; v++) {
        const healed blocks = healed_measure(s, (variant)v, true);
        const healed network = healed_measure(s, (variant)v, false);
        if (blocks.seconds.count > 0) {
            healing_row((variant)v, "blocks", &blocks, page);
        }
        if (network.seconds.count > 0) {
            healing_row((variant)v, "network", &network, page);
        }
    }
    table_end(page);
}

/* Checkpoint, selector, ratio, variant, samples, loop and seed. */
static void setting_columns(markup *m)
{
    column(m, "checkpoint", true);
    column(m, "selector", true);
    column(m, "removed, %", false);
    column(m, "repair", true);
    column(m, "samples", false);
    column(m, "loop", true);
    column(m, "seed", false);
}

static void setting_cells(const aggregate *a, const result_cell *cell, markup *m)
{
    row_name(m, a->results->checkpoints[cell->checkpoint].name);
    text_cell(m, a->results->selectors[cell->selector]);
    ratio_cell(m, cell->sparsity);
    markup_format(m, "<td class=\"text\">%s</td>", variant_label(cell->variant));
    markup_format(m, "<td>%lld</td><td class=\"text\">%s</td><td>%lld</td>",
                  (long long)cell->samples, cell->open_loop ? "open" : "closed",
                  (long long)cell->seed);
}

void table_failures(const aggregate *a, markup *page)
{
    if (a->failed_count == 0) {
        return;
    }
    table_begin(page);
    markup_raw(page, "Cells that failed");
    table_head(page, "Cells that failed");
    setting_columns(page);
    column(page, "error", true);
    table_body(page);
    for (int i = 0; i < a->failed_count; i++) {
        markup_raw(page, "<tr>");
        setting_cells(a, a->failed[i], page);
        text_cell(page, a->failed[i]->error);
        markup_raw(page, "</tr>\n");
    }
    table_end(page);
}

void table_cells(const aggregate *a, markup *page)
{
    markup_raw(page, "<details>\n<summary>All ");
    describe_count(page, a->cell_count, "measured cell");
    markup_raw(page, "</summary>\n");
    table_begin(page);
    markup_raw(page, "All measured cells");
    table_head(page, "All measured cells");
    setting_columns(page);
    column(page, "top-1, %", false);
    column(page, "\xC2\xB1", false);
    column(page, "top-5, %", false);
    column(page, "images", false);
    column(page, "parameters", false);
    column(page, "MACs", false);
    column(page, "time", false);
    column(page, "peak memory", false);
    table_body(page);
    for (int i = 0; i < a->cell_count; i++) {
        const result_cell *cell = a->cells[i];
        markup_raw(page, "<tr>");
        setting_cells(a, cell, page);
        percent_cell(page, cell->measures.top1);
        percent_cell(page, cell->measures.interval);
        percent_cell(page, cell->measures.top5);
        number_cell(page, cell->measures.images, 0);
        scaled_cell(page, cell->measures.parameters, "");
        scaled_cell(page, cell->measures.macs, "");
        seconds_cell(page, cell->measures.seconds[SECONDS_TOTAL]);
        scaled_cell(page, cell->measures.peak_bytes, "B");
        markup_raw(page, "</tr>\n");
    }
    table_end(page);
    markup_raw(page, "</details>\n");
}
