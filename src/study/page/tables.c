#include "study/page/tables.h"

#include "study/page/cost.h"
#include "study/page/describe.h"
#include "study/page/healed.h"
#include "study/page/section.h"
#include "study/page/series.h"

typedef struct column {
    const char *name; /* NULL behind the last */
    bool is_text;
} column;

static void write_column(markup *m, const char *name, bool is_text)
{
    markup_format(m, "<th scope=\"col\"%s>%s</th>", is_text ? " class=\"text\"" : "", name);
}

static void write_columns(markup *m, const column *c)
{
    for (; c->name != NULL; c++) {
        write_column(m, c->name, c->is_text);
    }
}

/* A box that scrolls sideways by itself, also by keyboard; columns follow. */
static void table_begin(markup *m, const char *name)
{
    markup_format(m,
                  "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"%s\">\n"
                  "<table>\n<thead><tr>",
                  name);
}

static void table_body(markup *m)
{
    markup_raw(m, "</tr></thead>\n<tbody>\n");
}

static void table_end(markup *m)
{
    markup_raw(m, "</tbody>\n</table>\n</div>\n");
}

static void text_cell(markup *m, const char *text)
{
    markup_raw(m, "<td class=\"text long\">");
    markup_text(m, text);
    markup_raw(m, "</td>");
}

static void row_begin(markup *m, const char *name)
{
    markup_raw(m, "<tr><th scope=\"row\" class=\"text long\">");
    markup_text(m, name);
    markup_raw(m, "</th>");
}

static void cell(markup *m, short_text text)
{
    markup_format(m, "<td>%s</td>", text.text);
}

static void accuracy_cells(markup *m, const line_measures *measures)
{
    cell(m, percent_text(measures->top1));
    cell(m, percent_text(measures->interval));
    cell(m, percent_text(measures->top5));
    cell(m, number_text(measures->images, 0));
}

static void size_cells(markup *m, const line_measures *measures)
{
    cell(m, scaled_text(measures->parameters, ""));
    cell(m, scaled_text(measures->macs, ""));
}

