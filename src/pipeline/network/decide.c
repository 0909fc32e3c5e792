#include "pipeline/network/decide.h"

#include "pipeline/network/carry.h"
#include "pipeline/network/merged_rows.h"

#include <math.h>
#include <string.h>

typedef struct input_squares {
    int value;
    double *squares; /* [width] */
} input_squares;

static grail_status add_squares(calibration_network *network, int64_t batch, void *user)
{
    const input_squares *s = user;
    const matrix *x = execution_value(network->current.execution, s->value);
    (void)batch;
    network->request->backend->column_sums(x->rows, x->width, x->data, x->width, NULL, s->squares);
    return GRAIL_OK;
}

/* Norms of the features of a producer's input, from their squares. Features that an earlier site
 * removed get 0 (docs/numerics.md, Scores). features is the dense width. */
static void norms_of_squares(const calibration_network *network, const cut_axis *axis,
                             int64_t features, double *squares)
{
    const grail_reducer *reducer =
        axis->site == GRAPH_NONE ? NULL : network->results[axis->site].reducer;
    for (int64_t i = 0; i < features; i++) {
        const bool removed =
            reducer != NULL && reducer->labels[i / (features / reducer->units)] < 0;
        squares[i] = removed ? 0.0 : sqrt(squares[i]);
    }
}

static grail_status observe_squares(calibration_network *network, int producer, int64_t width,
                                    double *squares)
{
    const node *n = &network->request->graph->nodes[producer];
    if (network->request->plan.loop == LOOP_OPEN) {
        memcpy(squares, network->request->session->of_nodes[producer].squares,
               (size_t)width * sizeof *squares);
        return GRAIL_OK;
    }
    input_squares s = {.value = n->inputs[0], .squares = squares};
    return streams_carry(network, producer, GRAPH_NONE, add_squares, &s);
}

/* Norms of the features of the first producer's input. *out is owned. */
static grail_status measure_input_norms(calibration_network *network, int index, double **out)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    double *norms = NULL;
    const int producer = site_at(request, index)->producers[0].node;
    const node *n = &request->graph->nodes[producer];
    const parameter_cut *cut = &request->cuts[n->weight];
    const int64_t features = request->graph->parameters[n->weight].shape[1];
    const bool wide = cut->columns.site != GRAPH_NONE && request->plan.loop == LOOP_CLOSED;
    const int64_t most = wide ? cut_wide_features(&request->plan, &cut->columns) : features;
    TRY(memory_new(&norms, (size_t)(most > features ? most : features), sizeof norms[0]));
    TRY(observe_squares(network, producer, features, norms));
    norms_of_squares(network, &cut->columns, features, norms);
    *out = norms;
    norms = NULL;
out:
    memory_free(norms);
    return status;
}

static grail_status borrow_dense(void *context, int parameter, const float **out, float **owned)
{
    return parameter_store_borrow_f32(context, parameter, out, owned);
}

/* Input norms are those of the first producer alone. */
static int scored_producers(const plan *p, const site *s, const double *input_norms)
{
    const bool first = s->kind == SITE_STREAM && p->stream_score == STREAM_SCORE_FIRST;
    return first || input_norms != NULL ? 1 : s->producer_count;
}

static grail_status decide(calibration_network *network, int index, const double *input_norms,
                           const double *diagonal)
{
    const compression_request *request = network->request;
    const plan_site *planned = &request->plan.sites[index];
    const site *s = site_at(request, index);
    const site_view view = {
        .graph = request->graph,
        .site = s,
        .kept = planned->kept,
        .backend = request->backend,
        .weights = {.borrow = borrow_dense, .context = network->dense.parameters},
        .seed = request->plan.seed,
        .stream = (uint64_t)index,
        .scored_producers = scored_producers(&request->plan, s, input_norms),
        .input_norms = input_norms,
        .diagonal = diagonal,
    };
    return planned->selector->decide(&view, &network->results[index].reducer);
}

grail_status decide_at_producer(calibration_network *network, int index)
{
    grail_status status = GRAIL_OK;
    const selector *rule = network->request->plan.sites[index].selector;
    const unsigned needs = selector_needs(rule, site_at(network->request, index));
    double *norms = NULL;
    if ((needs & NEEDS_DIAGONAL) != 0) {
        return GRAIL_OK;
    }
    if ((needs & NEEDS_INPUT_NORMS) != 0) {
        TRY(measure_input_norms(network, index, &norms));
    }
    TRY(decide(network, index, norms, NULL));
    if (rule->folds) {
        TRY(site_append_merged(network, index));
    }
out:
    memory_free(norms);
    return status;
}

/* Uses the diagonal of the input's Gram matrix, over all batches. */
grail_status decide_at_consumer(calibration_network *network, const observation *o)
{
    grail_status status = GRAIL_OK;
    double *diagonal = NULL;
    const int64_t width = o->fit->width;
    TRY(memory_new(&diagonal, (size_t)width, sizeof diagonal[0]));
    for (int64_t j = 0; j < width; j++) {
        diagonal[j] = o->fit->gram[j * width + j] + o->held->gram[j * width + j];
    }
    TRY(decide(network, o->site, NULL, diagonal));
out:
    memory_free(diagonal);
    return status;
}
