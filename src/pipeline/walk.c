/* The walk over a block's nodes: at the first producer of a site its reducer is decided, at every
 * consumer the fit is made and merged, at every BatchNorm the statistics are repaired where that is
 * asked for; then the streams go on. */
#include "pipeline/compression.h"

#include <math.h>
#include <string.h>

/* -- deciding ------------------------------------------------------------------------------------
 */

typedef struct input_squares {
    int value;
    double *squares; /* [width] */
} input_squares;

static grail_status add_squares(grail_compression *c, int64_t batch, void *user)
{
    const input_squares *s = user;
    const matrix *x = execution_value(c->network->current.execution, s->value);
    (void)batch;
    c->request->backend->column_sums(x->rows, x->width, x->data, x->width, NULL, s->squares);
    return GRAIL_OK;
}

/* Norms of the features of a producer's input; of an axis that is cut only the kept ones count
 * (methods.md 5.4). features is the dense width. */
static void norms_of_squares(const grail_compression *c, const cut_axis *axis, int64_t features,
                             double *squares)
{
    const grail_reducer *reducer =
        axis->site == GRAPH_NONE ? NULL : c->network->results[axis->site].reducer;
    for (int64_t i = 0; i < features; i++) {
        const bool removed =
            reducer != NULL && reducer->labels[i / (features / reducer->units)] < 0;
        squares[i] = removed ? 0.0 : sqrt(squares[i]);
    }
}

static grail_status observe_squares(grail_compression *c, int producer, int64_t width,
                                    double *squares)
{
    const node *n = &c->request->graph->nodes[producer];
    if (c->request->plan.loop == LOOP_OPEN) {
        memcpy(squares, c->request->session->of_nodes[producer].squares,
               (size_t)width * sizeof *squares);
        return GRAIL_OK;
    }
    input_squares s = {.value = n->inputs[0], .squares = squares};
    return streams_carry(c, producer, GRAPH_NONE, add_squares, &s);
}

static grail_status decide_by_rows(grail_compression *c, int index)
{
    grail_status status = GRAIL_OK;
    double *norms = NULL;
    const int producer = site_at(c->request, index)->producers[0].node;
    const node *n = &c->request->graph->nodes[producer];
    const parameter_cut *cut = &c->request->cuts[n->weight];
    const int64_t features = c->request->graph->parameters[n->weight].shape[1];
    if (selector_needs_statistics(c->request->plan.sites[index].selector)) {
        const bool wide = cut->columns.site != GRAPH_NONE && c->request->plan.loop == LOOP_CLOSED;
        const int64_t most = wide ? cut_wide_features(&c->request->plan, &cut->columns) : features;
        TRY(memory_new(&norms, (size_t)(most > features ? most : features), sizeof norms[0]));
        TRY(observe_squares(c, producer, features, norms));
        norms_of_squares(c, &cut->columns, features, norms);
    }
    TRY(site_select_by_rows(c, index, norms, &c->network->results[index].reducer));
out:
    memory_free(norms);
    return status;
}

static grail_status decide_site(grail_compression *c, int index)
{
    grail_status status = GRAIL_OK;
    const selector_kind selector = c->request->plan.sites[index].selector;
    if (selector_folds(selector)) {
        TRY(site_fold(c, index, &c->network->results[index].reducer));
    } else if (site_scores_rows(c, index)) {
        TRY(decide_by_rows(c, index));
    } else if (!selector_needs_statistics(selector)) {
        TRY(site_select_by_columns(c, index, NULL, &c->network->results[index].reducer));
    }
    if (selector_folds(selector)) {
        TRY(site_append_merged(c, index));
    }
out:
    return status;
}

/* -- events of a node ----------------------------------------------------------------------------
 */

/* The cut site that node `node_index` is the first producer of, or GRAPH_NONE. */
static int site_beginning_at(const grail_compression *c, int node_index)
{
    for (int i = 0; i < c->request->sites->list.count; i++) {
        if (site_is_cut(&c->request->plan, i) &&
            site_at(c->request, i)->producers[0].node == node_index) {
            return i;
        }
    }
    return GRAPH_NONE;
}

/* The cut site that node `node_index` consumes, and as which consumer; GRAPH_NONE without one. */
static int site_read_by(const grail_compression *c, int node_index, int *consumer)
{
    const int weight = c->request->graph->nodes[node_index].weight;
    const int index = weight == GRAPH_NONE ? GRAPH_NONE : c->request->cuts[weight].columns.site;
    for (int k = 0; index != GRAPH_NONE && k < site_at(c->request, index)->consumer_count; k++) {
        if (site_at(c->request, index)->consumers[k].node == node_index) {
            *consumer = k;
            return index;
        }
    }
    return GRAPH_NONE;
}

/* Copies of the dense statistics, which other ratios need again. */
static grail_status take_dense_statistics(grail_compression *c, observation *o)
{
    grail_status status = GRAIL_OK;
    const dense_statistics *dense = &c->request->session->of_nodes[o->node];
    TRY(grail_statistics_add(o->fit, dense->fit));
    TRY(grail_statistics_add(o->held, dense->held));
out:
    return status;
}

