#include "pipeline/network/open_loop.h"

#include "backend/operations.h"
#include "base/clock.h"
#include "graph/operators.h"
#include "pipeline/network/column_sums.h"
#include "pipeline/request/consumer_tail.h"

/* -- statistics -------------------------------------------------------------------------------- */

/* Whether the session has them from a run whose fit reads the same rows. */
static bool is_collected(const compression_request *request, int index, int64_t taps)
{
    const dense_statistics *d = &request->session->of_nodes[index];
    const bool of_patches =
        map_is_fitted_by_tap(&request->plan.compensation, &request->graph->nodes[index]);
    return d->fit != NULL && d->taps == taps && d->of_patches == of_patches;
}

/* Sums of squares of a node's input, which the session gets. */
typedef struct squared_input {
    int node;
    column_sums sums;
} squared_input;

/* The observations to make in a pass through nodes [begin, end), in the order of their nodes, and
 * the nodes whose inputs to square. */
typedef struct collection {
    const compression_request *request;
    int begin, end;
    observation *items; /* owned */
    int count;
    squared_input *squares; /* [squares_count], owned */
    int squares_count;
    visitor *visitors; /* [count + squares_count] to both, owned */
} collection;

static void collection_fini(collection *l)
{
    for (int i = 0; i < l->count; i++) {
        observation_fini(&l->items[i]);
    }
    for (int i = 0; i < l->squares_count; i++) {
        column_sums_fini(&l->squares[i].sums);
    }
    memory_free(l->items);
    memory_free(l->squares);
    memory_free(l->visitors);
}

static bool is_passed(const collection *l, int node_index)
{
    return node_index >= l->begin && node_index < l->end;
}

/* How many of the site's consumers are observed: all where they are fitted in an open loop, or
 * where the decision looks at all. */
static int observed_consumers(const compression_request *request, int index)
{
    const plan *p = &request->plan;
    const site *s = site_at(request, index);
    if (p->loop == LOOP_OPEN && site_is_cut(p, index)) {
        return s->consumer_count;
    }
    return site_is_chosen_openly(p, index, s) ? deciding_consumers(&request->cut, index) : 0;
}

static grail_status collect_site(int index, collection *l)
{
    const site *s = site_at(l->request, index);
    const int count = observed_consumers(l->request, index);
    for (int k = 0; k < count; k++) {
        const int reader = s->consumers[k].node;
        const int64_t taps = consumer_layout_of(&l->request->cut, index, k).taps;
        bool listed = false; /* for another part of what it reads */
        for (int i = 0; i < l->count; i++) {
            listed = listed || l->items[i].node == reader;
        }
        if (!listed && is_passed(l, reader) && !is_collected(l->request, reader, taps)) {
            CHECK(memory_reserve(&l->items, (size_t)l->count + 1, sizeof l->items[0]));
            CHECK(observation_init_input(&l->request->cut, l->request->backend, index, k,
                                         &l->items[l->count++]));
        }
    }
    return GRAIL_OK;
}

/* Some selectors need the norms of the input of a producer. In an open loop they are taken at every
 * site, for other runs of the session. */
static bool wants_squares(const compression_request *request, int node_index)
{
    const plan *p = &request->plan;
    for (int i = 0; i < p->count; i++) {
        const site *s = site_at(request, i);
        const bool needed = site_is_chosen_openly(p, i, s) &&
                            (site_decision_needs(p, i, s) & NEEDS_INPUT_NORMS) != 0;
        if ((p->loop == LOOP_OPEN || needed) && scored_node(&request->cut, i) == node_index) {
            return true;
        }
    }
    return false;
}

/* Whether statistics of the dense network are needed, and can be had: in an open loop, and where
 * they choose the units of a site. */
static bool open_loop_is_needed(const compression_request *request)
{
    const plan *p = &request->plan;
    bool needed = false;
    for (int i = 0; i < p->count; i++) {
        needed = needed || site_is_chosen_openly(p, i, site_at(request, i)) ||
                 (p->loop == LOOP_OPEN && site_is_cut(p, i));
    }
    return needed && (request->samples->count > 0 || request->statistics != NULL);
}

