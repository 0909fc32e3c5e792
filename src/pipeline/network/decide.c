#include "pipeline/network/decide.h"

#include "backend/operations.h"
#include "pipeline/network/carry.h"
#include "pipeline/network/merged_rows.h"
#include "pipeline/network/regional.h"
#include "pipeline/network/trial.h"
#include "pipeline/request/consumer_tail.h"

#include <math.h>

typedef struct input_squares {
    int value;
    matrix squares; /* [1, at least the value's width] */
} input_squares;

static grail_status add_squares(calibration_network *network, int64_t batch, void *user)
{
    const input_squares *s = user;
    const matrix x = execution_value(network->current.execution, s->value);
    (void)batch;
    return matrix_column_sums(x, no_matrix, matrix_columns(s->squares, 0, x.columns));
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

/* squares[features] of the input of a producer; `wide` columns at most in the current network. */
static grail_status observe_squares(calibration_network *network, int producer, int64_t wide,
                                    int64_t features, double *squares)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    input_squares s = {.value = request->graph->nodes[producer].inputs[0]};
    if (request->plan.loop == LOOP_OPEN) {
        return matrix_download(request->session->of_nodes[producer].squares, squares);
    }
    TRY(matrix_new_zero(request->backend, GRAIL_DTYPE_F64, 1, wide, &s.squares));
    TRY(streams_carry(network, producer, GRAPH_NONE, add_squares, &s));
    TRY(matrix_download(matrix_columns(s.squares, 0, features), squares));
out:
    matrix_free(&s.squares);
    return status;
}

/* Norms of the features of the first producer's input. *out is owned. */
static grail_status measure_input_norms(calibration_network *network, int index, double **out)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    double *norms = NULL;
    const int producer = site_at(request, index)->producers[0].node;
    const node *n = &request->graph->nodes[producer];
    const cut_axis *columns = &request->cuts[n->weight].columns;
    const int64_t features = request->graph->parameters[n->weight].shape[1];
    const int64_t cut =
        columns->site == GRAPH_NONE ? features : cut_wide_features(&request->plan, columns);
    TRY(memory_new(&norms, (size_t)features, sizeof norms[0]));
    TRY(observe_squares(network, producer, cut > features ? cut : features, features, norms));
    norms_of_squares(network, columns, features, norms);
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

weight_source weights_of_store(parameter_store *store)
{
    return (weight_source){.borrow = borrow_dense, .context = store};
}

/* The producers whose rows score the units. Input norms are those of the first producer alone. */
static void choose_producers(const compression_request *request, site_view *view)
{
    const site *s = view->site;
    const stream_score how = request->plan.stream_score;
    const bool one = s->kind == SITE_STREAM && how != STREAM_SCORE_ALL;
    view->scored_producers = one || view->input_norms != NULL ? 1 : s->producer_count;
    if (one && how == STREAM_SCORE_BRANCH) {
        view->first_scored = site_branch_producer(request->graph, s);
    }
}

/* Releases what take_input allocated. */
static void inputs_free(int count, input_statistics *inputs)
{
    for (int i = 0; inputs != NULL && i < count; i++) {
        memory_free((double *)(uintptr_t)inputs[i].diagonal);
        memory_free((double *)(uintptr_t)inputs[i].means);
        matrix_free(&inputs[i].gram);
        matrix_free(&inputs[i].cross);
        memory_free((double *)(uintptr_t)inputs[i].target_means);
    }
    memory_free(inputs);
}

static grail_status download_diagonal(const grail_statistics *s, double *out)
{
    return matrix_download_diagonal(s->gram, out);
}

static grail_status download_sum(const grail_statistics *s, double *out)
{
    return matrix_download(s->sum, out);
}

static grail_status download_target_sum(const grail_statistics *s, double *out)
{
    return matrix_download(s->target_sum, out);
}

/* *out[count] = (fit + held) / divisor, each as `download` gives it. */
static grail_status add_parts(const grail_statistics *fit, const grail_statistics *held,
                              int64_t count,
                              grail_status (*download)(const grail_statistics *s, double *out),
                              double divisor, const double **out)
{
    grail_status status = GRAIL_OK;
    double *sums = NULL;
    double *more = NULL;
    TRY(memory_new(&sums, (size_t)count, sizeof sums[0]));
    TRY(memory_new(&more, (size_t)count, sizeof more[0]));
    TRY(download(fit, sums));
    TRY(download(held, more));
    for (int64_t i = 0; i < count; i++) {
        sums[i] = divisor > 0.0 ? (sums[i] + more[i]) / divisor : 0.0;
    }
    *out = sums;
    sums = NULL;
out:
    memory_free(sums);
    memory_free(more);
    return status;
}

/* *out = fit + held */
static grail_status add_matrices(matrix fit, matrix held, matrix *out)
{
    grail_status status = GRAIL_OK;
    TRY(matrix_new(fit.owner, GRAIL_DTYPE_F64, fit.rows, fit.columns, out));
    TRY(matrix_copy(fit, *out));
    TRY(matrix_add_scaled(1.0, held, *out));
out:
    return status;
}

