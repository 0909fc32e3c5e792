#include "pipeline/network/experts.h"

#include "backend/operations.h"
#include "stats/row_squares.h"

/* What one expert made. */
typedef struct routed_visit {
    int put; /* node that puts its rows back */
    int64_t rows;
    matrix norms; /* [1, 1]: the sum of share times norm; among those of all experts */
} routed_visit;

/* Adds share times norm of the rows that a node is about to put back. */
static grail_status add_rows(const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    routed_visit *visit = user;
    const node *put = &e->graph->nodes[visit->put];
    routed_rows found = {0};
    matrix norms = {0};
    const matrix made = execution_value(e, put->inputs[0]);
    TRY(execution_routed(e, put->inputs[1], put->share, &found));
    visit->rows += found.count;
    if (found.count > 0) {
        TRY(row_squares_make(made, found.count, &norms));
        TRY(matrix_roots(1.0, 0.0, norms, norms));
        TRY(matrix_add_products(matrix_reshape(found.shares, found.count, 1),
                                matrix_reshape(norms, found.count, 1), visit->norms));
    }
out:
    matrix_free(&norms);
    return status;
}

/* sums[experts] <- what the visits counted, and what they summed. */
static grail_status read_sums(int count, const routed_visit *visits, matrix norms, routed_sum *sums)
{
    grail_status status = GRAIL_OK;
    double *values = NULL;
    TRY(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    TRY(matrix_download(norms, values));
    for (int b = 0; b < count; b++) {
        sums[b] = (routed_sum){.norms = values[b], .rows = visits[b].rows};
    }
out:
    memory_free(values);
    return status;
}

/* sums[experts] over all samples, in their order. */
static grail_status visit_experts(sample_passes *passes, const branch_list *branches,
                                  routed_sum *sums)
{
    grail_status status = GRAIL_OK;
    const int count = branches->count;
    routed_visit *visits = NULL;
    visitor *visitors = NULL;
    matrix norms = {0};
    TRY(memory_new(&visits, (size_t)count, sizeof visits[0]));
    TRY(memory_new(&visitors, (size_t)count, sizeof visitors[0]));
    TRY(matrix_new_zero(passes->current->parameters->backend, GRAIL_DTYPE_F64, 1, count, &norms));
    for (int b = 0; b < count; b++) {
        visits[b] =
            (routed_visit){.put = branch_put(branches, b), .norms = matrix_columns(norms, b, 1)};
        visitors[b] = (visitor){.node = visits[b].put, .add = add_rows, .user = &visits[b]};
    }
    const pass p = {.end = branch_put(branches, count - 1) + 1,
                    .stays = true,
                    .in_order = true,
                    .visitors = visitors,
                    .visitor_count = count};
    TRY(pass_run(passes, &p));
    TRY(read_sums(count, visits, norms, sums));
out:
    matrix_free(&norms);
    memory_free(visits);
    memory_free(visitors);
    return status;
}

static grail_status note_unreached(const routed_sum *sums, int64_t count, site_result *result)
{
    int64_t *list = NULL;
    CHECK(memory_new(&list, (size_t)count, sizeof list[0]));
    result->unreached = list;
    for (int64_t b = 0; b < count; b++) {
        if (sums[b].rows == 0) {
            list[result->report.unreached_count++] = b;
        }
    }
    result->report.unreached = list;
    return GRAIL_OK;
}

/* Units that the plan names, and a rule that looks at nothing, need no pass. */
static bool looks_at_rows(const cutting *cut, int index)
{
    return (site_decision_needs(cut->plan, index, cut_site(cut, index)) & NEEDS_ROUTED) != 0;
}

grail_status experts_decide(const cutting *cut, int index, sample_passes *passes,
                            site_result *result)
{
    grail_status status = GRAIL_OK;
    const site *s = cut_site(cut, index);
    const branch_list branches = site_branches(cut->graph, s);
    routed_sum *sums = NULL;
    grail_reducer *reducer = NULL;
    TRY(memory_new(&sums, (size_t)s->units, sizeof sums[0]));
    if (looks_at_rows(cut, index)) {
        TRY(visit_experts(passes, &branches, sums));
        TRY(note_unreached(sums, s->units, result));
    }
    const site_view known = {.backend = passes->dense->parameters->backend,
                             .comm = passes->comm,
                             .weights = weights_of_store(passes->dense->parameters),
                             .routed = sums};
    TRY(decide_site(cut, index, &known, &reducer));
    TRY(site_take_decision(result, s->kind, reducer));
out:
    memory_free(sums);
    return status;
}

/* order[n]: the experts that stay, then the others. */
static void find_order(const grail_reducer *r, int64_t *order)
{
    int64_t gone = r->kept;
    for (int64_t e = 0; e < r->units; e++) {
        order[r->labels[e] >= 0 ? r->labels[e] : gone++] = e;
    }
}

/* Branch `to` gets the parameters of branch `from`. */
static grail_status move_parameters(const graph *g, const branch_list *b, int64_t to, int64_t from,
                                    parameter_store *store)
{
    const node *nodes = g->nodes + b->begin;
    for (int i = 0; i < b->length; i++) {
        int own[NODE_MAX_PARAMETERS];
        int other[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&nodes[to * b->length + i], own);
        (void)node_parameters(&nodes[from * b->length + i], other);
        for (int k = 0; k < count; k++) {
            CHECK(parameter_store_stand_in(store, own[k], other[k]));
        }
    }
    return GRAIL_OK;
}

grail_status experts_take_places(const graph *g, const site *s, const grail_reducer *reducer,
                                 parameter_store *dense, int64_t **orders)
{
    const branch_list b = site_branches(g, s);
    int64_t **order = &orders[g->nodes[b.route].output];
    CHECK(memory_new(order, (size_t)s->units, sizeof **order));
    find_order(reducer, *order);
    for (int64_t e = 0; e < s->units; e++) {
        CHECK(move_parameters(g, &b, e, (*order)[e], dense));
    }
    return GRAIL_OK;
}