static grail_status collect_squares(int node_index, collection *l)
{
    const compression_request *request = l->request;
    const node *n = &request->graph->nodes[node_index];
    if (!wants_squares(request, node_index) ||
        matrix_exists(request->session->of_nodes[node_index].squares)) {
        return GRAIL_OK;
    }
    CHECK(memory_reserve(&l->squares, (size_t)l->squares_count + 1, sizeof l->squares[0]));
    squared_input *s = &l->squares[l->squares_count++];
    *s = (squared_input){.node = node_index};
    return column_sums_init(request->backend, n->inputs[0],
                            request->graph->parameters[n->weight].shape[1] * node_groups(n), false,
                            &s->sums);
}

static grail_status plan_collection(collection *l)
{
    int count = 0;
    for (int i = 0; i < l->request->plan.count; i++) {
        CHECK(collect_site(i, l));
    }
    for (int n = l->begin; n < l->end; n++) {
        CHECK(collect_squares(n, l));
    }
    CHECK(
        memory_new(&l->visitors, (size_t)(l->count + l->squares_count) + 1, sizeof l->visitors[0]));
    for (int i = 0; i < l->count; i++) {
        CHECK(observation_create_part(&l->items[i]));
        l->visitors[count++] = observation_input_visitor(&l->items[i]);
    }
    for (int i = 0; i < l->squares_count; i++) {
        l->visitors[count++] = column_sums_visitor(&l->squares[i].sums, l->squares[i].node);
    }
    return GRAIL_OK;
}

static void keep_statistics(grail_session *session, collection *l)
{
    for (int i = 0; i < l->count; i++) {
        observation *o = &l->items[i];
        dense_statistics *d = &session->of_nodes[o->node];
        grail_statistics_free(d->fit);
        grail_statistics_free(d->held);
        d->fit = o->fit;
        d->held = o->held;
        d->taps = o->layout.taps;
        d->of_patches = o->of_patches;
        o->fit = NULL;
        o->held = NULL;
    }
    for (int i = 0; i < l->squares_count; i++) {
        session->of_nodes[l->squares[i].node].squares = l->squares[i].sums.squares;
        l->squares[i].sums.squares = no_matrix;
    }
}

/* Takes these statistics, and the sums of squares that selectors need, of the nodes from where the
 * dense network's sample stream waits up to node `end`, unless the session already has them. The
 * sample stream moves to `end` if nodes follow. */
static grail_status open_loop_collect(calibration_network *network, int end)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    collection l = {.request = request, .begin = network->dense.stream.position, .end = end};
    pass p = {.run = &network->dense, .end = end, .stays = end == request->graph->node_count};
    session_count(request->session, request->samples, request->judges, request->backend);
    TRY(plan_collection(&l));
    p.visitors = l.visitors;
    p.visitor_count = l.count + l.squares_count;
    TRY(pass_run(&network->passes, &p));
    keep_statistics(request->session, &l);
out:
    collection_fini(&l);
    return status;
}

/* Frees the session's statistics of a site's consumers, unless they are those of other parts, too.
 */
static void open_loop_release(const compression_request *request, int index)
{
    const site *s = site_at(request, index);
    for (int k = 0; k < s->consumer_count && !s->is_part; k++) {
        dense_statistics *d = &request->session->of_nodes[s->consumers[k].node];
        grail_statistics_free(d->fit);
        grail_statistics_free(d->held);
        d->fit = NULL;
        d->held = NULL;
    }
}

static void weight_name(const compression_request *request, int node_index,
                        char name[STATISTICS_NAME_SIZE])
{
    statistics_name(request->model, request->graph->nodes[node_index].weight, name);
}

/* Columns of a consumer's input: those of the site, where they begin, and all. */
typedef struct site_columns {
    int64_t first, width, all;
} site_columns;

static site_columns columns_of(const compression_request *request, int index, int consumer)
{
    const site_end *end = &site_at(request, index)->consumers[consumer];
    const consumer_layout l = consumer_layout_of(&request->cut, index, consumer);
    const consumer_layout all = map_layout_of(&request->cut, end->node);
    return (site_columns){.first = end->first * l.taps,
                          .width = l.features * l.groups * l.taps,
                          .all = all.features * l.groups * l.taps};
}

/* Adds to statistics of the site's columns those of all. */
static grail_status add_columns(site_columns c, const grail_statistics *all, grail_statistics *into)
{
    return c.width == c.all ? grail_statistics_add(into, all)
                            : statistics_add_columns(into, all, c.first);
}

