#include "pipeline/network/decide.h"

#include "backend/operations.h"
#include "base/profile.h"
#include "graph/operators.h"
#include "pipeline/network/column_sums.h"
#include "pipeline/network/narrow.h"
#include "pipeline/request/consumer_tail.h"
#include "reduce/group_views.h"

#include <math.h>

/* -- what decisions are made from -------------------------------------------------------------- */

int deciding_consumers(const cutting *cut, int index)
{
    const site *s = cut_site(cut, index);
    const unsigned needs = site_decision_needs(cut->plan, index, s);
    return (needs & NEEDS_OF_CONSUMERS) == 0    ? 0
           : (needs & NEEDS_ALL_CONSUMERS) != 0 ? s->consumer_count
                                                : 1;
}

/* The producers whose rows score a site: the first of them, and how many. Norms of inputs are those
 * of the first one's, so `by_norms` there is but one. */
typedef struct scored_producers {
    int first, count;
} scored_producers;

static scored_producers producers_that_score(const cutting *cut, const site *s, bool by_norms)
{
    const stream_score how = cut->plan->stream_score;
    const bool one = s->kind == SITE_STREAM && how != STREAM_SCORE_ALL;
    return (scored_producers){
        .first = one && how == STREAM_SCORE_BRANCH ? site_branch_producer(cut->graph, s) : 0,
        .count = one || by_norms ? 1 : s->producer_count};
}

int scored_node(const cutting *cut, int index)
{
    const site *s = cut_site(cut, index);
    return s->producers[producers_that_score(cut, s, true).first].node;
}

static int scored_weight(const cutting *cut, int index)
{
    return cut->graph->nodes[scored_node(cut, index)].weight;
}

int64_t scored_input_width(const cutting *cut, int index)
{
    return cut->graph->parameters[scored_weight(cut, index)].shape[1] *
           node_groups(&cut->graph->nodes[scored_node(cut, index)]);
}

const cut_axis *scored_input_cut(const cutting *cut, int index)
{
    return &cut->axes[scored_weight(cut, index)].columns;
}

void norms_of_squares(int64_t width, double *squares)
{
    for (int64_t i = 0; i < width; i++) {
        squares[i] = sqrt(squares[i]);
    }
}

void norms_leave_out(const cut_axis *cut, int64_t taps, const grail_reducer *r, double *norms)
{
    const int64_t u = cut->features / taps;
    for (int64_t i = 0; r != NULL && i < r->units * u; i++) {
        if (r->labels[i / u] < 0) {
            norms[cut->first / taps + i] = 0.0;
        }
    }
}

/* -- decisions --------------------------------------------------------------------------------- */

void regional_gradients_fini(regional_gradients *g)
{
    for (int p = 0; p < g->count; p++) {
        memory_free(g->of[p]);
    }
    memory_free(g->of);
    *g = (regional_gradients){0};
}

const float *regional_gradients_of(const regional_gradients *g, int parameter)
{
    return g->of == NULL ? NULL : g->of[parameter];
}

/* squares[wide] of the input of a producer; `wide` columns at most in the current network. *out is
 * owned. */
static grail_status observe_squares(sample_passes *passes, int producer, int64_t wide, double **out)
{
    grail_status status = GRAIL_OK;
    const execution *e = passes->current->execution;
    column_sums s = {0};
    TRY(memory_new(out, (size_t)wide, sizeof **out));
    TRY(column_sums_init(e->backend, e->graph->nodes[producer].inputs[0], wide, false, &s));
    TRY(pass_visit(passes, producer, GRAPH_NONE, column_sums_visitor(&s, producer)));
    TRY(matrix_download(s.squares, *out));
out:
    column_sums_fini(&s);
    return status;
}

/* Norms of the features of the scored producer's input. *out is owned. */
static grail_status measure_input_norms(const cutting *cut, int index, sample_passes *passes,
                                        const site_result *results, double **out)
{
    const int producer = scored_node(cut, index);
    const graph *g = cut->graph;
    const cut_axis *columns = scored_input_cut(cut, index);
    const int64_t features = scored_input_width(cut, index);
    const int64_t taps = weight_taps(&g->parameters[g->nodes[producer].weight]);
    const int64_t wide = cut_wide_place(cut->plan, columns, features * taps) / taps;
    CHECK(observe_squares(passes, producer, wide, out));
    for (int64_t i = 0; i < features; i++) { /* those of merged units lie between them */
        (*out)[i] = (*out)[cut_wide_place(cut->plan, columns, i * taps) / taps];
    }
    norms_of_squares(features, *out);
    for (; columns != NULL && columns->site != GRAPH_NONE; columns = columns->next) {
        norms_leave_out(columns, taps, results[columns->site].reducer, *out);
    }
    return GRAIL_OK;
}

static grail_status borrow_weight(void *context, int parameter, const float **out, float **owned)
{
    return parameter_store_borrow_f32(context, parameter, out, owned);
}

static grail_status copy_weight(void *context, int parameter, matrix out)
{
    return parameter_store_copy(context, parameter, out);
}

weight_source weights_of_store(parameter_store *store)
{
    return (weight_source){.borrow = borrow_weight, .copy = copy_weight, .context = store};
}

/* The dense weights, of which those of one parameter may be on the host already; NULL: are not. */
typedef struct read_weights {
    parameter_store *dense;
    int parameter;
    const float *values;
} read_weights;

static grail_status borrow_read(void *context, int parameter, const float **out, float **owned)
{
    const read_weights *w = context;
    if (w->values == NULL || parameter != w->parameter) {
        return parameter_store_borrow_f32(w->dense, parameter, out, owned);
    }
    *out = w->values;
    *owned = NULL;
    return GRAIL_OK;
}

