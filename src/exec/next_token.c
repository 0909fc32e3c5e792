#include "exec/next_token.h"

#include "base/memory.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>

int64_t index_of_largest(const float *values, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++) {
        best = values[i] > values[best] ? i : best;
    }
    return best;
}

typedef struct candidate {
    double weight; /* in proportion to its probability */
    int32_t id;
} candidate;

/* The most likely first, of equal ones the first id. */
static int compare_candidates(const void *left, const void *right)
{
    const candidate *a = left;
    const candidate *b = right;
    const int order = (a->weight < b->weight) - (a->weight > b->weight);
    return order != 0 ? order : (a->id > b->id) - (a->id < b->id);
}

/* How many of the sorted candidates are drawn from; *sum is that of their weights. */
static int64_t cut_off(const token_choice *o, const candidate *all, int64_t count, double *sum)
{
    const int64_t most = o->top_k > 0 && o->top_k < count ? o->top_k : count;
    double whole = 0.0;
    int64_t kept = 0;
    *sum = 0.0;
    for (int64_t i = 0; i < most; i++) {
        whole += all[i].weight;
    }
    do {
        *sum += all[kept++].weight;
    } while (kept < most && (o->top_p <= 0.0 || *sum < o->top_p * whole));
    return kept;
}

static int32_t draw(const candidate *all, int64_t kept, double sum, random_state *random)
{
    double left = random_uniform(random) * sum;
    int64_t i = 0;
    while (i + 1 < kept && left >= all[i].weight) {
        left -= all[i++].weight;
    }
    return all[i].id;
}

/* From all of them, in the order of their ids, where a sort would take longer than the rest. */
static int32_t draw_from_all(candidate *all, int64_t count, random_state *random)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += all[i].weight;
    }
    return draw(all, count, sum, random);
}

grail_status next_token(const token_choice *o, const float *logits, int64_t count,
                        random_state *random, int32_t *out)
{
    grail_status status = GRAIL_OK;
    candidate *all = NULL;
    double sum = 0.0;
    const int64_t largest = index_of_largest(logits, count);
    const int64_t bad = find_non_finite(logits, count);
    if (bad >= 0) {
        return error_set(GRAIL_ERROR_NUMERIC, "the logit of token %lld is NaN or infinite",
                         (long long)bad);
    }
    if (o->temperature <= 0.0) {
        *out = (int32_t)largest;
        return GRAIL_OK;
    }
    TRY(memory_new_unset(&all, (size_t)count, sizeof all[0]));
    for (int64_t i = 0; i < count; i++) {
        const double below = ((double)logits[i] - (double)logits[largest]) / o->temperature;
        all[i] = (candidate){exp(below), (int32_t)i};
    }
    if (o->top_k == 0 && o->top_p <= 0.0) {
        *out = draw_from_all(all, count, random);
        goto out;
    }
    qsort(all, (size_t)count, sizeof all[0], compare_candidates);
    const int64_t kept = cut_off(o, all, count, &sum);
    *out = draw(all, kept, sum, random);
out:
    memory_free(all);
    return status;
}