/* What a selector needs, of the site's columns alone. */
static grail_status take_columns(const compression_request *request, site_columns c, unsigned needs,
                                 grail_statistics *all_fit, grail_statistics *all_held,
                                 input_statistics *out)
{
    grail_status status = GRAIL_OK;
    grail_statistics *fit = NULL;
    grail_statistics *held = NULL;
    if (c.width == c.all) {
        return input_statistics_take(needs, all_fit, all_held, out);
    }
    TRY(statistics_create(request->backend, c.width, 0, &fit));
    TRY(statistics_create(request->backend, c.width, 0, &held));
    TRY(add_columns(c, all_fit, fit));
    TRY(add_columns(c, all_held, held));
    TRY(input_statistics_take(needs, fit, held, out));
out:
    grail_statistics_free(fit);
    grail_statistics_free(held);
    return status;
}

/* Diagonal and means alone, from a file without the Gram matrix. */
static grail_status input_of_vectors(const network_statistics *s, const char *name, site_columns c,
                                     bool with_means, input_statistics *out)
{
    double *squares = NULL;
    double *means = NULL;
    const int64_t width = c.all;
    *out = (input_statistics){.width = c.width};
    CHECK(memory_new(&squares, (size_t)width, sizeof squares[0]));
    out->diagonal = squares;
    if (with_means) {
        CHECK(memory_new(&means, (size_t)width, sizeof means[0]));
        out->means = means;
    }
    CHECK(network_statistics_vectors(s, name, width, squares, means, &out->weight));
    for (int64_t i = 0; i < c.width; i++) {
        squares[i] = squares[c.first + i];
    }
    for (int64_t i = 0; with_means && i < c.width; i++) {
        means[i] = out->weight > 0.0 ? means[c.first + i] / out->weight : 0.0;
    }
    out->rows = out->weight;
    out->rounding = network_statistics_rounding(out->weight);
    return GRAIL_OK;
}

static grail_status input_of_grams(const compression_request *request, const char *name,
                                   site_columns c, unsigned needs, input_statistics *out)
{
    grail_status status = GRAIL_OK;
    grail_statistics *fit = NULL;
    grail_statistics *held = NULL;
    TRY(statistics_create(request->backend, c.all, 0, &fit));
    TRY(statistics_create(request->backend, c.all, 0, &held));
    TRY(network_statistics_grams(request->statistics, name, fit, held));
    TRY(take_columns(request, c, needs, fit, held, out));
out:
    grail_statistics_free(fit);
    grail_statistics_free(held);
    return status;
}

/* Whole Gram matrices are exact, and taken where the file has them. */
static grail_status input_of_file(const compression_request *request, int index, int consumer,
                                  unsigned needs, input_statistics *out)
{
    char name[STATISTICS_NAME_SIZE];
    const network_statistics *s = request->statistics;
    const site_columns c = columns_of(request, index, consumer);
    const consumer_layout l = consumer_layout_of(&request->cut, index, consumer);
    const bool of_vectors = l.taps == 1 && (needs & (NEEDS_GRAM | NEEDS_TARGET)) == 0;
    weight_name(request, site_at(request, index)->consumers[consumer].node, name);
    return of_vectors && !network_statistics_has_grams(s)
               ? input_of_vectors(s, name, c, (needs & NEEDS_MEANS) != 0, out)
               : input_of_grams(request, name, c, needs, out);
}

/* What a decision needs of the input of a site's consumer; input_statistics_free frees it, even
 * after a failure. */
static grail_status open_loop_input(const compression_request *request, int index, int consumer,
                                    unsigned needs, input_statistics *out)
{
    const int reader = site_at(request, index)->consumers[consumer].node;
    const dense_statistics *d = &request->session->of_nodes[reader];
    if (request->statistics != NULL) {
        return input_of_file(request, index, consumer, needs, out);
    }
    CHECK(statistics_check_finite(d->fit));
    CHECK(statistics_check_finite(d->held));
    return take_columns(request, columns_of(request, index, consumer), needs, d->fit, d->held, out);
}

/* squares[scored_input_width]: sums of squares of what the first scored producer reads. */
static grail_status open_loop_squares(const compression_request *request, int index,
                                      double *squares)
{
    char name[STATISTICS_NAME_SIZE];
    double count = 0.0;
    const int scored = scored_node(&request->cut, index);
    if (request->statistics == NULL) {
        return matrix_download(request->session->of_nodes[scored].squares, squares);
    }
    weight_name(request, scored, name);
    return network_statistics_vectors(
        request->statistics, name, scored_input_width(&request->cut, index), squares, NULL, &count);
}

