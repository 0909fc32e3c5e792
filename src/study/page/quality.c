#include "study/page/quality.h"
#include "study/page/section.h"

#include <math.h>

enum { MOST_PAIRED_RUNS = 100 };

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
    if (exact != NULL || key->setting != s->setting) {
        return exact;
    }
    return section_at(s, key->selector, VARIANT_NONE, key->sparsity);
}

/* Perplexities as mean losses, so that averages and differences are of equal relative size. */
static estimate quality_of(quality_kind kind, const line_measures *m)
{
    return kind == QUALITY_ACCURACY
               ? estimate_of_share(m->top1, m->images, m->interval)
               : estimate_of_error(log(m->perplexity), m->perplexity_error / m->perplexity);
}

/* The outcomes of a network on the images or windows of an evaluation. */
typedef struct outcomes {
    const double *values;
    int count; /* 0: they were not kept */
} outcomes;

static outcomes outcomes_of(const result_cell *cell)
{
    return (outcomes){cell->outcomes, cell->outcome_count};
}

static bool are_paired(outcomes a, outcomes b)
{
    return a.count > 0 && a.count == b.count;
}

/* a - b, pair by pair where the outcomes of both were kept. */
static estimate difference_of(quality_kind kind, const line_measures *a, outcomes of_a,
                              const line_measures *b, outcomes of_b)
{
    const estimate first = quality_of(kind, a);
    const estimate second = quality_of(kind, b);
    const estimate apart = estimate_difference(&first, &second);
    if (!are_paired(of_a, of_b) || !estimate_is_known(&apart)) {
        return apart;
    }
    estimate e = estimate_of_pairs(of_a.values, of_b.values, of_a.count, kind == QUALITY_ACCURACY);
    e.value = apart.value; /* what the lines say, without rounding again */
    return e;
}

/* The share of a perplexity that is gone where the mean loss is lower by e. */
static estimate share_gone(const estimate *e)
{
    return (estimate){-expm1(-e->value), -expm1(-e->low), -expm1(-e->high)};
}

/* The gains of a group over its plain cuts; `runs` has room for all its cells. */
static void measure_gain(quality_kind kind, cell_group *g, const cell_group *plain, estimate *runs)
{
    const bool is_text = kind == QUALITY_PERPLEXITY;
    int count = 0;
    for (int i = 0; i < g->count; i++) {
        const result_cell *cell = g->cells[i];
        const result_cell *cut = plain_cell(plain, cell);
        if (cut == NULL) {
            continue;
        }
        const result_cell *better = is_text ? cut : cell;
        const result_cell *worse = is_text ? cell : cut;
        const estimate e = difference_of(kind, &better->measures, outcomes_of(better),
                                         &worse->measures, outcomes_of(worse));
        if (estimate_is_known(&e)) {
            runs[count++] = e;
            spread_add(&g->plain, is_text ? cut->measures.perplexity : cut->measures.top1);
            spread_add(&g->gain, is_text ? share_gone(&e).value : e.value);
        }
    }
    g->gained = estimate_of_runs(runs, count);
    g->gained = is_text ? share_gone(&g->gained) : g->gained;
}

static void measure_gains(aggregate *a, estimate *runs)
{
    for (int i = 0; i < a->group_count; i++) {
        cell_group *g = &a->groups[i];
        const section *s = &a->sections[g->key.section];
        const cell_group *plain = g->key.variant == VARIANT_NONE ? NULL : find_plain(s, &g->key);
        g->gained = estimate_none();
        if (plain != NULL) {
            measure_gain(s->kind, g, plain, runs);
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
    const result_checkpoint *c = &a->results->checkpoints[cell->checkpoint];
    const outcomes dense = {c->outcomes, c->outcome_count};
    return kind == QUALITY_ACCURACY
               ? difference_of(kind, &c->measures, dense, &cell->measures, outcomes_of(cell))
               : difference_of(kind, &cell->measures, outcomes_of(cell), &c->measures, dense);
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

/* The mean difference of the cells of two groups that have the same checkpoint and seed, pair by
 * pair; *paired tells whether all of them have such a partner with outcomes. */
static estimate paired_difference(quality_kind kind, const cell_group *g, const cell_group *other,
                                  bool *paired)
{
    estimate runs[MOST_PAIRED_RUNS];
    int count = 0;
    *paired = g->count == other->count && g->count <= MOST_PAIRED_RUNS;
    for (int i = 0; *paired && i < g->count; i++) {
        const result_cell *a = g->cells[i];
        const result_cell *b = other->cells[i];
        *paired = a->checkpoint == b->checkpoint && a->settings.seed == b->settings.seed &&
                  are_paired(outcomes_of(a), outcomes_of(b));
        if (*paired) {
            runs[count++] =
                difference_of(kind, &a->measures, outcomes_of(a), &b->measures, outcomes_of(b));
        }
    }
    return estimate_of_runs(runs, count);
}

bool quality_is_better(quality_kind kind, const cell_group *g, const cell_group *other)
{
    bool paired = false;
    const estimate e = paired_difference(kind, g, other, &paired);
    if (paired && estimate_has_interval(&e)) {
        return kind == QUALITY_ACCURACY ? e.low > 0.0 : e.high < 0.0;
    }
    return kind == QUALITY_ACCURACY ? estimate_is_above(&g->quality, &other->quality)
                                    : estimate_is_above(&other->quality, &g->quality);
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
