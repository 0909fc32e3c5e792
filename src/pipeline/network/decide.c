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

/* Releases what take_input allocated. */
static void inputs_free(int count, input_statistics *inputs)
{
    for (int i = 0; inputs != NULL && i < count; i++) {
        memory_free((double *)(uintptr_t)inputs[i].diagonal);
        memory_free((double *)(uintptr_t)inputs[i].gram);
        memory_free((double *)(uintptr_t)inputs[i].means);
    }
    memory_free(inputs);
}

static grail_status add_means(const grail_statistics *fit, const grail_statistics *held,
                              double **out)
{
    double *means = NULL;
    const grail_status status = memory_new(&means, (size_t)fit->width, sizeof means[0]);
    for (int64_t j = 0; status == GRAIL_OK && j < fit->width; j++) {
        means[j] = (fit->sum[j] + held->sum[j]) / (double)(fit->count + held->count);
    }
    *out = means;
    return status;
}

/* The Gram matrix (its lower triangle), or only its diagonal, over all batches. */
static grail_status add_products(const grail_statistics *fit, const grail_statistics *held,
                                 bool diagonal, double **out)
{
    const int64_t width = fit->width;
    double *sums = NULL;
    const grail_status status =
        memory_new(&sums, (size_t)(diagonal ? width : width * width), sizeof sums[0]);
    for (int64_t i = 0; status == GRAIL_OK && i < width; i++) {
        for (int64_t j = diagonal ? i : 0; j <= i; j++) {
            const double sum = fit->gram[i * width + j] + held->gram[i * width + j];
            sums[diagonal ? i : i * width + j] = sum;
        }
    }
    *out = sums;
    return status;
}

/* What is needed of the statistics of one consumer; inputs_free frees, even after a failure. */
static grail_status take_input(unsigned needs, const grail_statistics *fit,
                               const grail_statistics *held, input_statistics *out)
{
    grail_status status = GRAIL_OK;
    double *values = NULL;
    *out = (input_statistics){.width = fit->width, .count = fit->count + held->count};
    if ((needs & NEEDS_DIAGONAL) != 0) {
        TRY(add_products(fit, held, true, &values));
        out->diagonal = values;
    }
    if ((needs & NEEDS_GRAM) != 0) {
        TRY(add_products(fit, held, false, &values));
        out->gram = values;
    }
    if ((needs & NEEDS_MEANS) != 0) {
        TRY(add_means(fit, held, &values));
        out->means = values;
    }
out:
    return status;
}

static grail_status decide(calibration_network *network, int index, const double *input_norms,
                           int input_count, const input_statistics *inputs)
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
        .inputs = inputs,
        .input_count = input_count,
    };
    return planned->selector->decide(&view, &network->results[index].reducer);
}

/* Of every consumer's input, as the dense network gives it. *out is [consumer_count]; inputs_free
 * frees it, even after a failure. */
static grail_status take_dense_inputs(const calibration_network *network, int index, unsigned needs,
                                      input_statistics **out)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(network->request, index);
    TRY(memory_new(out, (size_t)s->consumer_count, sizeof(**out)));
    for (int k = 0; k < s->consumer_count; k++) {
        const dense_statistics *d = &network->request->session->of_nodes[s->consumers[k].node];
        TRY(take_input(needs, d->fit, d->held, &(*out)[k]));
    }
out:
    return status;
}

grail_status decide_at_producer(calibration_network *network, int index)
{
    grail_status status = GRAIL_OK;
    const selector *rule = network->request->plan.sites[index].selector;
    const site *s = site_at(network->request, index);
    const unsigned needs = selector_needs(rule, s);
    const bool of_all = (needs & NEEDS_ALL_CONSUMERS) != 0;
    double *norms = NULL;
    input_statistics *inputs = NULL;
    if ((needs & NEEDS_OF_CONSUMERS) != 0 && !of_all) {
        return GRAIL_OK;
    }
    if ((needs & NEEDS_INPUT_NORMS) != 0) {
        TRY(measure_input_norms(network, index, &norms));
    }
    if (of_all) {
        TRY(take_dense_inputs(network, index, needs, &inputs));
    }
    TRY(decide(network, index, norms, of_all ? s->consumer_count : 0, inputs));
    if (rule->folds) {
        TRY(site_append_merged(network, index));
    }
out:
    inputs_free(of_all ? s->consumer_count : 0, inputs);
    memory_free(norms);
    return status;
}

grail_status decide_at_consumer(calibration_network *network, const observation *o)
{
    grail_status status = GRAIL_OK;
    input_statistics *input = NULL;
    const selector *rule = network->request->plan.sites[o->site].selector;
    const unsigned needs = selector_needs(rule, site_at(network->request, o->site));
    TRY(memory_new(&input, 1, sizeof input[0]));
    TRY(take_input(needs, o->fit, o->held, input));
    TRY(decide(network, o->site, NULL, 1, input));
out:
    inputs_free(1, input);
    return status;
}