grail_status open_loop_take(const compression_request *request, observation *o)
{
    grail_status status = GRAIL_OK;
    char name[STATISTICS_NAME_SIZE];
    grail_statistics *fit = NULL;
    grail_statistics *held = NULL;
    const dense_statistics *dense = &request->session->of_nodes[o->node];
    site_columns c = columns_of(request, o->site, o->consumer);
    if (o->fit->width == c.all) { /* it observes all */
        c = (site_columns){.width = c.all, .all = c.all};
    }
    if (request->statistics == NULL) {
        TRY(add_columns(c, dense->fit, o->fit));
        TRY(add_columns(c, dense->held, o->held));
        goto out;
    }
    weight_name(request, o->node, name);
    if (c.width == c.all) {
        TRY(network_statistics_grams(request->statistics, name, o->fit, o->held));
        goto out;
    }
    TRY(statistics_create(request->backend, c.all, 0, &fit));
    TRY(statistics_create(request->backend, c.all, 0, &held));
    TRY(network_statistics_grams(request->statistics, name, fit, held));
    TRY(add_columns(c, fit, o->fit));
    TRY(add_columns(c, held, o->held));
out:
    grail_statistics_free(fit);
    grail_statistics_free(held);
    return status;
}

/* -- choices ----------------------------------------------------------------------------------- */

static unsigned needs_of(const compression_request *request, int index)
{
    return site_decision_needs(&request->plan, index, site_at(request, index));
}

static bool is_chosen_openly(const compression_request *request, int index)
{
    return site_is_chosen_openly(&request->plan, index, site_at(request, index));
}

/* -- the order of decisions -------------------------------------------------------------------- */

/* The first of the segments, `from` on, of what the site's scored producer reads whose site is
 * decided before, because its removed units count nothing in the norms that this one needs; NULL:
 * none. That site's scored producer stands before this one's, so that there is no circle. */
static const cut_axis *decided_before(const compression_request *request, int index,
                                      const cut_axis *from)
{
    const int scored = scored_node(&request->cut, index);
    const bool of_input = (needs_of(request, index) & NEEDS_INPUT_NORMS) != 0;
    for (; of_input && from != NULL && from->site != GRAPH_NONE; from = from->next) {
        if (scored_node(&request->cut, from->site) < scored &&
            !request->plan.sites[from->site].selector->folds) {
            return from;
        }
    }
    return NULL;
}

static const cut_axis *first_decided_before(const compression_request *request, int index)
{
    return decided_before(request, index, scored_input_cut(&request->cut, index));
}

static int later(int a, int b)
{
    return a > b ? a : b;
}

/* The last node at whose input something is observed that the decision needs. */
static int last_needed_node(const compression_request *request, int index)
{
    const site *s = site_at(request, index);
    const bool of_input = (needs_of(request, index) & NEEDS_INPUT_NORMS) != 0;
    int last = of_input ? scored_node(&request->cut, index) : GRAPH_NONE;
    for (int k = 0; k < deciding_consumers(&request->cut, index); k++) {
        last = later(last, s->consumers[k].node);
    }
    for (const cut_axis *a = first_decided_before(request, index); a != NULL;
         a = decided_before(request, index, a->next)) {
        last = later(last, last_needed_node(request, a->site));
    }
    return last;
}

/* -- one decision ------------------------------------------------------------------------------ */

/* *out is [*count]; input_statistics_free frees it, even after a failure. */
static grail_status take_inputs(const compression_request *request, int index, int *count,
                                input_statistics **out)
{
    *count = deciding_consumers(&request->cut, index);
    CHECK(memory_new(out, (size_t)*count, sizeof(**out)));
    for (int k = 0; k < *count; k++) {
        CHECK(open_loop_input(request, index, k, needs_of(request, index), &(*out)[k]));
    }
    return GRAIL_OK;
}

