#include "reduce/select.h"

#include "reduce/fold.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct selector_entry {
    const char *name;
    bool folds;
    bool draws;
    bool needs_statistics;
} selector_entry;

static const selector_entry selectors[] = {
    [SELECTOR_RANDOM] = {.name = "random", .draws = true},
    [SELECTOR_MAGNITUDE_L1] = {.name = "magnitude-l1"},
    [SELECTOR_MAGNITUDE_L2] = {.name = "magnitude-l2"},
    [SELECTOR_WANDA] = {.name = "wanda", .needs_statistics = true},
    [SELECTOR_FOLD] = {.name = "fold", .folds = true, .draws = true}, /* seeds the clustering */
    [SELECTOR_RANDOM_FOLD] = {.name = "random-fold", .folds = true, .draws = true},
};

enum { SELECTORS = sizeof selectors / sizeof selectors[0] };

const char *selector_name_at(int i)
{
    return i >= 0 && i < SELECTORS ? selectors[i].name : NULL;
}

const char *selector_name(selector_kind kind)
{
    return selectors[kind].name;
}

bool selector_folds(selector_kind kind)
{
    return selectors[kind].folds;
}

bool selector_draws(selector_kind kind)
{
    return selectors[kind].draws;
}

bool selector_needs_statistics(selector_kind kind)
{
    return selectors[kind].needs_statistics;
}

grail_status selector_from_name(const char *name, selector_kind *out)
{
    for (int i = 0; i < SELECTORS; i++) {
        if (strcmp(name, selectors[i].name) == 0) {
            *out = (selector_kind)i;
            return GRAIL_OK;
        }
    }
    error_set(GRAIL_ERROR_ARGUMENT, "unknown selector '%s'; expected one of", name);
    for (int i = 0; i < SELECTORS; i++) {
        error_append("%s %s", i == 0 ? "" : ",", selectors[i].name);
    }
    return GRAIL_ERROR_ARGUMENT;
}

/* sums[H] = sum_o |W[o, j]|, or of the squares. */
static void column_sums(const selector_input *input, bool squares, double *sums)
{
    const int64_t width = input->units * input->features_per_unit;
    for (int64_t o = 0; o < input->outputs; o++) {
        const float *row = input->consumer + o * width;
        for (int64_t j = 0; j < width; j++) {
            const double value = (double)row[j];
            sums[j] += squares ? value * value : fabs(value);
        }
    }
}

/* The score of one feature from its column sum. The norm ||X_:,j|| of a feature that never fires is
 * taken as 1e-8, so that the weights still tell these features apart. */
static double feature_score(selector_kind kind, const selector_input *input, int64_t j, double sum)
{
    if (kind == SELECTOR_MAGNITUDE_L2) {
        return sqrt(sum);
    }
    if (kind == SELECTOR_WANDA) {
        const double norm = sqrt(input->gram_diagonal[j]);
        return sum / (double)input->outputs * (norm < 1e-8 ? 1e-8 : norm);
    }
    return sum;
}

static grail_status score_columns(selector_kind kind, const selector_input *input, double *scores)
{
    grail_status status = GRAIL_OK;
    double *sums = NULL;
    const int64_t u = input->features_per_unit;
    TRY(memory_new(&sums, (size_t)(input->units * u), sizeof *sums));
    column_sums(input, kind == SELECTOR_MAGNITUDE_L2, sums);
    for (int64_t j = 0; j < input->units; j++) {
        scores[j] = 0.0;
        for (int64_t i = j * u; i < (j + 1) * u; i++) {
            scores[j] += feature_score(kind, input, i, sums[i]);
        }
    }
out:
    memory_free(sums);
    return status;
}

static grail_status score_randomly(const selector_input *input, double *scores)
{
    grail_status status = GRAIL_OK;
    int64_t *permutation = NULL;
    random_state random;
    TRY(memory_new_unset(&permutation, (size_t)input->units, sizeof *permutation));
    random_seed(&random, input->seed, input->stream);
    random_permutation(&random, input->units, permutation);
    for (int64_t j = 0; j < input->units; j++) {
        scores[j] = (double)permutation[j];
    }
out:
    memory_free(permutation);
    return status;
}

