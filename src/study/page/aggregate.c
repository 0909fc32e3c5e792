#include "study/page/aggregate.h"

#include "base/median.h"
#include "base/names.h"
#include "study/page/quality.h"
#include "study/page/section.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A cell with its key, for sorting. */
typedef struct keyed_cell {
    group_key key;
    const result_cell *cell;
} keyed_cell;

static int compare_settings(const keyed_cell *a, const keyed_cell *b)
{
    int order = group_key_compare(&a->key, &b->key);
    order = order != 0 ? order : integer_compare(a->cell->checkpoint, b->cell->checkpoint);
    return order != 0 ? order : integer_compare(a->cell->settings.seed, b->cell->settings.seed);
}

static int compare_keyed(const void *a, const void *b)
{
    const keyed_cell *const left = a;
    const keyed_cell *const right = b;
    const int order = compare_settings(left, right);
    return order != 0
               ? order
               : (left->cell->line > right->cell->line) - (left->cell->line < right->cell->line);
}

static const char *section_name(const results *r, int checkpoint, bool by_architecture)
{
    const result_checkpoint *c = &r->checkpoints[checkpoint];
    if (!by_architecture) {
        return c->name;
    }
    return c->architecture == NULL || c->architecture[0] == 0 ? "unknown architecture"
                                                              : c->architecture;
}

/* An architecture has a section for each text or set of images. */
static grail_status find_section(aggregate *a, const char *name, const char *evaluation, int *out)
{
    for (int i = 0; i < a->section_count; i++) {
        if (strcmp(a->sections[i].base, name) == 0 &&
            names_equal(a->sections[i].evaluation, evaluation)) {
            *out = i;
            return GRAIL_OK;
        }
    }
    section *s = &a->sections[a->section_count];
    *s = (section){.base = name, .evaluation = evaluation, .dense = spread_empty()};
    *out = a->section_count++;
    return memory_format(&s->name, "%s%s%s", name, evaluation == NULL ? "" : " on ",
                         evaluation == NULL ? "" : evaluation);
}

static grail_status make_sections(aggregate *a)
{
    const results *r = a->results;
    const bool by_architecture = aggregate_networks(a) > MOST_CHECKPOINT_SECTIONS;
    CHECK(memory_new(&a->sections, (size_t)r->checkpoint_count, sizeof a->sections[0]));
    CHECK(memory_new(&a->section_of, (size_t)r->checkpoint_count, sizeof a->section_of[0]));
    for (int i = 0; i < r->checkpoint_count; i++) {
        int index = 0;
        CHECK(find_section(a, section_name(r, i, by_architecture),
                           by_architecture ? r->checkpoints[i].evaluation : NULL, &index));
        section *s = &a->sections[index];
        s->is_architecture = by_architecture;
        s->checkpoints++;
        spread_add(&s->dense, r->checkpoints[i].measures.top1);
        a->section_of[i] = index;
    }
    return GRAIL_OK;
}

static group_key key_of(const aggregate *a, const result_cell *cell)
{
    return (group_key){
        .section = a->section_of[cell->checkpoint],
        .selector = cell->selector,
        .variant = cell->settings.variant,
        .samples = cell->settings.samples,
        .open_loop = cell->settings.open_loop,
        .setting = cell->setting,
        .sparsity = cell->settings.sparsity,
    };
}

/* Fills cells and failed, in order, from sorted; of lines with equal settings the last one
 * counts. */
static void take_cells(aggregate *a, const keyed_cell *sorted, int count)
{
    for (int i = 0; i < count; i++) {
        if (i + 1 < count && compare_settings(&sorted[i], &sorted[i + 1]) == 0) {
            a->superseded++;
        } else if (sorted[i].cell->error != NULL) {
            a->failed[a->failed_count++] = sorted[i].cell;
        } else {
            a->cells[a->cell_count++] = sorted[i].cell;
        }
    }
}

static grail_status sort_cells(aggregate *a)
{
    grail_status status = GRAIL_OK;
    const results *r = a->results;
    const size_t count = (size_t)r->cell_count;
    keyed_cell *sorted = NULL;
    TRY(memory_new(&sorted, count, sizeof sorted[0]));
    TRY(memory_new(&a->cells, count, sizeof a->cells[0]));
    TRY(memory_new(&a->failed, count, sizeof a->failed[0]));
    for (int i = 0; i < r->cell_count; i++) {
        sorted[i] = (keyed_cell){.key = key_of(a, &r->cells[i]), .cell = &r->cells[i]};
    }
    qsort(sorted, count, sizeof sorted[0], compare_keyed);
    take_cells(a, sorted, r->cell_count);
out:
    memory_free(sorted);
    return status;
}

static void group_clear(cell_group *g)
{
    spread *const all[] = {&g->top1,    &g->top5,         &g->interval,   &g->gain,
                           &g->plain,   &g->macs,         &g->parameters, &g->peak_bytes,
                           &g->removed, &g->removed_macs, &g->latency};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        *all[i] = spread_empty();
    }
    for (int i = 0; i < SECONDS_KINDS; i++) {
        g->seconds[i] = spread_empty();
    }
}

static double share_removed(double left, double dense)
{
    return dense > 0.0 ? 1.0 - left / dense : NOT_MEASURED;
}

static void group_add(cell_group *g, const result_cell *cell, const line_measures *dense)
{
    g->count++;
    const line_measures *m = &cell->measures;
    spread_add(&g->removed, share_removed(m->parameters, dense->parameters));
    spread_add(&g->removed_macs, share_removed(m->macs, dense->macs));
    spread_add(&g->latency, quality_latency(m));
    spread_add(&g->top1, m->top1);
    spread_add(&g->top5, m->top5);
    spread_add(&g->interval, m->interval);
    spread_add(&g->parameters, m->parameters);
    spread_add(&g->macs, m->macs);
    spread_add(&g->peak_bytes, m->peak_bytes);
    for (int i = 0; i < SECONDS_KINDS; i++) {
        spread_add(&g->seconds[i], m->seconds[i]);
    }
}

