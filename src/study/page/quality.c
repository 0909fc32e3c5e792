#include "study/page/quality.h"
#include "study/page/section.h"

#include <math.h>

double quality_latency(const line_measures *m)
{
    return isnan(m->latency) ? m->seconds[SECONDS_EVALUATE] / m->images : m->latency;
}

/* Index of the first cell whose checkpoint and seed are not below the given ones. */
static int lower_bound(const cell_group *g, int checkpoint, int64_t seed)
{
    int low = 0;
    int high = g->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const result_cell *cell = g->cells[middle];
        const bool below = cell->checkpoint < checkpoint ||
                           (cell->checkpoint == checkpoint && cell->settings.seed < seed);
        low = below ? middle + 1 : low;
        high = below ? high : middle;
    }
    return low;
}

/* The plain cut of the cell's checkpoint and seed, or of its lowest seed; NULL where there is
 * none. */
static const result_cell *plain_cell(const cell_group *plain, const result_cell *cell)
{
    const int exact = lower_bound(plain, cell->checkpoint, cell->settings.seed);
    if (exact < plain->count && plain->cells[exact]->checkpoint == cell->checkpoint &&
        plain->cells[exact]->settings.seed == cell->settings.seed) {
        return plain->cells[exact];
    }
    const int first = lower_bound(plain, cell->checkpoint, 0);
    const bool found = first < plain->count && plain->cells[first]->checkpoint == cell->checkpoint;
    return found ? plain->cells[first] : NULL;
}

static const cell_group *find_plain(const section *s, const group_key *key)
{
    group_key wanted = *key;
    wanted.variant = VARIANT_NONE;
    const cell_group *exact = section_find(s, &wanted);
    return exact != NULL ? exact : section_at(s, key->selector, VARIANT_NONE, key->sparsity);
}

/* Perplexities as mean losses, so that averages and differences are of equal relative size. */
static estimate quality_of(quality_kind kind, const line_measures *m)
{
    return kind == QUALITY_ACCURACY
               ? estimate_of_share(m->top1, m->images, m->interval)
               : estimate_of_error(log(m->perplexity), m->perplexity_error / m->perplexity);
}

/* The gains of a group over its plain cuts; `runs` has room for all its cells. */
static void measure_gain(cell_group *g, const cell_group *plain, estimate *runs)
{
    int count = 0;
    for (int i = 0; i < g->count; i++) {
        const line_measures *m = &g->cells[i]->measures;
        const result_cell *cut = plain_cell(plain, g->cells[i]);
        if (cut == NULL || isnan(m->top1 - cut->measures.top1)) {
            continue;
        }
        const estimate after = quality_of(QUALITY_ACCURACY, m);
        const estimate before = quality_of(QUALITY_ACCURACY, &cut->measures);
        runs[count++] = estimate_difference(&after, &before);
        spread_add(&g->plain, before.value);
        spread_add(&g->gain, after.value - before.value);
    }
    g->gained = estimate_of_runs(runs, count);
}

static void measure_gains(aggregate *a, estimate *runs)
{
    for (int i = 0; i < a->group_count; i++) {
        cell_group *g = &a->groups[i];
        const cell_group *plain = g->key.variant == VARIANT_NONE
                                      ? NULL
                                      : find_plain(&a->sections[g->key.section], &g->key);
        g->gained = estimate_none();
        if (plain != NULL) {
            measure_gain(g, plain, runs);
        }
    }
}

/* From the mean of runs to what is shown. */
static estimate shown_quality(quality_kind kind, const estimate *runs, int count)
{
    estimate e = estimate_of_runs(runs, count);
    if (kind == QUALITY_PERPLEXITY) {
        return (estimate){exp(e.value), exp(e.low), exp(e.high)};
    }
    if (estimate_has_interval(&e)) {
        e.low = fmax(e.low, 0.0);
        e.high = fmin(e.high, 1.0);
    }
    return e;
}

/* The same for losses: from shares and mean losses of tokens to points and percent. */
static estimate shown_loss(quality_kind kind, const estimate *runs, int count)
{
    const estimate e = estimate_of_runs(runs, count);
    return kind == QUALITY_ACCURACY
               ? estimate_scaled(&e, 100.0)
               : (estimate){100.0 * expm1(e.value), 100.0 * expm1(e.low), 100.0 * expm1(e.high)};
}

static bool has_quality(quality_kind kind, const line_measures *m)
{
    return !isnan(kind == QUALITY_ACCURACY ? m->top1 : m->perplexity);
}

/* A section whose networks have perplexities and no accuracies reads text. */
static void choose_kinds(aggregate *a)
{
    const results *r = a->results;
    for (int pass = 0; pass < 2; pass++) {
        const quality_kind kind = pass == 0 ? QUALITY_PERPLEXITY : QUALITY_ACCURACY;
        for (int i = 0; i < r->checkpoint_count; i++) {
            if (has_quality(kind, &r->checkpoints[i].measures)) {
                a->sections[a->section_of[i]].kind = kind;
            }
        }
        for (int i = 0; i < a->cell_count; i++) {
            if (has_quality(kind, &a->cells[i]->measures)) {
                a->sections[a->section_of[a->cells[i]->checkpoint]].kind = kind;
            }
        }
    }
}

static void measure_dense(aggregate *a, estimate *runs)
{
    const results *r = a->results;
    for (int i = 0; i < a->section_count; i++) {
        section *s = &a->sections[i];
        spread latency = spread_empty();
        int count = 0;
        for (int j = 0; j < r->checkpoint_count; j++) {
            if (a->section_of[j] == i) {
                const line_measures *m = &r->checkpoints[j].measures;
                runs[count] = quality_of(s->kind, m);
                count += estimate_is_known(&runs[count]) ? 1 : 0;
                spread_add(&latency, quality_latency(m));
            }
        }
        s->dense_quality = shown_quality(s->kind, runs, count);
        s->dense_latency = latency.mean;
    }
}

/* How much worse a network is than the dense one of its checkpoint. */
static estimate loss_of(const aggregate *a, quality_kind kind, const result_cell *cell)
{
    const estimate dense = quality_of(kind, &a->results->checkpoints[cell->checkpoint].measures);
    const estimate narrow = quality_of(kind, &cell->measures);
    return kind == QUALITY_ACCURACY ? estimate_difference(&dense, &narrow)
                                    : estimate_difference(&narrow, &dense);
}

static void measure_group(const aggregate *a, cell_group *g, estimate *runs)
{
    const quality_kind kind = a->sections[g->key.section].kind;
    int count = 0;
    for (int i = 0; i < g->count; i++) {
        runs[count] = quality_of(kind, &g->cells[i]->measures);
        count += estimate_is_known(&runs[count]) ? 1 : 0;
    }
    g->quality = shown_quality(kind, runs, count);
    count = 0;
    for (int i = 0; i < g->count; i++) {
        runs[count] = loss_of(a, kind, g->cells[i]);
        count += estimate_is_known(&runs[count]) ? 1 : 0;
    }
    g->lost = shown_loss(kind, runs, count);
}

grail_status quality_measure(aggregate *a)
{
    estimate *runs = NULL;
    const int most =
        a->cell_count > a->results->checkpoint_count ? a->cell_count : a->results->checkpoint_count;
    const grail_status status = memory_new(&runs, (size_t)most + 1, sizeof runs[0]);
    if (status == GRAIL_OK) {
        choose_kinds(a);
        measure_dense(a, runs);
        for (int i = 0; i < a->group_count; i++) {
            measure_group(a, &a->groups[i], runs);
        }
        measure_gains(a, runs);
    }
    memory_free(runs);
    return status;
}