static grail_status observe_consumer(grail_compression *c, int index, int consumer)
{
    grail_status status = GRAIL_OK;
    observation o = {0};
    TRY(observation_init(c, index, consumer, &o));
    if (c->request->plan.loop == LOOP_OPEN) {
        TRY(take_dense_statistics(c, &o));
    } else {
        TRY(streams_carry(c, o.node, observation_dense_end(c, &o), observation_add, &o));
        buffer_pool_clear(c->network->pool);
    }
    TRY(compensate_consumer(c, &o));
out:
    observation_fini(&o);
    return status;
}

static bool is_last_consumer(const grail_compression *c, int index, int consumer)
{
    return consumer == site_at(c->request, index)->consumer_count - 1;
}

static grail_status meet_consumer(grail_compression *c, int index, int consumer,
                                  const checkpoint *recorded)
{
    grail_status status = GRAIL_OK;
    site_result *result = &c->network->results[index];
    const double begun = clock_seconds();
    if (recorded != NULL) {
        return widen_consumer(c, index, consumer, recorded);
    }
    const bool undecided = result->reducer == NULL;
    if (undecided || c->request->plan.compensation.enabled) {
        TRY(observe_consumer(c, index, consumer));
    } else {
        TRY(narrow_consumer_plainly(c, index, consumer));
    }
    result->report.seconds += clock_seconds() - begun;
    if (is_last_consumer(c, index, consumer)) {
        TRY(tell_observer(
            c, c->request->graph->nodes[site_at(c->request, index)->consumers[0].node].block,
            &result->report));
    }
out:
    if (status != GRAIL_OK && status != GRAIL_ERROR_CANCELLED) {
        error_prefix("site '%s'", c->request->sites->facts[index].name);
    }
    return status;
}

static grail_status begin_site(grail_compression *c, int index, bool replay)
{
    grail_status status = GRAIL_OK;
    const double begun = clock_seconds();
    if (!replay) {
        TRY(decide_site(c, index));
    } else if (selector_folds(c->request->plan.sites[index].selector)) {
        TRY(site_append_merged(c, index));
    }
    c->network->results[index].report.seconds += clock_seconds() - begun;
out:
    if (status != GRAIL_OK) {
        error_prefix("site '%s'", c->request->sites->facts[index].name);
    }
    return status;
}

/* A network that keeps everything keeps its statistics too. */
static bool is_repaired(const grail_compression *c, int node_index)
{
    return c->request->plan.repair &&
           c->request->graph->nodes[node_index].kind == NODE_BATCH_NORM &&
           anything_is_cut(&c->request->plan);
}

static grail_status meet_node(grail_compression *c, int node_index, const checkpoint *recorded)
{
    grail_status status = GRAIL_OK;
    int consumer = 0;
    const int begins = site_beginning_at(c, node_index);
    const int read = site_read_by(c, node_index, &consumer);
    if (begins != GRAPH_NONE) {
        TRY(begin_site(c, begins, recorded != NULL));
    }
    if (read != GRAPH_NONE) {
        TRY(meet_consumer(c, read, consumer, recorded));
    }
    if (c->request->plan.loop == LOOP_CLOSED && is_repaired(c, node_index)) {
        TRY(repair_batch_norm(c, node_index));
    }
out:
    return status;
}

grail_status tell_observer(grail_compression *c, int block, const grail_site_report *report)
{
    if (c->request->observer == NULL) {
        return GRAIL_OK;
    }
    const int blocks = c->request->graph->block_count;
    const int done = block + (report == NULL ? 1 : 0) - c->network->blocks_replayed;
    const double elapsed = clock_seconds() - c->network->started;
    const double left =
        done > 0 ? elapsed / done * (blocks - c->network->blocks_replayed - done) : (double)NAN;
    if (c->request->observer(c->request->observer_user, report, block, blocks, left) != 0) {
        return error_set(GRAIL_ERROR_CANCELLED, "cancelled in block %d of %d", block, blocks);
    }
    return GRAIL_OK;
}

/* Whether anything behind `node_index` still needs the streams there. */
static bool streams_are_wanted(const grail_compression *c, int node_index)
{
    return c->request->samples->batch_count > 0 && c->request->plan.loop == LOOP_CLOSED &&
           node_index < c->request->graph->node_count;
}

grail_status compress_block(grail_compression *c, int block, const checkpoint *recorded)
{
    grail_status status = GRAIL_OK;
    int begin = 0;
    int end = 0;
    graph_block_range(c->request->graph, block, &begin, &end);
    for (int i = begin; i < end; i++) {
        TRY(meet_node(c, i, recorded));
    }
    if (begin < end && streams_are_wanted(c, end)) {
        TRY(streams_carry(c, end, end, NULL, NULL));
    }
out:
    return status;
}

grail_status repair_network(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    for (int i = 0; i < c->request->graph->node_count; i++) {
        if (is_repaired(c, i)) {
            TRY(repair_batch_norm(c, i));
        }
    }
out:
    return status;
}
