/* random: any units, drawn evenly. random-fold: any clusters. Both are baselines. */
#include "base/random.h"
#include "reduce/fold.h"
#include "reduce/scores.h"
#include "reduce/selector.h"

static grail_status score_randomly(const site_view *v, double *scores)
{
    const int64_t units = v->site->units;
    int64_t *permutation = NULL;
    random_state random;
    CHECK(memory_new_unset(&permutation, (size_t)units, sizeof permutation[0]));
    random_seed(&random, v->seed, v->stream);
    random_permutation(&random, units, permutation);
    for (int64_t j = 0; j < units; j++) {
        scores[j] = (double)permutation[j];
    }
    memory_free(permutation);
    return GRAIL_OK;
}

/* Every cluster once, then n-K uniform draws, permuted. */
static grail_status fold_randomly(const site_view *v, grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    const int64_t units = v->site->units;
    const int64_t kept = v->kept;
    int64_t *order = NULL;
    int64_t *labels = NULL;
    random_state random;
    if (kept <= 0 || kept > units) {
        FAIL(GRAIL_ERROR_ARGUMENT, "cannot fold %lld units into %lld clusters", (long long)units,
             (long long)kept);
    }
    TRY(memory_new_unset(&order, (size_t)units, sizeof *order));
    TRY(memory_new_unset(&labels, (size_t)units, sizeof *labels));
    random_seed(&random, v->seed, v->stream);
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

const selector selector_random = {
    .name = "random",
    .summary = "keeps units at random",
    .draws = true,
    .decides_experts = true,
    .score = score_randomly,
};

const selector selector_random_fold = {
    .name = "random-fold",
    .summary = "merges units into random clusters",
    .folds = true,
    .draws = true,
    .decide = fold_randomly,
};