static grail_status copy_dense(void *context, int parameter, matrix out)
{
    const read_weights *w = context;
    return parameter_store_copy(w->dense, parameter, out);
}

/* What an observation has read of its consumer, where that is the dense weight as it is stored. */
static const float *dense_values(const cutting *cut, const observation *o,
                                 const sample_passes *passes)
{
    const bool is_dense = parameter_store_inherits(
        passes->current->parameters, passes->dense->parameters, cut->graph->nodes[o->node].weight);
    return is_dense && o->layout.tap_rows == 1 && !cut_site(cut, o->site)->is_part ? o->weight
                                                                                   : NULL;
}

grail_status decide_site(const cutting *cut, int index, const site_view *known, grail_reducer **out)
{
    const plan_site *planned = &cut->plan->sites[index];
    const site *s = cut_site(cut, index);
    site_view view = *known;
    view.graph = cut->graph;
    view.site = s;
    view.kept = planned->kept;
    view.seed = cut->plan->seed;
    view.stream = (uint64_t)index;
    const scored_producers scored = producers_that_score(cut, s, view.input_norms != NULL);
    view.first_scored = scored.first;
    view.scored_producers = scored.count;
    view.fits_bias = s->consumer_count > 0 &&
                     consumer_fits_bias(cut->graph, &cut->plan->compensation, s->consumers[0].node);
    if (planned->kept_units != NULL) {
        return grail_reducer_from_selection(planned->units, planned->kept, planned->kept_units,
                                            out);
    }
    const profile_kind before = profile_enter(PROFILE_SELECTION);
    const grail_status status = group_views_choose(planned->selector, &view, out);
    profile_enter(before);
    return status;
}

grail_status site_take_decision(site_result *result, site_kind kind, grail_reducer *reducer)
{
    result->report.tied = reducer->tied ? 1 : 0;
    return site_result_decide(result, kind, reducer);
}

/* Decides from the dense weights, and from statistics of a consumer's input; NULL: none. */
static grail_status decide(const cutting *cut, int index, const sample_passes *passes,
                           weight_source weights, const double *input_norms,
                           input_statistics *input, site_result *results)
{
    grail_reducer *made = NULL;
    const site_view known = {
        .backend = passes->dense->parameters->backend,
        .comm = passes->comm,
        .weights = weights,
        .input_norms = input_norms,
        .inputs = input,
        .input_count = input == NULL ? 0 : 1,
    };
    CHECK(decide_site(cut, index, &known, &made));
    return site_take_decision(&results[index], cut_site(cut, index)->kind, made);
}

/* Whether the site is decided when its first consumer is observed. Units that the plan names are
 * taken where the selector would choose them, because fits before that judge all outputs; a plain
 * cut observes no consumer for them. */
static bool waits_for_consumer(const plan *p, int index, const site *s)
{
    const compensation *how = &p->compensation;
    const unsigned needs = selector_needs(p->sites[index].selector, s);
    const bool named = p->sites[index].kept_units != NULL;
    const bool observes = !named || how->enabled || how->regional_training;
    return observes && (needs & NEEDS_OF_CONSUMERS) != 0 && (needs & NEEDS_ALL_CONSUMERS) == 0 &&
           !p->sites[index].normed && !plan_selects_openly(p);
}

/* Decides at the first producer, or takes what was chosen before the walk. */
static grail_status decide_here(const cutting *cut, int index, sample_passes *passes,
                                grail_reducer **chosen, site_result *results)
{
    grail_status status = GRAIL_OK;
    const site *s = cut_site(cut, index);
    double *norms = NULL;
    if (*chosen != NULL) {
        grail_reducer *made = *chosen;
        *chosen = NULL;
        return site_take_decision(&results[index], s->kind, made);
    }
    if ((site_decision_needs(cut->plan, index, s) & NEEDS_INPUT_NORMS) != 0) {
        TRY(measure_input_norms(cut, index, passes, results, &norms));
    }
    TRY(decide(cut, index, passes, weights_of_store(passes->dense->parameters), norms, NULL,
               results));
out:
    memory_free(norms);
    return status;
}

grail_status decide_at_producer(const cutting *cut, int index, sample_passes *passes,
                                grail_reducer **chosen, site_result *results)
{
    if (waits_for_consumer(cut->plan, index, cut_site(cut, index))) {
        return GRAIL_OK;
    }
    CHECK(decide_here(cut, index, passes, chosen, results));
    if (site_is_remade(cut->plan, index)) {
        CHECK(site_append_merged(cut, index, results[index].reducer, passes->dense->parameters,
                                 passes->current->parameters));
    }
    return GRAIL_OK;
}

grail_status decide_at_consumer(const cutting *cut, const observation *o,
                                const sample_passes *passes, const regional_gradients *gradients,
                                matrix metric, site_result *results)
{
    grail_status status = GRAIL_OK;
    input_statistics *input = NULL;
    const unsigned needs = site_decision_needs(cut->plan, o->site, cut_site(cut, o->site));
    TRY(memory_new(&input, 1, sizeof input[0]));
    TRY(input_statistics_take(needs, o->fit, o->held, input));
    input->gradients = regional_gradients_of(gradients, cut->graph->nodes[o->node].weight);
    input->metric = metric;
    read_weights weights = {.dense = passes->dense->parameters,
                            .parameter = cut->graph->nodes[o->node].weight,
                            .values = dense_values(cut, o, passes)};
    const weight_source source = {.borrow = borrow_read, .copy = copy_dense, .context = &weights};
    TRY(decide(cut, o->site, passes, source, NULL, input, results));
out:
    input_statistics_free(1, input);
    return status;
}
