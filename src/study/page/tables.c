#include "study/page/tables.h"

#include "study/page/cost.h"
#include "study/page/healed.h"
#include "study/page/quality.h"
#include "study/page/row.h"
#include "study/page/section.h"
#include "study/page/sizes.h"

#include <math.h>

static bool is_winner(const section *s, const cell_group *g)
{
    int beaten = 0;
    int others = 0;
    for (int v = 0; v < VARIANTS; v++) {
        const cell_group *other = section_at(s, g->key.selector, (variant)v, g->key.sparsity);
        if (other != NULL && other != g && estimate_is_known(&other->quality)) {
            others++;
            beaten += quality_is_better(s->kind, g, other) ? 1 : 0;
        }
    }
    return section_shows(s, g) && others > 0 && beaten == others;
}

static void add_settings(const aggregate *a, row *r, const result_cell *cell)
{
    const line_settings *s = &cell->settings;
    row_text(r, s->selector);
    row_variant(r, s->variant);
    row_text(r, s->open_loop ? "open" : "closed");
    row_number(r, (double)s->samples);
    row_number(r, s->sparsity);
    row_text(r, a->results->settings[cell->setting].text);
}

static void add_seconds(row *r, const spread *seconds)
{
    for (int i = 0; i < SECONDS_KINDS; i++) {
        row_number(r, seconds[i].mean);
    }
}

static grail_status add_group(const aggregate *a, const cell_group *g, const bool *on_line,
                              json_t *table)
{
    const section *s = &a->sections[g->key.section];
    row r = row_begin();
    row_text(&r, s->name);
    add_settings(a, &r, g->cells[0]);
    row_text(&r, s->kind == QUALITY_ACCURACY ? "top-1" : "perplexity");
    row_number(&r, g->count);
    row_estimate(&r, &g->quality);
    row_estimate(&r, &g->lost);
    row_number(&r, g->plain.mean);
    row_estimate(&r, &g->gained);
    row_number(&r, g->top5.mean);
    const double sizes[] = {g->removed.mean, g->removed_macs.mean, g->latency.mean,
                            g->parameters.mean, g->macs.mean};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        row_number(&r, sizes[i]);
    }
    add_seconds(&r, g->seconds);
    row_number(&r, g->peak_bytes.most);
    row_flag(&r, is_winner(s, g));
    row_flag(&r, section_shows(s, g));
    for (int i = 0; i < SIZES; i++) {
        row_flag(&r, on_line[i]);
    }
    return row_end(&r, table);
}

static const char *const group_columns[] = {"network",
                                            "selector",
                                            "repair",
                                            "loop",
                                            "samples",
                                            "ratio",
                                            "setting",
                                            "measure",
                                            "runs",
                                            "value",
                                            "low",
                                            "high",
                                            "lost",
                                            "lost_low",
                                            "lost_high",
                                            "plain",
                                            "gain",
                                            "gain_low",
                                            "gain_high",
                                            "top5",
                                            "removed",
                                            "removed_macs",
                                            "latency",
                                            "parameters",
                                            "macs",
                                            "calibrate",
                                            "compensate",
                                            "heal",
                                            "evaluate",
                                            "total",
                                            "peak_bytes",
                                            "winner",
                                            "shown",
                                            "pareto_ratio",
                                            "pareto_removed",
                                            "pareto_removed_macs",
                                            "pareto_latency",
                                            NULL};

static grail_status add_groups(const aggregate *a, json_t *table)
{
    grail_status status = GRAIL_OK;
    bool(*on_line)[SIZES] = NULL;
    TRY(memory_new(&on_line, (size_t)a->group_count, sizeof on_line[0]));
    for (int i = 0; i < a->section_count; i++) {
        TRY(sizes_find_pareto(a, &a->sections[i], on_line, NULL));
    }
    for (int i = 0; i < a->group_count; i++) {
        TRY(add_group(a, &a->groups[i], on_line[i], table));
    }
out:
    memory_free(on_line);
    return status;
}