static grail_status check_scores(int64_t units, const double *scores)
{
    for (int64_t j = 0; j < units; j++) {
        if (isnan(scores[j])) {
            return error_set(GRAIL_ERROR_NUMERIC,
                             "the score of unit %lld is not a number; look for NaN or infinity in "
                             "the weights and activations",
                             (long long)j);
        }
    }
    return GRAIL_OK;
}

grail_status selector_scores(selector_kind kind, const selector_input *input, double *scores)
{
    grail_status status = GRAIL_OK;
    if (selector_folds(kind)) {
        FAIL(GRAIL_ERROR_ARGUMENT, "selector '%s' clusters units and has no scores",
             selector_name(kind));
    }
    if (selector_needs_statistics(kind) && input->gram_diagonal == NULL) {
        FAIL(GRAIL_ERROR_ARGUMENT, "selector '%s' needs statistics; give calibration data",
             selector_name(kind));
    }
    if (kind == SELECTOR_RANDOM) {
        TRY(score_randomly(input, scores));
    } else {
        TRY(score_columns(kind, input, scores));
    }
    TRY(check_scores(input->units, scores));
out:
    return status;
}

/* sum over the unit's rows of |W_ji| a_i, or of its square. */
static double unit_sum(const producer_rows *p, int64_t begin, int64_t end, bool squares)
{
    double sum = 0.0;
    for (int64_t r = begin; r < end; r++) {
        const float *row = p->weight + r * p->columns;
        for (int64_t i = 0; i < p->columns; i++) {
            const double norm = p->column_norms == NULL ? 1.0 : p->column_norms[i];
            const double value = fabs((double)row[i]) * norm;
            sum += squares ? value * value : value;
        }
    }
    return sum;
}

grail_status selector_row_scores(selector_kind kind, int64_t units, int64_t features_per_unit,
                                 int count, const producer_rows producers[], double *scores)
{
    const bool squares = kind == SELECTOR_MAGNITUDE_L2;
    const int64_t u = features_per_unit;
    for (int64_t j = 0; j < units; j++) {
        double sum = 0.0;
        for (int p = 0; p < count; p++) {
            sum += unit_sum(&producers[p], j * u, (j + 1) * u, squares);
        }
        scores[j] = squares ? sqrt(sum) : sum;
    }
    return check_scores(units, scores);
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

/* chosen[kept] = the best of the units first .. first+count-1. */
static void rank_group(int64_t first, int64_t count, const double *scores, int64_t kept,
                       ranked_unit *ranked, int64_t *chosen)
{
    for (int64_t i = 0; i < count; i++) {
        ranked[i] = (ranked_unit){scores[first + i], first + i};
    }
    qsort(ranked, (size_t)count, sizeof *ranked, by_rank);
    for (int64_t i = 0; i < kept; i++) {
        chosen[i] = ranked[i].unit;
    }
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
    TRY(check_scores(units, scores));
    TRY(memory_new_unset(&ranked, (size_t)(units / groups), sizeof *ranked));
    TRY(memory_new_unset(&chosen, (size_t)kept, sizeof *chosen));
    for (int64_t g = 0; g < groups; g++) {
        rank_group(g * (units / groups), units / groups, scores, kept / groups, ranked,
                   chosen + g * (kept / groups));
    }
    qsort(chosen, (size_t)kept, sizeof *chosen, by_index);
    TRY(grail_reducer_from_selection(units, kept, chosen, out));
out:
    memory_free(ranked);
    memory_free(chosen);
    return status;
}

grail_status fold_randomly(int64_t units, int64_t kept, uint64_t seed, uint64_t stream,
                           grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    int64_t *order = NULL;
    int64_t *labels = NULL;
    random_state random;
    if (kept <= 0 || kept > units) {
        FAIL(GRAIL_ERROR_ARGUMENT, "cannot fold %lld units into %lld clusters", (long long)units,
             (long long)kept);
    }
    TRY(memory_new_unset(&order, (size_t)units, sizeof *order));
    TRY(memory_new_unset(&labels, (size_t)units, sizeof *labels));
    random_seed(&random, seed, stream);
    random_permutation(&random, units, order);
    for (int64_t i = 0; i < units; i++) {
        labels[order[i]] = i < kept ? i : random_below(&random, kept);
    }
    TRY(labels_renumber(units, kept, labels));
    TRY(grail_reducer_from_labels(units, kept, labels, out));
out:
    memory_free(order);
    memory_free(labels);
    return status;
}
