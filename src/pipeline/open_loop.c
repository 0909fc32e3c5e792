/* The open loop: one pass of the dense network takes the statistics of all sites, and the session
 * keeps them for other ratios. Source: the paper's vision code (methods.md 4.8). */
#include "pipeline/compression.h"

static bool is_collected(const grail_compression *c, int index, int64_t taps)
{
    const dense_statistics *d = &c->request->session->of_nodes[index];
    return d->fit != NULL && d->taps == taps;
}

/* Observations to be made, in the order of their nodes. */
typedef struct collection {
    observation *items; /* owned */
    int count;
} collection;

static void collection_fini(collection *l)
{
    for (int i = 0; i < l->count; i++) {
        observation_fini(&l->items[i]);
    }
    memory_free(l->items);
}

static grail_status collect_site(grail_compression *c, int index, collection *l)
{
    grail_status status = GRAIL_OK;
    const site *s = &c->request->sites->list.sites[index];
    for (int k = 0; k < s->consumer_count; k++) {
        const int64_t taps = consumer_layout_of(c, index, k).taps;
        if (!is_collected(c, s->consumers[k].node, taps)) {
            TRY(memory_resize(&l->items, (size_t)l->count + 1, sizeof l->items[0]));
            TRY(observation_init_input(c, index, k, &l->items[l->count]));
            l->count++;
        }
    }
out:
    return status;
}

static grail_status add_squares(grail_compression *c, int index)
{
    grail_status status = GRAIL_OK;
    const matrix *x =
        execution_value(c->network->current.execution, c->request->graph->nodes[index].inputs[0]);
    dense_statistics *d = &c->request->session->of_nodes[index];
    if (d->squares == NULL) {
        TRY(memory_new(&d->squares, (size_t)x->width, sizeof d->squares[0]));
    }
    c->request->backend->column_sums(x->rows, x->width, x->data, x->width, NULL, d->squares);
out:
    return status;
}

/* Whether a node is the first producer of a site, whose input norms some selector asks for. */
static bool wants_squares(const grail_compression *c, int index)
{
    for (int i = 0; i < c->request->sites->list.count; i++) {
        if (c->request->sites->list.sites[i].producers[0].node == index) {
            return true;
        }
    }
    return false;
}

static grail_status collect_batch(grail_compression *c, collection *l, const bool *squares,
                                  int64_t batch)
{
    grail_status status = GRAIL_OK;
    const graph *g = c->request->graph;
    TRY(execution_begin(c->network->current.execution,
                        calibration_shape(c->request->samples, batch),
                        calibration_input(c->request->samples, batch)));
    for (int n = 0; n < g->node_count; n++) {
        for (int i = 0; i < l->count; i++) {
            if (l->items[i].node == n) {
                TRY(observation_add_input(c, &l->items[i], c->network->current.execution, batch));
            }
        }
        if (squares[n]) {
            TRY(add_squares(c, n));
        }
        TRY(execution_run(c->network->current.execution, c->network->dense.parameters, n, n + 1));
    }
out:
    return status;
}

static void keep_statistics(grail_compression *c, collection *l)
{
    for (int i = 0; i < l->count; i++) {
        observation *o = &l->items[i];
        dense_statistics *d = &c->request->session->of_nodes[o->node];
        grail_statistics_free(d->fit);
        grail_statistics_free(d->held);
        d->fit = o->fit;
        d->held = o->held;
        d->taps = o->layout.taps;
        o->fit = NULL;
        o->held = NULL;
    }
}

grail_status open_loop_collect(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    collection l = {0};
    bool *squares = NULL;
    bool any = false;
    const int nodes = c->request->graph->node_count;
    const double begun = clock_seconds();
    session_count(c->request->session, c->request->samples, c->request->backend);
    TRY(memory_new(&squares, (size_t)nodes, sizeof squares[0]));
    for (int i = 0; i < c->request->sites->list.count; i++) {
        if (site_is_cut(&c->request->plan, i)) {
            TRY(collect_site(c, i, &l));
        }
    }
    for (int n = 0; n < nodes; n++) {
        squares[n] = wants_squares(c, n) && c->request->session->of_nodes[n].squares == NULL;
        any = any || squares[n];
    }
    for (int64_t batch = 0; (l.count > 0 || any) && batch < c->request->samples->batch_count;
         batch++) {
        TRY(collect_batch(c, &l, squares, batch));
    }
    keep_statistics(c, &l);
    c->network->calibrate_seconds += clock_seconds() - begun;
out:
    for (int n = 0; status != GRAIL_OK && squares != NULL && n < nodes; n++) {
        if (squares[n]) { /* sums of some batches only */
            memory_free(c->request->session->of_nodes[n].squares);
            c->request->session->of_nodes[n].squares = NULL;
        }
    }
    collection_fini(&l);
    memory_free(squares);
    return status;
}