static grail_status group_cells(aggregate *a)
{
    const size_t most = (size_t)(a->cell_count < MOST_GROUPS ? a->cell_count : MOST_GROUPS);
    CHECK(memory_new(&a->groups, most, sizeof a->groups[0]));
    cell_group *g = NULL;
    for (int i = 0; i < a->cell_count; i++) {
        const group_key key = key_of(a, a->cells[i]);
        section *s = &a->sections[key.section];
        if (g == NULL || group_key_compare(&g->key, &key) != 0) {
            if (a->group_count == MOST_GROUPS) {
                return error_set(GRAIL_ERROR_FORMAT, "cannot show more than %d different settings",
                                 MOST_GROUPS);
            }
            g = &a->groups[a->group_count++];
            *g = (cell_group){.key = key, .cells = &a->cells[i]};
            group_clear(g);
            if (s->group_count++ == 0) {
                s->groups = g;
            }
        }
        s->selectors[key.selector] = true;
        s->variants[key.variant] = true;
        group_add(g, a->cells[i], &a->results->checkpoints[a->cells[i]->checkpoint].measures);
    }
    return GRAIL_OK;
}

/* Setting of a section's groups and how many cells have it. */
typedef struct setting {
    int64_t samples;
    bool open_loop;
    int of_results; /* index into its settings */
    int cells;
} setting;

static int compare_setting(const void *a, const void *b)
{
    const setting *const left = a;
    const setting *const right = b;
    int order = integer_compare(left->open_loop, right->open_loop);
    order = order != 0 ? order : integer_compare(right->of_results, left->of_results);
    return order != 0 ? order : integer_compare(left->samples, right->samples);
}

/* The setting of most cells. A tie goes to the closed loop, then to what came first in the file,
 * then to more samples. */
static void choose_setting(section *s, setting *all, int count)
{
    int most = 0;
    qsort(all, (size_t)count, sizeof all[0], compare_setting);
    for (int i = 0; i < count;) {
        setting sum = all[i++];
        while (i < count && compare_setting(&all[i], &sum) == 0) {
            sum.cells += all[i++].cells;
        }
        if (sum.cells > most || (sum.cells == most && sum.open_loop == s->open_loop)) {
            most = sum.cells;
            s->samples = sum.samples;
            s->open_loop = sum.open_loop;
            s->setting = sum.of_results;
        }
    }
}

static grail_status choose_settings(aggregate *a)
{
    grail_status status = GRAIL_OK;
    setting *all = NULL;
    TRY(memory_new(&all, (size_t)a->group_count, sizeof all[0]));
    for (int i = 0; i < a->section_count; i++) {
        section *s = &a->sections[i];
        const bool repaired_only = section_best_variant(s) != VARIANT_NONE;
        int count = 0;
        for (int j = 0; j < s->group_count; j++) {
            const cell_group *g = &s->groups[j];
            if (!repaired_only || g->key.variant != VARIANT_NONE) {
                all[count++] =
                    (setting){g->key.samples, g->key.open_loop, g->key.setting, g->count};
            }
        }
        choose_setting(s, all, count);
    }
out:
    memory_free(all);
    return status;
}

static grail_status list_ratios(aggregate *a)
{
    double *next = NULL;
    grail_status status = memory_new(&next, (size_t)a->group_count, sizeof next[0]);
    a->ratios = next;
    for (int i = 0; status == GRAIL_OK && i < a->section_count; i++) {
        section *s = &a->sections[i];
        int count = 0;
        for (int j = 0; j < s->group_count; j++) {
            if (section_shows(s, &s->groups[j])) {
                next[count++] = s->groups[j].key.sparsity;
            }
        }
        median_sort(next, count);
        s->ratios = next;
        for (int j = 0; j < count; j++) {
            if (s->ratio_count == 0 || ratio_compare(next[s->ratio_count - 1], next[j]) != 0) {
                next[s->ratio_count++] = next[j];
            }
        }
        if (s->ratio_count > MOST_RATIOS) {
            status = error_set(GRAIL_ERROR_FORMAT, "cannot show more than %d ratios", MOST_RATIOS);
        }
        next += s->ratio_count;
    }
    return status;
}

grail_status aggregate_results(const results *r, aggregate *out)
{
    grail_status status = GRAIL_OK;
    aggregate a = {.results = r};
    TRY(make_sections(&a));
    TRY(sort_cells(&a));
    TRY(group_cells(&a));
    TRY(choose_settings(&a));
    TRY(list_ratios(&a));
    TRY(quality_measure(&a));
    *out = a;
    a = (aggregate){0};
out:
    aggregate_fini(&a);
    return status;
}

int aggregate_networks(const aggregate *a)
{
    int count = 0;
    for (int i = 0; i < a->results->checkpoint_count; i++) {
        count += a->results->checkpoints[i].is_further ? 0 : 1;
    }
    return count;
}

int aggregate_lines(const result_cell *const *cells, int count)
{
    int lines = 0;
    for (int i = 0; i < count; i++) {
        lines += cells[i]->is_further ? 0 : 1;
    }
    return lines;
}

void aggregate_fini(aggregate *a)
{
    for (int i = 0; i < a->section_count; i++) {
        memory_free(a->sections[i].name);
    }
    memory_free(a->cells);
    memory_free(a->failed);
    memory_free(a->groups);
    memory_free(a->sections);
    memory_free(a->section_of);
    memory_free(a->ratios);
    *a = (aggregate){0};
}
