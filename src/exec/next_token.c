#include "exec/next_token.h"

#include "backend/cpu/reductions.h"
#include "backend/cpu/special.h"
#include "base/clones.h"
#include "base/memory.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* -- from all, where a sort would take longer than the rest ------------------------------------ */

enum { BLOCK = 128, LANES = 16 };

CPU_CLONES static double sum_weights(const float weights[BLOCK])
{
    float lanes[LANES] = {0.0F};
    double sum = 0.0;
    for (int64_t first = 0; first < BLOCK; first += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            lanes[lane] += weights[first + lane];
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        sum += (double)lanes[lane];
    }
    return sum;
}

/* weights[count] <- in proportion to their probabilities; the sum of them. */
CPU_CLONES static double weigh(int64_t count, const float *logits, float largest, float colder,
                               float weights[BLOCK])
{
    for (int64_t i = 0; i < count; i++) {
        weights[i] = exp_f32((logits[i] - largest) * colder);
    }
    for (int64_t i = count; i < BLOCK; i++) {
        weights[i] = 0.0F;
    }
    return sum_weights(weights);
}

/* The first at which the weights exceed `left`, or, by rounding, the last that has one. */
static int64_t find_weight(const float weights[BLOCK], int64_t count, double left)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count && left >= 0.0; i++) {
        found = weights[i] > 0.0F ? i : found;
        left -= (double)weights[i];
    }
    return found;
}

/* In the order of their ids. Weights are computed twice, and kept nowhere. */
static int64_t draw_from_all(const float *logits, int64_t count, int64_t largest,
                             double temperature, random_state *random)
{
    static const double coldest = 1e30;
    float weights[BLOCK];
    const float colder = (float)fmin(fmax(1.0 / temperature, 1.0 / coldest), coldest);
    double sum = 0.0;
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int64_t size = count - first < BLOCK ? count - first : BLOCK;
        sum += weigh(size, logits + first, logits[largest], colder, weights);
    }
    double left = random_uniform(random) * sum;
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int64_t size = count - first < BLOCK ? count - first : BLOCK;
        const double own = weigh(size, logits + first, logits[largest], colder, weights);
        if (left < own) {
            return first + find_weight(weights, size, left);
        }
        left -= own;
    }
    return largest; /* by rounding alone */
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
    if (o->top_k == 0 && o->top_p <= 0.0) {
        *out = (int32_t)draw_from_all(logits, count, largest, o->temperature, random);
        return GRAIL_OK;
    }
    TRY(memory_new_unset(&all, (size_t)count, sizeof all[0]));
    for (int64_t i = 0; i < count; i++) {
        const double below = ((double)logits[i] - (double)logits[largest]) / o->temperature;
        all[i] = (candidate){exp(below), (int32_t)i};
    }
    qsort(all, (size_t)count, sizeof all[0], compare_candidates);
    const int64_t kept = cut_off(o, all, count, &sum);
    *out = draw(all, kept, sum, random);
out:
    memory_free(all);
    return status;
}

CPU_CLONES static void divide(float *values, int64_t count, double sum)
{
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)((double)values[i] / sum);
    }
}

void next_token_gradient(float *logits, int64_t count, random_state *random)
{
    const float largest = row_maximum(count, logits, logits[0]);
    float weights[BLOCK];
    double sum = 0.0;
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int64_t size = count - first < BLOCK ? count - first : BLOCK;
        sum += weigh(size, logits + first, largest, 1.0F, weights);
        memcpy(logits + first, weights, (size_t)size * sizeof weights[0]);
    }
    double left = random_uniform(random) * sum;
    int64_t first = 0;
    for (; first + BLOCK < count; first += BLOCK) {
        const double own = sum_weights(logits + first);
        if (left < own) {
            break;
        }
        left -= own;
    }
    const int64_t size = count - first < BLOCK ? count - first : BLOCK;
    const int64_t drawn = first + find_weight(logits + first, size, left);
    divide(logits, count, sum);
    logits[drawn] -= 1.0F;
}
