#include "planning/loss_curves.h"

#include "backend/operations.h"
#include "base/clock.h"
#include "pipeline/network/block_energy.h"
#include "pipeline/network/decide.h"
#include "pipeline/network/decision_input.h"
#include "pipeline/network/observe.h"
#include "pipeline/network/open_loop.h"
#include "pipeline/request/consumer_tail.h"
#include "reduce/flap.h"
#include "stats/constant_features.h"

#include <string.h>

/* The pass: observations of the consumers of sites that are not finished. */
typedef struct dense_pass {
    calibration_network *network;
    const compression_request *request;
    observation *observed; /* [node_count]; those without statistics are not observed */
    loss_curve *curves;    /* [sites] */
    double *energies;      /* [block_count + 2] of what leaves the blocks, from a file; or NULL */
    block_energy energy;   /* of this block */
    visitor *visitors;     /* [visitor_count] of its consumers, and room for one more; owned */
    int visitor_count;
    loss_times times;
} dense_pass;

void loss_curves_free(loss_curve *curves, int count)
{
    for (int i = 0; curves != NULL && i < count; i++) {
        memory_free(curves[i].errors);
        memory_free(curves[i].scores);
    }
    memory_free(curves);
}

const selector *loss_curve_rule(const compression_request *request, int index)
{
    const selector *rule = request->plan.sites[index].selector;
    return rule->losses != NULL ? rule : &selector_obs;
}

/* -- as numbers -------------------------------------------------------------------------------- */

static size_t error_count(const site *s)
{
    return s->consumer_count > 0 ? (size_t)s->units + 1 : 0;
}

static size_t score_count(const site *s)
{
    const bool scored = s->kind == SITE_HEADS || s->kind == SITE_FFN;
    return s->consumer_count > 0 && scored ? (size_t)s->units : 0;
}

size_t loss_curves_size(const compression_request *request)
{
    size_t count = 0;
    for (int i = 0; i < request->sites->list.count; i++) {
        count += error_count(site_at(request, i)) + score_count(site_at(request, i));
    }
    return count;
}

static double *put(double *to, const double *from, size_t count)
{
    if (count > 0) {
        memcpy(to, from, count * sizeof to[0]);
    }
    return to + count;
}

void loss_curves_pack(const compression_request *request, const loss_curve *curves, double *numbers)
{
    for (int i = 0; i < request->sites->list.count; i++) {
        const site *s = site_at(request, i);
        numbers = put(numbers, curves[i].errors, error_count(s));
        numbers = put(numbers, curves[i].scores, score_count(s));
    }
}

/* *out stays NULL without numbers. */
static grail_status take(const double **from, size_t count, double **out)
{
    if (count > 0) {
        CHECK(memory_new_unset(out, count, sizeof **out));
        memcpy(*out, *from, count * sizeof **out);
        *from += count;
    }
    return GRAIL_OK;
}

grail_status loss_curves_unpack(const compression_request *request, const double *numbers,
                                loss_curve **out)
{
    grail_status status = GRAIL_OK;
    loss_curve *curves = NULL;
    const int sites = request->sites->list.count;
    TRY(memory_new(&curves, (size_t)sites, sizeof curves[0]));
    for (int i = 0; i < sites; i++) {
        const site *s = site_at(request, i);
        TRY(take(&numbers, error_count(s), &curves[i].errors));
        TRY(take(&numbers, score_count(s), &curves[i].scores));
    }
    *out = curves;
    curves = NULL;
out:
    loss_curves_free(curves, sites);
    return status;
}

/* -- the pass ---------------------------------------------------------------------------------- */

/* Begins to observe the consumers that stand in nodes [begin, end). */
static grail_status begin_observing(dense_pass *p, int begin, int end)
{
    p->visitor_count = 0;
    for (int i = 0; i < p->request->sites->list.count; i++) {
        const site *s = site_at(p->request, i);
        for (int k = 0; k < s->consumer_count; k++) {
            const int reader = s->consumers[k].node;
            if (reader >= begin && reader < end && p->observed[reader].fit == NULL) {
                CHECK(observation_init_input(p->request, i, k, &p->observed[reader]));
                p->visitors[p->visitor_count++] = observation_input_visitor(&p->observed[reader]);
            }
        }
    }
    return GRAIL_OK;
}

