#include "reduce/scores.h"

#include "graph/operators.h"

#include <math.h>
#include <stdlib.h>

bool scores_are_of_rows(const site *s)
{
    return s->kind == SITE_CONV || s->kind == SITE_GROUPS || site_kind_is_shared(s->kind) ||
           (s->kind == SITE_FFN && s->producer_count == 1);
}

static double term_of(score_term term, double value)
{
    return term == TERM_SQUARE ? value * value : value;
}

/* The norms of what a producer's rows read. */
typedef struct row_norms {
    const double *of; /* of all features; NULL: all count as 1 */
    int64_t first;    /* the producer's row that makes unit 0 */
    int64_t in_group; /* rows that read the same run of features: all, but for groups */
} row_norms;

/* The columns of a convolution's row are those of its input channels, each with all taps. */
static double unit_sum(const unit_matrix *m, int64_t unit, score_term term, const row_norms *norms,
                       int64_t taps)
{
    double sum = 0.0;
    for (int64_t r = unit * m->features; r < (unit + 1) * m->features; r++) {
        const float *row = m->values + r * m->others;
        const int64_t before = (norms->first + r) / norms->in_group * (m->others / taps);
        for (int64_t i = 0; i < m->others; i++) {
            const double norm = norms->of == NULL ? 1.0 : norms->of[before + i / taps];
            sum += term_of(term, fabs((double)row[i]) * norm);
        }
    }
    return sum;
}

static int64_t taps_of_producer(const site_view *v, int p, const unit_matrix *m)
{
    const node *n = &v->graph->nodes[v->site->producers[p].node];
    return m->others / v->graph->parameters[n->weight].shape[1];
}

static row_norms norms_of_producer(const site_view *v, int p)
{
    const site_end *end = &v->site->producers[p];
    const node *n = &v->graph->nodes[end->node];
    return (row_norms){.of = v->input_norms,
                       .first = end->first,
                       .in_group = v->graph->parameters[n->weight].shape[0] / node_groups(n)};
}

grail_status scores_of_rows(const site_view *v, score_term term, double *scores)
{
    grail_status status = GRAIL_OK;
    unit_matrix m = {0};
    if (v->scored_producers == 0) { /* as of a caller's buffers */
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "units of this site are scored by the rows that make them, "
                                     "but it has no producer"),
                           "producers");
    }
    for (int64_t j = 0; j < v->site->units; j++) {
        scores[j] = 0.0;
    }
    for (int p = 0; p < v->scored_producers; p++) {
        const int scored = v->first_scored + p;
        TRY(site_view_producer(v, scored, &m));
        const int64_t taps = v->input_norms == NULL ? 1 : taps_of_producer(v, scored, &m);
        const row_norms norms = norms_of_producer(v, scored);
        for (int64_t j = 0; j < v->site->units; j++) {
            scores[j] += unit_sum(&m, j, term, &norms, taps);
        }
        unit_matrix_fini(&m);
    }
out:
    unit_matrix_fini(&m);
    return status;
}

grail_status sums_of_columns(const site_view *v, score_term term, double **sums, int64_t *features,
                             int64_t *rows)
{
    grail_status status = GRAIL_OK;
    unit_matrix m = {0};
    double *s = NULL;
    TRY(site_view_consumer(v, 0, &m));
    const int64_t width = v->site->units * m.features;
    TRY(memory_new(&s, (size_t)width, sizeof s[0]));
    for (int64_t o = 0; o < m.others; o++) {
        const float *row = m.values + o * width;
        for (int64_t j = 0; j < width; j++) {
            s[j] += term_of(term, fabs((double)row[j]));
        }
    }
    *sums = s;
    *features = m.features;
    *rows = m.others;
out:
    unit_matrix_fini(&m);
    return status;
}

void scores_of_features(int64_t units, int64_t features, const double *values, double *scores)
{
    for (int64_t j = 0; j < units; j++) {
        scores[j] = 0.0;
        for (int64_t i = j * features; i < (j + 1) * features; i++) {
            scores[j] += values[i];
        }
    }
}

grail_status scores_of_columns(const site_view *v, score_term term, feature_value of,
                               double *scores)
{
    double *sums = NULL;
    int64_t features = 0;
    int64_t rows = 0;
    CHECK(sums_of_columns(v, term, &sums, &features, &rows));
    for (int64_t i = 0; of != NULL && i < v->site->units * features; i++) {
        sums[i] = of(v, i, sums[i], rows);
    }
    scores_of_features(v->site->units, features, sums, scores);
    memory_free(sums);
    return GRAIL_OK;
}

typedef struct ranked_unit {
    double score;
    int64_t unit;
} ranked_unit;

static int by_rank(const void *left, const void *right)
{
    const ranked_unit *a = left;
    const ranked_unit *b = right;
    if (a->score != b->score) {
        return a->score > b->score ? -1 : 1;
    }
    return (a->unit > b->unit) - (a->unit < b->unit);
}

static int by_index(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Whether fewer than all units of a group of equal scores are kept. */
static bool is_tied(int64_t units, int64_t kept, int64_t groups, const double *scores)
{
    const int64_t count = units / groups;
    bool tied = false;
    for (int64_t g = 0; g < groups && !tied; g++) {
        const double *own = scores + g * count;
        int64_t i = 1;
        while (i < count && own[i] == own[0]) {
            i++;
        }
        tied = i == count;
    }
    return tied && kept < units;
}

grail_status select_best(int64_t units, int64_t kept, int64_t groups, const double *scores,
                         grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    ranked_unit *ranked = NULL;
    int64_t *chosen = NULL;
    if (groups <= 0 || units % groups != 0 || kept % groups != 0 || kept <= 0 || kept > units) {
        FAIL(GRAIL_ERROR_ARGUMENT, "cannot keep %lld of %lld units evenly in %lld groups",
             (long long)kept, (long long)units, (long long)groups);
    }
    for (int64_t j = 0; j < units; j++) {
        if (isnan(scores[j])) {
            FAIL(GRAIL_ERROR_NUMERIC,
                 "the score of unit %lld is not a number; look for NaN or infinity in the weights "
                 "and activations",
                 (long long)j);
        }
    }
    TRY(memory_new_unset(&ranked, (size_t)(units / groups), sizeof *ranked));
    TRY(memory_new_unset(&chosen, (size_t)kept, sizeof *chosen));
    const int64_t count = units / groups;
    for (int64_t first = 0, next = 0; first < units; first += count) {
        for (int64_t i = 0; i < count; i++) {
            ranked[i] = (ranked_unit){scores[first + i], first + i};
        }
        qsort(ranked, (size_t)count, sizeof *ranked, by_rank);
        for (int64_t i = 0; i < kept / groups; i++) {
            chosen[next++] = ranked[i].unit;
        }
    }
    qsort(chosen, (size_t)kept, sizeof *chosen, by_index);
    TRY(grail_reducer_from_selection(units, kept, chosen, out));
    (*out)->tied = is_tied(units, kept, groups, scores);
out:
    memory_free(ranked);
    memory_free(chosen);
    return status;
}

grail_status select_by_scores(const site_view *v, score_function score, grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    double *scores = NULL;
    TRY(memory_new(&scores, (size_t)v->site->units, sizeof scores[0]));
    TRY(score(v, scores));
    TRY(select_best(v->site->units, v->kept, v->site->groups, scores, out));
out:
    memory_free(scores);
    return status;
}