static const char *const cost_columns[] = {"network",  "repair", "calibrate",  "compensate", "heal",
                                           "evaluate", "total",  "peak_bytes", NULL};

/* Further evaluations of a cell have none. */
static bool has_cost(const cost *c)
{
    bool found = c->peak.count > 0;
    for (int i = 0; i < SECONDS_KINDS; i++) {
        found = found || c->seconds[i].count > 0;
    }
    return found;
}

static grail_status add_costs(const aggregate *a, json_t *table)
{
    cost costs[VARIANTS];
    for (int i = 0; i < a->section_count; i++) {
        const section *s = &a->sections[i];
        cost_measure(s, costs);
        for (int v = 0; v < VARIANTS; v++) {
            if (s->variants[v] && has_cost(&costs[v])) {
                row r = row_begin();
                row_text(&r, s->name);
                row_variant(&r, (variant)v);
                add_seconds(&r, costs[v].seconds);
                row_number(&r, costs[v].peak.most);
                CHECK(row_end(&r, table));
            }
        }
    }
    return GRAIL_OK;
}

static grail_status add_healing(const section *s, variant v, bool of_blocks, json_t *table)
{
    const healed h = healed_measure(s, v, of_blocks);
    if (h.seconds.count == 0) {
        return GRAIL_OK;
    }
    row r = row_begin();
    row_text(&r, s->name);
    row_variant(&r, v);
    row_text(&r, of_blocks ? "blocks" : "network");
    row_number(&r, h.steps.mean);
    row_number(&r, h.before.mean);
    row_number(&r, h.after.mean);
    row_number(&r, h.seconds.mean);
    return row_end(&r, table);
}

static const char *const healing_columns[] = {"network",     "repair",     "trained", "steps",
                                              "loss_before", "loss_after", "seconds", NULL};

static grail_status add_healings(const aggregate *a, json_t *table)
{
    for (int i = 0; i < a->section_count; i++) {
        for (int v = VARIANT_FORMS; v < VARIANTS; v++) {
            CHECK(add_healing(&a->sections[i], (variant)v, true, table));
            CHECK(add_healing(&a->sections[i], (variant)v, false, table));
        }
    }
    return GRAIL_OK;
}

/* A site that kept all its units has no errors: nothing was fitted to it. */
static bool has_errors(const line_site *s)
{
    return !isnan(s->fit_before) || !isnan(s->fit_after) || !isnan(s->held_before) ||
           !isnan(s->held_after);
}

static const result_cell *cell_with_sites(const cell_group *g)
{
    for (int i = 0; g != NULL && i < g->count; i++) {
        for (int j = 0; j < g->cells[i]->site_count; j++) {
            if (has_errors(&g->cells[i]->sites[j])) {
                return g->cells[i];
            }
        }
    }
    return NULL;
}

/* The cell of the ratio nearest to a half that has sites; NULL where none has. */
static const result_cell *choose_cell(const section *s, int selector, variant v)
{
    const result_cell *chosen = NULL;
    for (int i = 0; i < s->ratio_count; i++) {
        const double ratio = s->ratios[i];
        const result_cell *cell = cell_with_sites(section_at(s, selector, v, ratio));
        if (cell != NULL &&
            (chosen == NULL || fabs(ratio - 0.5) < fabs(chosen->settings.sparsity - 0.5))) {
            chosen = cell;
        }
    }
    return chosen;
}

static grail_status add_sites_of(const section *s, const result_cell *cell, json_t *table)
{
    for (int i = 0; i < cell->site_count; i++) {
        const line_site *site = &cell->sites[i];
        if (has_errors(site)) {
            row r = row_begin();
            row_text(&r, s->name);
            row_text(&r, cell->settings.selector);
            row_variant(&r, cell->settings.variant);
            row_number(&r, cell->settings.sparsity);
            row_text(&r, site->name);
            const double values[] = {site->units,     site->kept,        site->fit_before,
                                     site->fit_after, site->held_before, site->held_after};
            for (size_t j = 0; j < sizeof values / sizeof values[0]; j++) {
                row_number(&r, values[j]);
            }
            CHECK(row_end(&r, table));
        }
    }
    return GRAIL_OK;
}