void table_dense(const aggregate *a, markup *page)
{
    static const column columns[] = {
        {"checkpoint", true}, {"architecture", true}, {"parameters", false},
        {"MACs", false},      {"top-1, %", false},    {"\xC2\xB1", false},
        {"top-5, %", false},  {"images", false},      {NULL, false}};
    markup_raw(page, "<h3>Dense checkpoints</h3>\n");
    table_begin(page, "Dense checkpoints");
    write_columns(page, columns);
    table_body(page);
    for (int i = 0; i < a->results->checkpoint_count; i++) {
        const result_checkpoint *c = &a->results->checkpoints[i];
        row_begin(page, c->name);
        text_cell(page, c->architecture == NULL ? "not measured" : c->architecture);
        size_cells(page, &c->measures);
        accuracy_cells(page, &c->measures);
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
    markup_format(m, is_winner ? "<td><b>%s</b>" : "<td>%s",
                  value_text(s->kind, g->quality.value).text);
    if (estimate_has_interval(&g->quality)) {
        markup_format(m, "<small>%s\xE2\x80\x93%s</small>",
                      value_text(s->kind, g->quality.low).text,
                      value_text(s->kind, g->quality.high).text);
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
    markup_format(m, "<td>%s", scaled_text(count, "").text);
    if (removed->count > 0) {
        markup_format(m, "<small>\xE2\x88\x92%s\xC2\xA0%%</small>",
                      percent_text(removed->mean).text);
    }
    markup_raw(m, "</td>");
}

static void accuracy_row(const section *s, const cell_group *any, markup *m)
{
    const int selector = any->key.selector;
    const double ratio = any->key.sparsity;
    const int winner = winner_of(s, selector, ratio);
    cell(m, ratio_text(ratio));
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
    static const column setting[] = {
        {"selector", true}, {"units removed, %", false}, {NULL, false}};
    static const column size[] = {{"parameters", false}, {"MACs", false}, {NULL, false}};
    markup_format(
        page,
        "<h3>%s, %s, %s</h3>\n<p class=\"note\">Below each value is its 95 %% interval. A "
        "value is bold where its interval lies beyond those of all other repairs.</p>\n",
        s->kind == QUALITY_ACCURACY ? "Top-1 accuracy in %" : "Perplexity",
        start_of(s->name, 60).text, setting_text(s->samples, s->open_loop).text);
    table_begin(page, "Quality by selector and ratio");
    write_columns(page, setting);
    for (int v = 0; v < VARIANTS; v++) {
        if (s->variants[v]) {
            write_column(page, variant_label((variant)v), false);
        }
    }
    write_columns(page, size);
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
    static const column columns[] = {
        {"repair", true},    {"calibrate", false}, {"compensate", false}, {"heal", false},
        {"evaluate", false}, {"total", false},     {"peak memory", false}};
    cost costs[VARIANTS];
    const bool heals = section_heals(s);
    cost_measure(s, costs);
    markup_format(page, "<h3>Time per cell and peak memory, %s</h3>\n", start_of(s->name, 60).text);
    table_begin(page, "Time and memory");
    for (int i = 0; i < SECONDS_KINDS + 2; i++) {
        if (i != SECONDS_HEAL + 1 || heals) {
            write_column(page, columns[i].name, columns[i].is_text);
        }
    }
    table_body(page);
    for (int v = 0; v < VARIANTS; v++) {
        if (s->variants[v]) {
            row_begin(page, variant_label((variant)v));
            for (int i = 0; i < SECONDS_KINDS; i++) {
                if (i != SECONDS_HEAL || heals) {
                    cell(page, seconds_text(costs[v].seconds[i].mean));
                }
            }
            cell(page, scaled_text(costs[v].peak.most, "B"));
            markup_raw(page, "</tr>\n");
        }
    }
    table_end(page);
}

static void healing_row(const section *s, variant v, bool of_blocks, markup *m)
{
    const healed h = healed_measure(s, v, of_blocks);
    if (h.seconds.count == 0) {
        return;
    }
    row_begin(m, variant_label(v));
    markup_format(m, "<td class=\"text\">%s</td>", of_blocks ? "blocks" : "network");
    cell(m, number_text(h.steps.mean, 0));
    cell(m, number_text(h.before.mean, 4));
    cell(m, number_text(h.after.mean, 4));
    cell(m, seconds_text(h.seconds.mean));
    markup_raw(m, "</tr>\n");
}

void table_healing(const section *s, markup *page)
{
    static const column columns[] = {
        {"repair", true},      {"trained", true}, {"steps", false}, {"loss before", false},
        {"loss after", false}, {"time", false},   {NULL, false}};
    if (!section_heals(s)) {
        return;
    }
    markup_format(
        page, "<h3>Healing: steps and held-out loss of a training, and time per cell, %s</h3>\n",
        start_of(s->name, 60).text);
    table_begin(page, "Healing");
    write_columns(page, columns);
    table_body(page);
    for (int v = VARIANT_FORMS; v < VARIANTS; v++) {
        healing_row(s, (variant)v, true, page);
        healing_row(s, (variant)v, false, page);
    }
    table_end(page);
}

static const column setting_columns[] = {
    {"checkpoint", true}, {"selector", true}, {"removed, %", false}, {"repair", true},
    {"samples", false},   {"loop", true},     {"seed", false},       {NULL, false}};

static void row_of_cell(const aggregate *a, const result_cell *c, markup *m)
{
    row_begin(m, a->results->checkpoints[c->checkpoint].name);
    text_cell(m, a->results->selectors[c->selector]);
    cell(m, ratio_text(c->sparsity));
    markup_format(m,
                  "<td class=\"text\">%s</td><td>%lld</td><td class=\"text\">%s</td><td>%lld</td>",
                  variant_label(c->variant), (long long)c->samples,
                  c->open_loop ? "open" : "closed", (long long)c->seed);
}

void table_failures(const aggregate *a, markup *page)
{
    if (a->failed_count == 0) {
        return;
    }
    markup_raw(page, "<h3>Cells that failed</h3>\n");
    table_begin(page, "Cells that failed");
    write_columns(page, setting_columns);
    write_column(page, "error", true);
    table_body(page);
    for (int i = 0; i < a->failed_count; i++) {
        row_of_cell(a, a->failed[i], page);
        text_cell(page, a->failed[i]->error);
        markup_raw(page, "</tr>\n");
    }
    table_end(page);
}

void table_cells(const aggregate *a, markup *page)
{
    static const column columns[] = {
        {"top-1, %", false}, {"\xC2\xB1", false},    {"top-5, %", false},
        {"images", false},   {"parameters", false},  {"MACs", false},
        {"time", false},     {"peak memory", false}, {NULL, false}};
    markup_format(page, "<details>\n<summary>All %s</summary>\n<h3>All measured cells</h3>\n",
                  count_text(a->cell_count, "measured cell").text);
    table_begin(page, "All measured cells");
    write_columns(page, setting_columns);
    write_columns(page, columns);
    table_body(page);
    for (int i = 0; i < a->cell_count; i++) {
        const line_measures *measures = &a->cells[i]->measures;
        row_of_cell(a, a->cells[i], page);
        accuracy_cells(page, measures);
        size_cells(page, measures);
        cell(page, seconds_text(measures->seconds[SECONDS_TOTAL]));
        cell(page, scaled_text(measures->peak_bytes, "B"));
        markup_raw(page, "</tr>\n");
    }
    table_end(page);
    markup_raw(page, "</details>\n");
}
