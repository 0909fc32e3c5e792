#include "pipeline/network/open_loop.h"

#include "backend/operations.h"
#include "base/clock.h"
#include "pipeline/network/carry.h"
#include "pipeline/network/observe.h"

/* Whether the session has them from a run whose fit reads the same rows. */
static bool is_collected(const compression_request *request, int index, int64_t taps)
{
    const dense_statistics *d = &request->session->of_nodes[index];
    const bool of_patches = request->graph->nodes[index].kind == NODE_CONV2D &&
                            request->plan.compensation.conv == CONV_FIT_KERNEL;
    return d->fit != NULL && d->taps == taps && d->of_patches == of_patches;
}

/* The observations to make, in the order of their nodes, and the nodes whose inputs to square. */
typedef struct collection {
    const compression_request *request;
    observation *items; /* owned */
    int count;
    bool *squares; /* [node_count], owned */
    bool any_squares;
} collection;

static void collection_fini(collection *l)
{
    for (int i = 0; i < l->count; i++) {
        observation_fini(&l->items[i]);
    }
    memory_free(l->items);
    memory_free(l->squares);
}

static grail_status collect_site(const compression_request *request, int index, collection *l)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(request, index);
    for (int k = 0; k < s->consumer_count; k++) {
        const int64_t taps = consumer_layout_of(request, index, k).taps;
        if (!is_collected(request, s->consumers[k].node, taps)) {
            TRY(memory_reserve(&l->items, (size_t)l->count + 1, sizeof l->items[0]));
            TRY(observation_init_input(request, index, k, &l->items[l->count]));
            l->count++;
        }
    }
out:
    return status;
}

/* Whether a node is the first producer of a site: some selectors need the norms of its input. */
static bool wants_squares(const compression_request *request, int index)
{
    for (int i = 0; i < request->sites->list.count; i++) {
        if (site_at(request, i)->producers[0].node == index) {
            return true;
        }
    }
    return false;
}

static bool needs_all_consumers(const compression_request *request, int index)
{
    const unsigned needs = site_decision_needs(&request->plan, index, site_at(request, index));
    return (needs & NEEDS_ALL_CONSUMERS) != 0;
}

/* Whether statistics of the dense network at the site's consumers are needed. */
static bool is_wanted(const compression_request *request, int index)
{
    return site_is_cut(&request->plan, index) &&
           (request->plan.loop == LOOP_OPEN || needs_all_consumers(request, index));
}

bool open_loop_is_needed(const compression_request *request)
{
    bool needed = false;
    for (int i = 0; i < request->plan.count; i++) {
        needed = needed || is_wanted(request, i);
    }
    return needed && request->samples->count > 0;
}

static grail_status plan_collection(const compression_request *request, collection *l)
{
    grail_status status = GRAIL_OK;
    const int nodes = request->graph->node_count;
    TRY(memory_new(&l->squares, (size_t)nodes, sizeof l->squares[0]));
    for (int i = 0; i < request->plan.count; i++) {
        if (is_wanted(request, i)) {
            TRY(collect_site(request, i, l));
        }
    }
    for (int n = 0; n < nodes; n++) {
        l->squares[n] = request->plan.loop == LOOP_OPEN && wants_squares(request, n) &&
                        !matrix_exists(request->session->of_nodes[n].squares);
        l->any_squares = l->any_squares || l->squares[n];
    }
out:
    return status;
}

static grail_status add_squares(const execution *e, int index, dense_statistics *d)
{
    grail_status status = GRAIL_OK;
    const matrix x = execution_value(e, e->graph->nodes[index].inputs[0]);
    if (!matrix_exists(d->squares)) {
        TRY(matrix_new_zero(e->backend, GRAIL_DTYPE_F64, 1, x.columns, &d->squares));
    }
    TRY(matrix_column_sums(x, no_matrix, d->squares));
out:
    return status;
}

/* A node_visitor; `user` is a collection. */
static grail_status collect_at_node(const execution *e, int64_t batch, int node_index, void *user)
{
    grail_status status = GRAIL_OK;
    const collection *l = user;
    const bool held_out = calibration_holds_out(l->request->samples, batch);
    for (int i = 0; i < l->count; i++) {
        if (l->items[i].node == node_index) {
            TRY(observation_add_input(&l->items[i], e, held_out));
        }
    }
    if (node_index < e->graph->node_count && l->squares[node_index]) {
        TRY(add_squares(e, node_index, &l->request->session->of_nodes[node_index]));
    }
out:
    return status;
}

static void keep_statistics(grail_session *session, const collection *l)
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
}

/* Called after a pass that failed, whose sums cover only some of the batches. */
static void drop_squares(grail_session *session, const collection *l)
{
    for (int n = 0; l->squares != NULL && n < session->model->graph->node_count; n++) {
        if (l->squares[n]) {
            matrix_free(&session->of_nodes[n].squares);
        }
    }
}

grail_status open_loop_collect(calibration_network *network)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    collection l = {.request = request};
    const double begun = clock_seconds();
    session_count(request->session, request->samples, request->judges, request->backend);
    TRY(plan_collection(request, &l));
    if (l.count > 0 || l.any_squares) {
        TRY(run_carry(network, &network->dense, network->dense.graph->node_count, false,
                      collect_at_node, &l));
    }
    keep_statistics(request->session, &l);
    network->calibrate_seconds += clock_seconds() - begun;
out:
    if (status != GRAIL_OK) {
        drop_squares(request->session, &l);
    }
    collection_fini(&l);
    return status;
}

grail_status open_loop_take(const compression_request *request, observation *o)
{
    grail_status status = GRAIL_OK;
    const dense_statistics *dense = &request->session->of_nodes[o->node];
    TRY(grail_statistics_add(o->fit, dense->fit));
    TRY(grail_statistics_add(o->held, dense->held));
out:
    return status;
}