/* What is needed of the statistics of one consumer; inputs_free frees, even after a failure. */
static grail_status take_input(unsigned needs, const grail_statistics *fit,
                               const grail_statistics *held, input_statistics *out)
{
    grail_status status = GRAIL_OK;
    const double weight = fit->weight + held->weight;
    *out = (input_statistics){.width = fit->width, .weight = weight};
    if ((needs & NEEDS_DIAGONAL) != 0) {
        TRY(add_parts(fit, held, fit->width, download_diagonal, 1.0, &out->diagonal));
    }
    if ((needs & NEEDS_MEANS) != 0) {
        TRY(add_parts(fit, held, fit->width, download_sum, weight, &out->means));
    }
    if ((needs & NEEDS_GRAM) != 0) {
        TRY(add_matrices(fit->gram, held->gram, &out->gram));
    }
    if ((needs & NEEDS_TARGET) != 0 && fit->outputs > 0) {
        TRY(add_matrices(fit->cross, held->cross, &out->cross));
        TRY(add_parts(fit, held, fit->outputs, download_target_sum, weight, &out->target_means));
    }
out:
    return status;
}

/* NULL where they were not asked for. */
static const float *gradients_of_consumer(const calibration_network *network, int index,
                                          int consumer)
{
    const int reader = site_at(network->request, index)->consumers[consumer].node;
    return regional_gradients_of(network, network->request->graph->nodes[reader].weight);
}

grail_status decide_site(calibration_network *network, int index, const site_view *known,
                         const observation *observed, grail_reducer **out)
{
    const compression_request *request = network->request;
    const plan_site *planned = &request->plan.sites[index];
    const site *s = site_at(request, index);
    site_trial trial = {network, index, observed};
    site_view view = *known;
    view.graph = request->graph;
    view.site = s;
    view.kept = planned->kept;
    view.backend = request->backend;
    view.seed = request->plan.seed;
    view.stream = (uint64_t)index;
    choose_producers(request, &view);
    view.fits_bias =
        consumer_fits_bias(request->graph, &request->plan.compensation, s->consumers[0].node);
    view.trial = (reducer_trial){site_trial_run, &trial};
    if (planned->kept_units != NULL) {
        return grail_reducer_from_selection(planned->units, planned->kept, planned->kept_units,
                                            out);
    }
    return planned->selector->decide(&view, out);
}

void site_take_decision(calibration_network *network, int index, grail_reducer *reducer)
{
    site_result *result = &network->results[index];
    result->reducer = reducer;
    result->report.tied = reducer->tied ? 1 : 0;
    if (reducer->rule != NULL) {
        result->report.selector = reducer->rule;
    }
}

/* Decides from the dense weights. `observed` is the consumer whose statistics decide; NULL: the
 * dense network's of all. */
static grail_status decide(calibration_network *network, int index, const double *input_norms,
                           int input_count, input_statistics *inputs, const observation *observed)
{
    grail_status status = GRAIL_OK;
    grail_reducer *made = NULL;
    const site_view known = {
        .weights = weights_of_store(network->dense.parameters),
        .input_norms = input_norms,
        .inputs = inputs,
        .input_count = input_count,
    };
    TRY(decide_site(network, index, &known, observed, &made));
    site_take_decision(network, index, made);
out:
    return status;
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
        (*out)[k].gradients = gradients_of_consumer(network, index, k);
    }
out:
    return status;
}

/* Whether the site is decided when its first consumer is observed. Units that the plan names are
 * taken where the selector would choose them, because fits before that judge all outputs; a plain
 * cut observes no consumer for them. */
static bool waits_for_consumer(const plan *p, int index, const site *s)
{
    const compensation *how = &p->compensation;
    const unsigned needs = selector_needs(p->sites[index].selector, s);
    const bool named = p->sites[index].kept_units != NULL;
    const bool observes = !named || how->enabled || how->trains_regions;
    return observes && (needs & NEEDS_OF_CONSUMERS) != 0 && (needs & NEEDS_ALL_CONSUMERS) == 0;
}

grail_status decide_at_producer(calibration_network *network, int index)
{
    grail_status status = GRAIL_OK;
    const plan *p = &network->request->plan;
    const site *s = site_at(network->request, index);
    const unsigned needs = site_decision_needs(p, index, s);
    const bool of_all = (needs & NEEDS_ALL_CONSUMERS) != 0;
    double *norms = NULL;
    input_statistics *inputs = NULL;
    if (waits_for_consumer(p, index, s)) {
        return GRAIL_OK;
    }
    if ((needs & NEEDS_INPUT_NORMS) != 0) {
        TRY(measure_input_norms(network, index, &norms));
    }
    if (of_all) {
        TRY(take_dense_inputs(network, index, needs, &inputs));
    }
    TRY(decide(network, index, norms, of_all ? s->consumer_count : 0, inputs, NULL));
    if (p->sites[index].selector->folds) {
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
    const site *s = site_at(network->request, o->site);
    const unsigned needs = site_decision_needs(&network->request->plan, o->site, s);
    TRY(memory_new(&input, 1, sizeof input[0]));
    TRY(take_input(needs, o->fit, o->held, input));
    input->gradients = gradients_of_consumer(network, o->site, o->consumer);
    TRY(decide(network, o->site, NULL, 1, input, o));
out:
    inputs_free(1, input);
    return status;
}
