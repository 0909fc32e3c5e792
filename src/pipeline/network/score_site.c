#include "pipeline/network/score_site.h"

static const node *node_of_end(const compression_request *request, const site_end *end)
{
    return &request->graph->nodes[end->node];
}

bool site_scores_rows(const compression_request *request, int index)
{
    const site *s = site_at(request, index);
    const selector_kind selector = request->plan.sites[index].selector;
    if (selector == SELECTOR_RANDOM || selector_folds(selector)) {
        return false;
    }
    if (s->kind == SITE_CONV || s->kind == SITE_STREAM) {
        return true;
    }
    return s->kind == SITE_FFN && s->producer_count == 1 && !selector_needs_statistics(selector);
}

grail_status site_select_by_columns(const compression_request *request, parameter_store *dense,
                                    int index, const double *gram_diagonal, grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(request, index);
    const plan_site *planned = &request->plan.sites[index];
    const int weight_index = node_of_end(request, &s->consumers[0])->weight;
    const float *weight = NULL;
    float *owned = NULL;
    double *scores = NULL;
    TRY(parameter_store_borrow_f32(dense, weight_index, &weight, &owned));
    TRY(memory_new(&scores, (size_t)s->units, sizeof scores[0]));
    const selector_input input = {
        .units = s->units,
        .features_per_unit = request->cuts[weight_index].columns.features,
        .outputs = request->graph->parameters[weight_index].shape[0],
        .consumer = weight,
        .gram_diagonal = gram_diagonal,
        .seed = request->plan.seed,
        .stream = (uint64_t)index,
    };
    TRY(selector_scores(planned->selector, &input, scores));
    TRY(select_best(s->units, planned->kept, s->groups, scores, out));
out:
    memory_free(owned);
    memory_free(scores);
    return status;
}

/* Repeats norms[features] of an input's channels for every tap, in the order of a weight's row.
 * *out is owned. */
static grail_status spread_norms(const double *norms, int64_t features, int64_t taps, double **out)
{
    const grail_status status = memory_new(out, (size_t)(features * taps), sizeof **out);
    for (int64_t i = 0; status == GRAIL_OK && i < features * taps; i++) {
        (*out)[i] = norms[i / taps];
    }
    return status;
}

grail_status site_select_by_rows(const compression_request *request, parameter_store *dense,
                                 int index, const double *norms, grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(request, index);
    const plan_site *planned = &request->plan.sites[index];
    const bool scores_first =
        s->kind == SITE_STREAM && request->plan.stream_score == STREAM_SCORE_FIRST;
    const int count = scores_first || norms != NULL ? 1 : s->producer_count;
    producer_rows *producers = NULL;
    float **owned = NULL;
    double *spread = NULL;
    double *scores = NULL;
    TRY(memory_new(&producers, (size_t)count, sizeof producers[0]));
    TRY(memory_new(&owned, (size_t)count, sizeof owned[0]));
    TRY(memory_new(&scores, (size_t)s->units, sizeof scores[0]));
    for (int p = 0; p < count; p++) {
        const graph_parameter *weight =
            &request->graph->parameters[node_of_end(request, &s->producers[p])->weight];
        TRY(parameter_store_borrow_f32(dense, node_of_end(request, &s->producers[p])->weight,
                                       &producers[p].weight, &owned[p]));
        producers[p].columns = 1;
        for (int d = 1; d < weight->rank; d++) {
            producers[p].columns *= weight->shape[d];
        }
        if (norms != NULL) {
            TRY(spread_norms(norms, weight->shape[1], producers[p].columns / weight->shape[1],
                             &spread));
            producers[p].column_norms = spread;
        }
    }
    TRY(selector_row_scores(planned->selector, s->units, s->producers[0].features_per_unit, count,
                            producers, scores));
    TRY(select_best(s->units, planned->kept, s->groups, scores, out));
out:
    for (int p = 0; owned != NULL && p < count; p++) {
        memory_free(owned[p]);
    }
    memory_free(owned);
    memory_free(producers);
    memory_free(spread);
    memory_free(scores);
    return status;
}
