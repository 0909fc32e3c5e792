#include "planning/loss_curves.h"

#include "backend/operations.h"
#include "base/clock.h"
#include "pipeline/network/column_sums.h"
#include "pipeline/network/decide.h"
#include "pipeline/network/observation.h"
#include "pipeline/network/open_loop.h"
#include "pipeline/request/consumer_tail.h"
#include "reduce/group_views.h"
#include "reduce/scores.h"
#include "stats/constant_features.h"

#include <string.h>

/* The pass: observations of the consumers of sites that are not finished. */
typedef struct dense_pass {
    calibration_network *network;
    const compression_request *request;
    observation *observed; /* [node_count]; those without statistics are not observed */
    const loss_curve *curves;
    double *energies;  /* [block_count + 2] of what leaves the blocks, from a file; or NULL */
    double energy;     /* of this block */
    visitor *visitors; /* [visitor_count] of its consumers, and room for one more; owned */
    int visitor_count;
    loss_times times;
} dense_pass;

const selector *loss_curve_rule(const plan_site *planned)
{
    const selector *rule = planned->selector;
    return rule->losses != NULL ? rule : &selector_obs;
}

/* Channels have no scores. */
static size_t score_count(const site *s)
{
    const bool scored = s->kind == SITE_HEADS || s->kind == SITE_FFN;
    return s->consumer_count > 0 && scored ? (size_t)s->units : 0;
}

grail_status loss_curves_init(const site_list *sites, loss_curves *out)
{
    *out = (loss_curves){0};
    for (int i = 0; i < sites->count; i++) {
        const site *s = &sites->sites[i];
        out->count += s->consumer_count > 0 ? (size_t)s->units + 1 + score_count(s) : 0;
    }
    CHECK(memory_new(&out->numbers, out->count, sizeof out->numbers[0]));
    CHECK(memory_new(&out->of, (size_t)sites->count, sizeof out->of[0]));
    double *next = out->numbers;
    for (int i = 0; i < sites->count; i++) {
        const site *s = &sites->sites[i];
        if (s->consumer_count > 0) {
            out->of[i].errors = next;
            out->of[i].scores = score_count(s) > 0 ? next + s->units + 1 : NULL;
            next += s->units + 1 + (int64_t)score_count(s);
        }
    }
    return GRAIL_OK;
}

void loss_curves_fini(loss_curves *c)
{
    memory_free(c->of);
    memory_free(c->numbers);
    *c = (loss_curves){0};
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
                CHECK(observation_init_input(&p->request->cut, p->request->backend, i, k,
                                             &p->observed[reader]));
                p->visitors[p->visitor_count++] = observation_input_visitor(&p->observed[reader]);
            }
        }
    }
    return GRAIL_OK;
}

/* The block of a site's last consumer, with which it is finished. */
static int block_of_end(const compression_request *request, int index)
{
    const site *s = site_at(request, index);
    return s->consumer_count == 0
               ? GRAPH_NONE
               : request->graph->nodes[s->consumers[s->consumer_count - 1].node].block;
}

/* Whether a site that is finished later is read by the same node, as values are beside their heads,
 * and parts of one value beside each other. */
static bool is_read_again(const compression_request *request, int index, int reader)
{
    bool found = false;
    const int block = block_of_end(request, index);
    for (int i = 0; i < request->sites->list.count && !found; i++) {
        const site *s = site_at(request, i);
        const int end = block_of_end(request, i);
        const bool is_later = end > block || (end == block && i > index);
        for (int k = 0; is_later && k < s->consumer_count; k++) {
            found = found || s->consumers[k].node == reader;
        }
    }
    return found;
}

/* Puts the sums of a consumer's columns from `first` on into what a selector sees, which takes them
 * over unless they are needed `again`; input_statistics_free frees it. */
static grail_status take_input(observation *o, int64_t first, int64_t width, bool again,
                               input_statistics *in)
{
    double *means = NULL;
    CHECK(statistics_check_finite(o->fit));
    CHECK(memory_new_unset(&means, (size_t)width, sizeof means[0]));
    *in = (input_statistics){.width = width,
                             .groups = o->fit->groups,
                             .weight = o->fit->weight,
                             .rows = (double)o->fit->count,
                             .rounding = sums_rounding(o->fit->owner, o->fit->count),
                             .means = means};
    if (again || width < o->fit->width) {
        const matrix rows = matrix_rows(o->fit->gram, first, width);
        CHECK(matrix_new(o->fit->owner, GRAIL_DTYPE_F64, width, width, &in->gram));
        CHECK(matrix_copy(matrix_columns(rows, first, width), in->gram));
    } else {
        in->gram = o->fit->gram;
        o->fit->gram = no_matrix;
    }
    CHECK(matrix_download(matrix_columns(o->fit->sum, first, width), means));
    for (int64_t i = 0; i < in->width; i++) {
        means[i] /= in->weight;
    }
    return GRAIL_OK;
}