/* Whether a later site is read by the same node, as values are beside their heads. */
static bool is_read_again(const compression_request *request, int index, int reader)
{
    bool found = false;
    for (int i = index + 1; i < request->sites->list.count && !found; i++) {
        const site *s = site_at(request, i);
        for (int k = 0; k < s->consumer_count; k++) {
            found = found || s->consumers[k].node == reader;
        }
    }
    return found;
}

/* Puts the sums of a consumer into what a selector sees, which takes them over unless they are
 * needed `again`; input_statistics_free frees it. */
static grail_status take_input(observation *o, bool again, input_statistics *in)
{
    double *means = NULL;
    CHECK(statistics_check_finite(o->fit));
    CHECK(memory_new_unset(&means, (size_t)o->fit->width, sizeof means[0]));
    *in = (input_statistics){.width = o->fit->width,
                             .weight = o->fit->weight,
                             .rows = (double)o->fit->count,
                             .rounding = sums_rounding(o->fit->owner, o->fit->count),
                             .means = means};
    if (again) {
        CHECK(matrix_new(o->fit->owner, GRAIL_DTYPE_F64, in->width, in->width, &in->gram));
        CHECK(matrix_copy(o->fit->gram, in->gram));
    } else {
        in->gram = o->fit->gram;
        o->fit->gram = no_matrix;
    }
    CHECK(matrix_download(o->fit->sum, means));
    for (int64_t i = 0; i < in->width; i++) {
        means[i] /= in->weight;
    }
    return GRAIL_OK;
}

static void scale_losses(int64_t units, double energy, double *losses)
{
    for (int64_t k = 0; k <= units; k++) {
        losses[k] = energy > 0.0 ? losses[k] / energy : 0.0;
    }
}

/* *out[units] is owned. */
static grail_status score_site(const site_view *v, double **out)
{
    grail_status status = GRAIL_OK;
    double *diagonal = NULL;
    TRY(memory_new_unset(&diagonal, (size_t)v->inputs[0].width, sizeof diagonal[0]));
    TRY(matrix_download_diagonal(v->inputs[0].gram, diagonal));
    v->inputs[0].diagonal = diagonal;
    TRY(memory_new_unset(out, (size_t)v->site->units, sizeof(double)));
    TRY(flap_standardised_scores(v, *out));
out:
    v->inputs[0].diagonal = NULL;
    memory_free(diagonal);
    return status;
}

/* The curve of a site whose consumers are all observed. */
static grail_status finish_site(dense_pass *p, int index)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = p->request;
    const site *s = site_at(request, index);
    input_statistics *inputs = NULL;
    const bool spans = site_spans_blocks(request->graph, s);
    TRY(memory_new(&inputs, (size_t)s->consumer_count, sizeof inputs[0]));
    for (int k = 0; k < s->consumer_count; k++) {
        const int reader = s->consumers[k].node;
        TRY(take_input(&p->observed[reader], is_read_again(request, index, reader), &inputs[k]));
    }
    const site_view view = {
        .graph = request->graph,
        .site = s,
        .kept = s->units,
        .backend = request->backend,
        .comm = request->comm,
        .weights = weights_of_store(p->network->dense.parameters),
        .inputs = inputs,
        .input_count = s->consumer_count,
        .fits_bias =
            consumer_fits_bias(request->graph, &request->plan.compensation, s->consumers[0].node),
    };
    if (score_count(s) > 0) {
        TRY(score_site(&view, &p->curves[index].scores));
    }
    TRY(memory_new(&p->curves[index].errors, error_count(s), sizeof(double)));
    TRY(loss_curve_rule(request, index)->losses(&view, p->curves[index].errors));
    scale_losses(s->units, spans ? p->curves[index].errors[0] : p->energy.energy,
                 p->curves[index].errors);
out:
    for (int k = 0; k < s->consumer_count; k++) {
        if (!is_read_again(request, index, s->consumers[k].node)) {
            observation_fini(&p->observed[s->consumers[k].node]);
        }
    }
    input_statistics_free(s->consumer_count, inputs);
    return status;
}

