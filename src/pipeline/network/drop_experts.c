#include "pipeline/network/drop_experts.h"

#include "base/memory.h"
#include "exec/routed_rows.h"
#include "pipeline/network/carry.h"
#include "pipeline/network/decide.h"
#include "stats/row_squares.h"

#include <math.h>

/* -- deciding ---------------------------------------------------------------------------------- */

typedef struct routed_pass {
    branch_list branches;
    routed_sum *sums; /* [branches] */
} routed_pass;

/* Adds share times norm of the rows that a node is about to put back. */
static grail_status add_rows(const execution *e, const node *put, routed_sum *sum)
{
    grail_status status = GRAIL_OK;
    routed_rows found = {0};
    double *squares = NULL;
    const matrix made = execution_value(e, put->inputs[0]);
    TRY(routed_rows_find(execution_value(e, put->inputs[1]), put->share, &found));
    TRY(memory_new(&squares, (size_t)found.count, sizeof squares[0]));
    if (found.count > 0) {
        TRY(row_squares(made, found.count, squares));
    }
    for (int64_t r = 0; r < found.count; r++) {
        sum->norms += found.shares[r] * sqrt(squares[r]);
    }
    sum->rows += found.count;
out:
    routed_rows_fini(&found);
    memory_free(squares);
    return status;
}

static grail_status visit(const execution *e, int64_t batch, int node_index, void *user)
{
    const routed_pass *p = user;
    const int64_t branch = branch_at(&p->branches, node_index);
    (void)batch;
    return branch != GRAPH_NONE && node_index == branch_put(&p->branches, branch)
               ? add_rows(e, &e->graph->nodes[node_index], &p->sums[branch])
               : GRAIL_OK;
}

static grail_status note_unreached(const routed_pass *p, site_result *result)
{
    int64_t *list = NULL;
    CHECK(memory_new(&list, (size_t)p->branches.count, sizeof list[0]));
    result->unreached = list;
    for (int b = 0; b < p->branches.count; b++) {
        if (p->sums[b].rows == 0) {
            list[result->report.unreached_count++] = b;
        }
    }
    result->report.unreached = list;
    return GRAIL_OK;
}

/* Units that the plan names, and a rule that looks at nothing, need no pass. */
static bool looks_at_rows(const compression_request *request, int index)
{
    return (site_decision_needs(&request->plan, index, site_at(request, index)) & NEEDS_ROUTED) !=
           0;
}

grail_status experts_decide(calibration_network *network, int index)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    const site *s = site_at(request, index);
    routed_pass pass = {.branches = site_branches(request->graph, s)};
    grail_reducer *reducer = NULL;
    TRY(memory_new(&pass.sums, (size_t)s->units, sizeof pass.sums[0]));
    if (looks_at_rows(request, index)) {
        const int end = branch_put(&pass.branches, s->units - 1) + 1;
        TRY(run_carry(network, &network->current, end, false, visit, &pass));
        TRY(note_unreached(&pass, &network->results[index]));
    }
    const site_view known = {.weights = weights_of_store(network->dense.parameters),
                             .routed = pass.sums};
    TRY(decide_site(network, index, &known, &reducer));
    TRY(site_take_decision(network, index, reducer));
out:
    memory_free(pass.sums);
    return status;
}

/* -- their places ------------------------------------------------------------------------------ */

/* order[n]: the experts that stay, then the others. */
static void find_order(const grail_reducer *r, int64_t *order)
{
    int64_t gone = r->kept;
    for (int64_t e = 0; e < r->units; e++) {
        order[r->labels[e] >= 0 ? r->labels[e] : gone++] = e;
    }
}

/* Branch `to` gets the parameters of branch `from`. */
static grail_status move_parameters(calibration_network *network, const branch_list *b, int64_t to,
                                    int64_t from)
{
    const node *nodes = network->request->graph->nodes + b->begin;
    for (int i = 0; i < b->length; i++) {
        int own[NODE_MAX_PARAMETERS];
        int other[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&nodes[to * b->length + i], own);
        (void)node_parameters(&nodes[from * b->length + i], other);
        for (int k = 0; k < count; k++) {
            CHECK(parameter_store_stand_in(network->dense.parameters, own[k], other[k]));
        }
    }
    return GRAIL_OK;
}

grail_status experts_take_places(calibration_network *network, int index)
{
    const compression_request *request = network->request;
    const site *s = site_at(request, index);
    const branch_list b = site_branches(request->graph, s);
    int64_t **order = &network->orders[request->graph->nodes[b.route].output];
    CHECK(memory_new(order, (size_t)s->units, sizeof **order));
    find_order(network->results[index].reducer, *order);
    for (int64_t e = 0; e < s->units; e++) {
        CHECK(move_parameters(network, &b, e, (*order)[e]));
    }
    return GRAIL_OK;
}
