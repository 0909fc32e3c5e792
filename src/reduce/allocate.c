#include "reduce/allocate.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

double allocation_least(const allocation_site *sites, int count)
{
    double sum = 0.0;
    for (int i = 0; i < count; i++) {
        sum += sites[i].cost * (double)sites[i].least;
    }
    return sum;
}

double allocation_full(const allocation_site *sites, int count)
{
    double sum = 0.0;
    for (int i = 0; i < count; i++) {
        sum += sites[i].cost * (double)sites[i].units;
    }
    return sum;
}

int64_t allocation_next_width(const allocation_site *s, int64_t kept)
{
    const int64_t next = kept < s->least ? s->least : (kept / s->step + 1) * s->step;
    return next > s->units ? s->units : next;
}

static double error_with(const allocation_site *s, int64_t kept)
{
    return s->weight * s->errors[kept];
}

static grail_status check_errors(const allocation_site *s)
{
    for (int64_t k = s->least; k < s->units; k++) {
        const double error = error_with(s, k);
        const double next = error_with(s, k + 1);
        if (!(error >= next) || !(next >= 0.0)) {
            return error_set(GRAIL_ERROR_NUMERIC,
                             "the error of '%s' is %g with %lld units and %g with %lld, expected "
                             "one that falls",
                             s->name, error, (long long)k, next, (long long)k + 1);
        }
    }
    return GRAIL_OK;
}

static grail_status check_limit(const allocation_site *sites, int count, double limit)
{
    const double least = allocation_least(sites, count);
    return limit >= least
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_ARGUMENT,
                           "the sites cost %.6g even at their least widths, which is more than the "
                           "limit of %.6g",
                           least, limit);
}

/* Raises widths while the limit allows, each time the one that lowers the error most for its cost.
 */
static void spend_rest(const allocation_site *sites, int count, double limit, int64_t *kept)
{
    double spent = 0.0;
    for (int i = 0; i < count; i++) {
        spent += sites[i].cost * (double)kept[i];
    }
    for (int best = 0; best >= 0;) {
        double most = -1.0;
        best = -1;
        for (int i = 0; i < count; i++) {
            const allocation_site *s = &sites[i];
            const int64_t next = allocation_next_width(s, kept[i]);
            const double more = s->cost * (double)(next - kept[i]);
            const double gain = error_with(s, kept[i]) - error_with(s, next);
            const double rate = more > 0.0 ? gain / more : HUGE_VAL;
            if (next > kept[i] && spent + more <= limit && rate > most) {
                most = rate;
                best = i;
            }
        }
        if (best >= 0) {
            const int64_t next = allocation_next_width(&sites[best], kept[best]);
            spent += sites[best].cost * (double)(next - kept[best]);
            kept[best] = next;
        }
    }
}

/* Least errors over the costs of a grid: best[g] is that of the sites so far at a cost of at most g
 * grid steps, choice[i, g] the width of site i there. */
typedef struct cost_grid {
    double step;           /* of cost */
    double *best, *before; /* [ALLOCATION_GRID + 1] */
    int64_t *choice;       /* [count, ALLOCATION_GRID + 1] */
} cost_grid;

enum { COSTS = ALLOCATION_GRID + 1 };

/* Grid steps of a cost, rounded up; a little less than a step above a whole number is rounding.
 * COSTS stands for more than the limit. */
static int64_t grid_steps(const cost_grid *g, double cost)
{
    if (!(cost > 0.0)) {
        return 0;
    }
    const double steps = g->step > 0.0 ? ceil(cost / g->step - 1e-9) : HUGE_VAL;
    return steps < COSTS ? (int64_t)steps : COSTS;
}

static void try_width(cost_grid *g, const allocation_site *s, int64_t width, int64_t *choice)
{
    const int64_t steps = grid_steps(g, s->cost * (double)width);
    for (int64_t c = steps; c < COSTS; c++) {
        const double error = g->before[c - steps] + error_with(s, width);
        if (error < g->best[c]) {
            g->best[c] = error;
            choice[c] = width;
        }
    }
}

/* Widths between which the grid chooses lie at least this far apart. */
static int64_t stride_of(const allocation_site *s)
{
    const int64_t widths = (s->units - s->least) / s->step + 1;
    return (widths + ALLOCATION_WIDTHS - 1) / ALLOCATION_WIDTHS;
}

static void add_site(cost_grid *g, const allocation_site *s, int64_t *choice)
{
    double *swap = g->before;
    const int64_t stride = stride_of(s);
    g->before = g->best;
    g->best = swap;
    for (int64_t c = 0; c < COSTS; c++) {
        g->best[c] = HUGE_VAL;
        choice[c] = -1;
    }
    for (int64_t width = s->least;;) {
        try_width(g, s, width, choice);
        if (width == s->units) {
            return;
        }
        for (int64_t i = 0; i < stride; i++) {
            width = allocation_next_width(s, width);
        }
    }
}