/* *out is owned; NULL where no norms are needed. */
static grail_status take_norms(const calibration_network *network, int index, double **out)
{
    const compression_request *request = network->request;
    if ((needs_of(request, index) & NEEDS_INPUT_NORMS) == 0) {
        return GRAIL_OK;
    }
    const int64_t width = scored_input_width(&request->cut, index);
    CHECK(memory_new(out, (size_t)width, sizeof **out));
    CHECK(open_loop_squares(request, index, *out));
    norms_of_squares(width, *out);
    const graph *g = request->graph;
    const node *scored = &g->nodes[scored_node(&request->cut, index)];
    const int64_t taps = weight_taps(&g->parameters[scored->weight]);
    for (const cut_axis *a = first_decided_before(request, index); a != NULL;
         a = decided_before(request, index, a->next)) {
        norms_leave_out(a, taps, network->chosen[a->site], *out);
    }
    return GRAIL_OK;
}

static grail_status decide(calibration_network *network, int index)
{
    grail_status status = GRAIL_OK;
    input_statistics *inputs = NULL;
    double *norms = NULL;
    int count = 0;
    TRY(take_norms(network, index, &norms));
    TRY(take_inputs(network->request, index, &count, &inputs));
    if (count > 0 &&
        site_takes_metric(network->cut->plan, index, site_at(network->request, index))) {
        const int reader = site_at(network->request, index)->consumers[0].node;
        inputs[0].metric = network->request->session->metrics[reader];
    }
    const site_view known = {
        .backend = network->request->backend,
        .comm = network->request->comm,
        .weights = weights_of_store(network->dense.parameters),
        .input_norms = norms,
        .inputs = inputs,
        .input_count = count,
    };
    TRY(decide_site(network->cut, index, &known, &network->chosen[index]));
out:
    memory_free(norms);
    input_statistics_free(count, inputs);
    return status;
}

static grail_status choose(calibration_network *network, int index)
{
    const compression_request *request = network->request;
    if (network->chosen[index] != NULL) {
        return GRAIL_OK;
    }
    for (const cut_axis *a = first_decided_before(request, index); a != NULL;
         a = decided_before(request, index, a->next)) {
        CHECK(choose(network, a->site));
    }
    const double begun = clock_seconds();
    const grail_status status = decide(network, index);
    network->results[index].report.seconds += clock_seconds() - begun;
    return error_in(status, "site '%s'", request->sites->facts[index].name);
}

/* -- the passes -------------------------------------------------------------------------------- */

static int last_node(const compression_request *request)
{
    int last = GRAPH_NONE;
    for (int i = 0; i < request->plan.count; i++) {
        last = is_chosen_openly(request, i) ? later(last, last_needed_node(request, i)) : last;
    }
    return last;
}

/* Those that need nothing from node `end` on. */
static grail_status choose_before(calibration_network *network, int end, bool releases)
{
    const compression_request *request = network->request;
    for (int i = 0; i < request->plan.count; i++) {
        const bool waits = is_chosen_openly(request, i) && network->chosen[i] == NULL;
        if (waits && last_needed_node(request, i) < end) {
            CHECK(choose(network, i));
            if (releases) {
                open_loop_release(request, i);
            }
        }
    }
    return GRAIL_OK;
}

static grail_status choose_block_by_block(calibration_network *network)
{
    const graph *g = network->request->graph;
    const int last = last_node(network->request);
    int end = 0;
    for (int block = GRAPH_NONE; end <= last; block++) {
        int begin = 0;
        graph_block_range(g, block, &begin, &end);
        if (begin < end) {
            CHECK(open_loop_collect(network, end));
            CHECK(choose_before(network, end, true));
        }
        network_release_block(network, block);
    }
    return network_rewind(network);
}

/* Whether a pass can go block by block, which holds one block's weights at a time: units are chosen
 * so for one run alone. Where few sites of a closed loop are chosen before it, streams above all,
 * the session keeps their statistics for other runs. */
static bool goes_by_blocks(const compression_request *request)
{
    const plan *p = &request->plan;
    bool by_blocks = plan_selects_openly(p);
    for (int i = 0; i < p->count; i++) {
        by_blocks = by_blocks || (is_chosen_openly(request, i) && p->sites[i].normed);
    }
    return by_blocks && p->loop == LOOP_CLOSED;
}

grail_status choose_openly(calibration_network *network)
{
    const compression_request *request = network->request;
    if (!open_loop_is_needed(request)) {
        return GRAIL_OK;
    }
    if (request->statistics != NULL) {
        return choose_before(network, request->graph->node_count, false);
    }
    if (goes_by_blocks(request)) {
        return choose_block_by_block(network);
    }
    CHECK(open_loop_collect(network, request->graph->node_count));
    return choose_before(network, request->graph->node_count, false);
}