static grail_status score_site(const site_view *v, double *scores)
{
    grail_status status = GRAIL_OK;
    double *diagonal = NULL;
    TRY(memory_new_unset(&diagonal, (size_t)v->inputs[0].width, sizeof diagonal[0]));
    TRY(matrix_download_diagonal(v->inputs[0].gram, diagonal));
    v->inputs[0].diagonal = diagonal;
    TRY(flap_standardised_scores(v, scores));
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
    const loss_curve *curve = &p->curves[index];
    TRY(memory_new(&inputs, (size_t)s->consumer_count, sizeof inputs[0]));
    for (int k = 0; k < s->consumer_count; k++) {
        const site_end *end = &s->consumers[k];
        const int64_t taps = p->observed[end->node].layout.taps;
        TRY(take_input(&p->observed[end->node], end->first * taps,
                       s->units * end->features_per_unit * taps,
                       is_read_again(request, index, end->node), &inputs[k]));
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
    if (curve->scores != NULL) {
        TRY(score_site(&view, curve->scores));
    }
    TRY(group_views_losses(loss_curve_rule(&request->plan.sites[index]), &view, curve->errors));
    const double energy = site_spans_blocks(request->graph, s) ? curve->errors[0] : p->energy;
    for (int64_t k = 0; k <= s->units; k++) {
        curve->errors[k] = energy > 0.0 ? curve->errors[k] / energy : 0.0;
    }
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

/* What a pass through nodes up to `end` observes, with the block's energy. */
static grail_status pass_nodes(dense_pass *p, int end)
{
    grail_status status = GRAIL_OK;
    block_energy energy = {0};
    TRY(block_energy_init(p->request->backend, end, &energy));
    p->visitors[p->visitor_count++] = block_energy_visitor(&energy);
    const pass observed = {.end = end, .visitors = p->visitors, .visitor_count = p->visitor_count};
    TRY(pass_run(&p->network->passes, &observed));
    TRY(matrix_download(energy.sum, &p->energy));
out:
    block_energy_fini(&energy);
    return status;
}

/* What a pass through the block's nodes [begin, end) observes; from a file both parts of the
 * samples, as a pass would have counted them. */
static grail_status observe_block(dense_pass *p, int block, int begin, int end)
{
    p->energy = 0.0;
    if (p->energies == NULL) {
        return begin < end ? pass_nodes(p, end) : GRAIL_OK;
    }
    for (int n = begin; n < end; n++) {
        if (p->observed[n].fit != NULL) {
            CHECK(open_loop_take(p->request, &p->observed[n]));
            CHECK(grail_statistics_add(p->observed[n].fit, p->observed[n].held));
        }
    }
    p->energy = p->energies[block + 1];
    return GRAIL_OK;
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

grail_status loss_curves_collect(calibration_network *network, loss_times *times,
                                 const loss_curves *out)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    const int nodes = request->graph->node_count;
    const int64_t energies = request->graph->block_count + 2;
    dense_pass p = {.network = network, .request = request, .curves = out->of};
    TRY(memory_new(&p.observed, (size_t)nodes, sizeof p.observed[0]));
    TRY(memory_new(&p.visitors, (size_t)nodes + 1, sizeof p.visitors[0]));
    if (request->statistics != NULL) {
        TRY(memory_new(&p.energies, (size_t)energies, sizeof p.energies[0]));
        TRY(network_statistics_energy(request->statistics, energies, p.energies));
    }
    for (int block = GRAPH_NONE; block <= last_block(request); block++) {
        TRY(pass_block(&p, block));
    }
    *times = p.times;
out:
    for (int n = 0; p.observed != NULL && n < nodes; n++) {
        observation_fini(&p.observed[n]);
    }
    memory_free(p.observed);
    memory_free(p.visitors);
    memory_free(p.energies);
    return status;
}