static const char *const site_columns[] = {"network",   "selector",    "repair",     "ratio",
                                           "site",      "units",       "kept",       "fit_before",
                                           "fit_after", "held_before", "held_after", NULL};

static grail_status add_sites(const aggregate *a, json_t *table)
{
    for (int i = 0; i < a->section_count; i++) {
        const section *s = &a->sections[i];
        const variant best = section_best_variant(s);
        for (int j = 0; j < MOST_SELECTORS; j++) {
            const result_cell *cell = s->selectors[j] ? choose_cell(s, j, best) : NULL;
            if (cell != NULL) {
                CHECK(add_sites_of(s, cell, table));
            }
        }
    }
    return GRAIL_OK;
}

static void add_measures(row *r, const line_measures *m)
{
    const double values[] = {m->top1,       m->interval,         m->top5,       m->images,
                             m->perplexity, m->perplexity_error, m->parameters, m->macs};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        row_number(r, values[i]);
    }
}

#define MEASURES                                                                                   \
    "top1", "interval", "top5", "images", "perplexity", "perplexity_error", "parameters", "macs"

static const char *const dense_columns[] = {"network", "architecture", MEASURES, NULL};

static grail_status add_dense(const aggregate *a, json_t *table)
{
    for (int i = 0; i < a->results->checkpoint_count; i++) {
        const result_checkpoint *c = &a->results->checkpoints[i];
        row r = row_begin();
        row_text(&r, c->name);
        row_text(&r, c->architecture);
        add_measures(&r, &c->measures);
        CHECK(row_end(&r, table));
    }
    return GRAIL_OK;
}

static grail_status add_cell(const aggregate *a, const result_cell *c, json_t *table)
{
    row r = row_begin();
    row_text(&r, c->settings.checkpoint);
    add_settings(a, &r, c);
    row_number(&r, (double)c->settings.seed);
    if (c->error != NULL) {
        row_text(&r, c->error);
    } else {
        add_measures(&r, &c->measures);
        row_number(&r, c->measures.seconds[SECONDS_TOTAL]);
        row_number(&r, c->measures.peak_bytes);
    }
    return row_end(&r, table);
}

#define SETTING "network", "selector", "repair", "loop", "samples", "ratio", "setting", "seed"
static const char *const cell_columns[] = {SETTING, MEASURES, "total", "peak_bytes", NULL};
static const char *const failure_columns[] = {SETTING, "error", NULL};

static grail_status add_cells(const aggregate *a, json_t *table)
{
    for (int i = 0; i < a->cell_count; i++) {
        CHECK(add_cell(a, a->cells[i], table));
    }
    return GRAIL_OK;
}

static grail_status add_failures(const aggregate *a, json_t *table)
{
    for (int i = 0; i < a->failed_count; i++) {
        if (!a->failed[i]->is_further) {
            CHECK(add_cell(a, a->failed[i], table));
        }
    }
    return GRAIL_OK;
}

grail_status tables_put(const aggregate *a, json_t *tables)
{
    static const struct {
        const char *name;
        const char *const *columns;
        grail_status (*add_rows)(const aggregate *a, json_t *table);
    } all[] = {
        {"groups", group_columns, add_groups},       {"sites", site_columns, add_sites},
        {"cost", cost_columns, add_costs},           {"healing", healing_columns, add_healings},
        {"dense", dense_columns, add_dense},         {"cells", cell_columns, add_cells},
        {"failures", failure_columns, add_failures},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        json_t *table = NULL;
        CHECK(table_put(tables, all[i].name, all[i].columns, &table));
        CHECK(all[i].add_rows(a, table));
    }
    return GRAIL_OK;
}