/* The sites whose last consumer stands in nodes [begin, end). */
static grail_status finish_sites(dense_pass *p, int begin, int end)
{
    for (int i = 0; i < p->request->sites->list.count; i++) {
        const site *s = site_at(p->request, i);
        const int last = s->consumer_count > 0 ? s->consumers[s->consumer_count - 1].node : -1;
        if (last >= begin && last < end) {
            CHECK(error_in(finish_site(p, i), "site '%s'", s->name));
        }
    }
    return GRAIL_OK;
}

/* Both parts of the samples, as a pass would have counted them. */
static grail_status take_from_file(dense_pass *p, int node_index)
{
    observation *o = &p->observed[node_index];
    CHECK(open_loop_take(p->request, o));
    return grail_statistics_add(o->fit, o->held);
}

/* What a pass through nodes [begin, end) would observe. */
static grail_status take_block(dense_pass *p, int block, int begin, int end)
{
    for (int n = begin; n < end; n++) {
        if (p->observed[n].fit != NULL) {
            CHECK(take_from_file(p, n));
        }
    }
    p->energy.energy = p->energies[block + 1];
    return GRAIL_OK;
}

static grail_status observe_block(dense_pass *p, int block, int begin, int end)
{
    p->energy = (block_energy){.end = end};
    if (p->energies != NULL) {
        return take_block(p, block, begin, end);
    }
    p->visitors[p->visitor_count++] = block_energy_visitor(&p->energy);
    const pass observed = {.end = end, .visitors = p->visitors, .visitor_count = p->visitor_count};
    return begin < end ? pass_run(p->network, &observed) : GRAIL_OK;
}

static grail_status pass_block(dense_pass *p, int block)
{
    int begin = 0;
    int end = 0;
    graph_block_range(p->request->graph, block, &begin, &end);
    const double began = clock_seconds();
    CHECK(begin_observing(p, begin, end));
    CHECK(observe_block(p, block, begin, end));
    const double passed = clock_seconds();
    CHECK(finish_sites(p, begin, end));
    p->times.pass += passed - began;
    p->times.curves += clock_seconds() - passed;
    network_release_block(p->network, block);
    return GRAIL_OK;
}

/* Blocks up to the last one that has a consumer. */
static int last_block(const compression_request *request)
{
    int last = GRAPH_NONE;
    for (int i = 0; i < request->sites->list.count; i++) {
        const site *s = site_at(request, i);
        for (int k = 0; k < s->consumer_count; k++) {
            const int block = request->graph->nodes[s->consumers[k].node].block;
            last = block > last ? block : last;
        }
    }
    return last;
}

static grail_status read_energies(dense_pass *p)
{
    const int64_t count = p->request->graph->block_count + 2;
    if (p->request->statistics == NULL) {
        return GRAIL_OK;
    }
    CHECK(memory_new(&p->energies, (size_t)count, sizeof p->energies[0]));
    return network_statistics_energy(p->request->statistics, count, p->energies);
}

grail_status loss_curves_collect(calibration_network *network, loss_times *times, loss_curve **out)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    const int sites = request->sites->list.count;
    dense_pass p = {.network = network, .request = request};
    TRY(memory_new(&p.observed, (size_t)request->graph->node_count, sizeof p.observed[0]));
    TRY(memory_new(&p.visitors, (size_t)request->graph->node_count + 1, sizeof p.visitors[0]));
    TRY(memory_new(&p.curves, (size_t)sites, sizeof p.curves[0]));
    TRY(read_energies(&p));
    for (int block = GRAPH_NONE; block <= last_block(request); block++) {
        TRY(pass_block(&p, block));
    }
    *times = p.times;
    *out = p.curves;
    p.curves = NULL;
out:
    for (int n = 0; p.observed != NULL && n < request->graph->node_count; n++) {
        observation_fini(&p.observed[n]);
    }
    memory_free(p.observed);
    memory_free(p.visitors);
    memory_free(p.energies);
    loss_curves_free(p.curves, sites);
    return status;
}