/* Follows the choices back from the full limit; false when the grid is too coarse for any. */
static bool follow_choices(const cost_grid *g, const allocation_site *sites, int count,
                           int64_t *kept)
{
    int64_t c = ALLOCATION_GRID;
    for (int i = count - 1; i >= 0; i--) {
        kept[i] = g->choice[(int64_t)i * COSTS + c];
        if (kept[i] < 0) {
            return false;
        }
        c -= grid_steps(g, sites[i].cost * (double)kept[i]);
    }
    return true;
}

static void keep_least(const allocation_site *sites, int count, int64_t *kept)
{
    for (int i = 0; i < count; i++) {
        kept[i] = sites[i].least;
    }
}

grail_status allocate_by_errors(const allocation_site *sites, int count, double limit,
                                int64_t *kept)
{
    grail_status status = GRAIL_OK;
    cost_grid g = {.step = limit / ALLOCATION_GRID};
    for (int i = 0; i < count; i++) {
        TRY(check_errors(&sites[i]));
    }
    TRY(check_limit(sites, count, limit));
    TRY(memory_new(&g.best, COSTS, sizeof g.best[0]));
    TRY(memory_new(&g.before, COSTS, sizeof g.before[0]));
    TRY(memory_new_unset(&g.choice, (size_t)count, COSTS * sizeof g.choice[0]));
    for (int i = 0; i < count; i++) {
        add_site(&g, &sites[i], g.choice + (int64_t)i * COSTS);
    }
    if (!follow_choices(&g, sites, count, kept)) {
        keep_least(sites, count, kept);
    }
    spend_rest(sites, count, limit, kept);
out:
    memory_free(g.best);
    memory_free(g.before);
    memory_free(g.choice);
    return status;
}

typedef struct scored_unit {
    double score;
    int site;
    int64_t rank; /* among the units of its site, from the best */
} scored_unit;

static int by_score(const void *left, const void *right)
{
    const scored_unit *a = left;
    const scored_unit *b = right;
    if (a->score != b->score) {
        return a->score > b->score ? -1 : 1;
    }
    return a->site != b->site ? (a->site > b->site) - (a->site < b->site)
                              : (a->rank > b->rank) - (a->rank < b->rank);
}

/* units[n] of a site, the best first. */
static grail_status rank_site(const allocation_site *sites, int index, scored_unit *units)
{
    const allocation_site *s = &sites[index];
    for (int64_t j = 0; j < s->units; j++) {
        units[j] = (scored_unit){s->scores[j], index, 0};
        if (isnan(s->scores[j])) {
            return error_set(GRAIL_ERROR_NUMERIC, "a score of '%s' is not a number", s->name);
        }
    }
    qsort(units, (size_t)s->units, sizeof units[0], by_score);
    for (int64_t j = 0; j < s->units; j++) {
        units[j].rank = j;
    }
    return GRAIL_OK;
}

/* A width takes in a run of units when the last of them comes. */
static void take_ranked(const allocation_site *sites, double limit, int64_t total,
                        const scored_unit *units, double spent, int64_t *kept)
{
    for (int64_t i = 0; i < total; i++) {
        const allocation_site *s = &sites[units[i].site];
        int64_t *width = &kept[units[i].site];
        const int64_t next = allocation_next_width(s, *width);
        const double more = s->cost * (double)(next - *width);
        if (units[i].rank + 1 == next && spent + more <= limit) {
            spent += more;
            *width = next;
        }
    }
}

grail_status allocate_by_scores(const allocation_site *sites, int count, double limit,
                                int64_t *kept)
{
    grail_status status = GRAIL_OK;
    scored_unit *units = NULL;
    int64_t total = 0;
    for (int i = 0; i < count; i++) {
        total += sites[i].units;
    }
    TRY(check_limit(sites, count, limit));
    TRY(memory_new_unset(&units, (size_t)total, sizeof units[0]));
    total = 0;
    for (int i = 0; i < count; i++) {
        TRY(rank_site(sites, i, units + total));
        total += sites[i].units;
    }
    qsort(units, (size_t)total, sizeof units[0], by_score);
    keep_least(sites, count, kept);
    take_ranked(sites, limit, total, units, allocation_least(sites, count), kept);
out:
    memory_free(units);
    return status;
}

void allocate_by_depth(int layers, double r, double *ratios)
{
    static const double usual_first = 0.0625;
    static const double most = 0.95;
    double mean_log = 0.0; /* of ln(i + 1) / ln(layers) */
    for (int i = 0; i < layers && layers > 1; i++) {
        mean_log += log(i + 1.0) / log(layers) / layers;
    }
    double first = r < usual_first ? r : usual_first;
    double last = mean_log > 0.0 ? first + (r - first) / mean_log : r;
    if (last > most) { /* r = first + (most - first) mean_log */
        last = most;
        first = mean_log < 1.0 ? (r - most * mean_log) / (1.0 - mean_log) : r;
    }
    for (int i = 0; i < layers; i++) {
        ratios[i] = layers > 1 ? first + (last - first) * log(i + 1.0) / log(layers) : r;
    }
}
