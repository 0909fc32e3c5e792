#include "pipeline/network/follow.h"

#include "backend/operations.h"
#include "graph/operators.h"
#include "pipeline/request/experts.h"

/* The node's shares where it takes rows, GRAPH_NONE elsewhere. */
static int shares_of_taker(const node *n)
{
    return operator_of(n)->rows == ROWS_TAKEN ? n->inputs[1] : GRAPH_NONE;
}

static grail_status put_current(const calibration_network *network, int value)
{
    return execution_put(network->dense.execution, value,
                         execution_value(network->current.execution, value));
}

static grail_status copy_value(const calibration_network *network, int value, matrix *out)
{
    const matrix in = execution_value(network->dense.execution, value);
    CHECK(matrix_pool_take(network->pool, in.rows, in.columns, out));
    return matrix_copy(in, *out);
}

static grail_status run_dense(const calibration_network *network, int begin, int end)
{
    return execution_run(network->dense.execution, network->dense.parameters, begin, end);
}

/* What the experts read and add to. */
typedef struct layer_start {
    matrix input, sum; /* of the pool */
} layer_start;

static grail_status begin_layer(const calibration_network *network, const branch_list *b,
                                const layer_start *start)
{
    execution *e = network->dense.execution;
    const graph *g = e->graph;
    CHECK(execution_put(e, branches_input(g, b), start->input));
    CHECK(execution_put(e, branches_sum(g, b), start->sum));
    return put_current(network, g->nodes[b->route].output);
}

/* The sum behind all experts, which goes to the pool's *out. */
static grail_status run_layer(const calibration_network *network, const branch_list *b, matrix *out)
{
    execution *e = network->dense.execution;
    const int end = branch_put(b, b->count - 1) + 1;
    CHECK(run_dense(network, b->begin, end));
    execution_take(e, e->graph->nodes[end - 1].output, out);
    return GRAIL_OK;
}

/* A local target is of what the current network has: there the dense layer begins with it. */
static grail_status begin_locally(const calibration_network *network, const branch_list *b)
{
    const graph *g = network->request->graph;
    if (compensation_uses_dense(&network->request->plan.compensation)) {
        return GRAIL_OK;
    }
    CHECK(put_current(network, branches_input(g, b)));
    CHECK(put_current(network, branches_sum(g, b)));
    return run_dense(network, b->router, b->begin);
}

/* sum <- sum + (sum behind all experts by the dense route - the same by the current shares) */
static grail_status add_what_is_missing(const calibration_network *network, const branch_list *b)
{
    grail_status status = GRAIL_OK;
    const graph *g = network->request->graph;
    layer_start start = {0};
    matrix whole = {0};
    matrix lacking = {0};
    TRY(begin_locally(network, b));
    TRY(copy_value(network, branches_input(g, b), &start.input));
    TRY(copy_value(network, branches_sum(g, b), &start.sum));
    TRY(run_layer(network, b, &whole));
    TRY(begin_layer(network, b, &start));
    TRY(run_layer(network, b, &lacking));
    TRY(matrix_subtract(whole, lacking, whole));
    TRY(matrix_add(start.sum, whole, start.sum));
    TRY(begin_layer(network, b, &start));
out:
    matrix_pool_give(network->pool, &start.input);
    matrix_pool_give(network->pool, &start.sum);
    matrix_pool_give(network->pool, &whole);
    matrix_pool_give(network->pool, &lacking);
    return status;
}

/* At the node that takes the first rows. */
static grail_status take_shares(const calibration_network *network, int taker, int shares)
{
    const compression_request *request = network->request;
    const plan *p = &request->plan;
    const int index = p->compensation.enabled
                          ? experts_site_at(request->graph, &request->sites->list, p, taker)
                          : GRAPH_NONE;
    if (index == GRAPH_NONE) {
        return put_current(network, shares);
    }
    const branch_list branches = site_branches(request->graph, site_at(request, index));
    return taker == branches.begin ? add_what_is_missing(network, &branches)
                                   : put_current(network, shares);
}

grail_status dense_follow(const calibration_network *network, int begin, int end)
{
    const execution *current = network->current.execution;
    const graph *g = network->dense.graph;
    int from = begin;
    int known = GRAPH_NONE;
    for (int n = begin; n < end; n++) {
        const int shares = shares_of_taker(&g->nodes[n]);
        if (shares != GRAPH_NONE && shares != known &&
            matrix_exists(execution_value(current, shares))) {
            CHECK(run_dense(network, from, n));
            CHECK(take_shares(network, n, shares));
            from = n;
            known = shares;
        }
    }
    return run_dense(network, from, end);
}
