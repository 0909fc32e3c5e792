#include "graph/branches.h"

#include "graph/operators.h"

#include <string.h>

static int first_of(const branch_list *list, int64_t branch)
{
    return list->begin + (int)branch * list->length;
}

int branch_put(const branch_list *list, int64_t branch)
{
    return first_of(list, branch + 1) - 1;
}

int branch_last(const graph *g, const branch_list *list, int64_t branch)
{
    return g->value_source[g->nodes[branch_put(list, branch)].inputs[0]];
}

int branches_input(const graph *g, const branch_list *list)
{
    return g->nodes[list->router].inputs[0];
}

int branches_sum(const graph *g, const branch_list *list)
{
    return g->nodes[branch_put(list, 0)].inputs[2];
}

int64_t branch_at(const branch_list *list, int node_index)
{
    const bool inside = node_index >= list->begin && node_index < first_of(list, list->count);
    return inside ? (node_index - list->begin) / list->length : GRAPH_NONE;
}

static int readers_of(const graph *g, int parameter)
{
    int count = 0;
    for (int n = 0; n < g->node_count; n++) {
        int used[NODE_MAX_PARAMETERS];
        const int all = node_parameters(&g->nodes[n], used);
        for (int i = 0; i < all; i++) {
            count += used[i] == parameter ? 1 : 0;
        }
    }
    return count;
}

/* Whether a node may stand in the place of another: same kind, other parameters of the same shapes.
 */
static bool is_alike(const graph *g, const node *a, const node *b)
{
    int of_a[NODE_MAX_PARAMETERS];
    int of_b[NODE_MAX_PARAMETERS];
    const int count = node_parameters(a, of_a);
    bool alike = a->kind == b->kind && a->block == b->block && node_parameters(b, of_b) == count;
    for (int i = 0; alike && i < count; i++) {
        const graph_parameter *p = &g->parameters[of_a[i]];
        const graph_parameter *q = &g->parameters[of_b[i]];
        alike = p->rank == q->rank && memcmp(p->shape, q->shape, sizeof p->shape) == 0 &&
                (a == b || p != q);
    }
    return alike;
}

/* Whether the nodes from `first` on take the rows of `branch`, and put them into `sum`. */
static bool is_branch(const graph *g, const branch_list *list, int64_t branch, int sum)
{
    const int first = first_of(list, branch);
    if (first + list->length > g->node_count) {
        return false;
    }
    const node *take = &g->nodes[first];
    const node *put = &g->nodes[first + list->length - 1];
    const int shares = g->nodes[list->route].output;
    bool fits = operator_of(take)->rows == ROWS_TAKEN && operator_of(put)->rows == ROWS_PUT &&
                take->inputs[0] == g->nodes[list->router].inputs[0] && take->inputs[1] == shares &&
                put->inputs[1] == shares && take->share == branch && put->share == branch &&
                put->inputs[2] == sum && g->value_source[put->inputs[0]] > first;
    for (int i = 0; fits && i < list->length; i++) {
        const int output = g->nodes[first + i].output;
        fits = is_alike(g, &g->nodes[list->begin + i], &g->nodes[first + i]) &&
               (i == list->length - 1 || g->last_use[output] < first + list->length);
    }
    return fits;
}

static int length_of(const graph *g, int begin)
{
    int end = begin;
    while (end < g->node_count && operator_of(&g->nodes[end])->rows != ROWS_PUT) {
        end++;
    }
    return end - begin + 1;
}

bool branches_of_router(const graph *g, int router, branch_list *out)
{
    const node *linear = &g->nodes[router];
    const int route = node_is_linear(linear) ? graph_sole_reader(g, linear->output) : GRAPH_NONE;
    if (route == GRAPH_NONE || !node_routes_freely(&g->nodes[route]) ||
        route + 1 >= g->node_count || readers_of(g, linear->weight) != 1) {
        return false;
    }
    branch_list list = {.router = router,
                        .route = route,
                        .begin = route + 1,
                        .length = length_of(g, route + 1),
                        .count = (int)g->parameters[linear->weight].shape[0]};
    if (list.begin + list.length > g->node_count) {
        return false;
    }
    int sum = g->nodes[branch_put(&list, 0)].inputs[2];
    bool fits = list.count > 1;
    for (int b = 0; fits && b < list.count; b++) {
        fits = is_branch(g, &list, b, sum);
        sum = fits ? g->nodes[branch_put(&list, b)].output : sum;
    }
    *out = list;
    return fits && g->last_use[g->nodes[route].output] <= branch_put(&list, list.count - 1);
}

int64_t branch_elements(const graph *g, const branch_list *list)
{
    int64_t total = 0;
    for (int n = list->begin; n < list->begin + list->length; n++) {
        int used[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&g->nodes[n], used);
        for (int i = 0; i < count; i++) {
            int64_t elements = 1;
            for (int d = 0; d < g->parameters[used[i]].rank; d++) {
                elements *= g->parameters[used[i]].shape[d];
            }
            total += elements;
        }
    }
    return total;
}

/* From the last to the first, since the nodes behind a branch get other indices. */
grail_status branches_drop(graph *g, const branch_list *list, int64_t kept)
{
    for (int64_t b = list->count - 1; b >= kept; b--) {
        const int sum = g->nodes[branch_put(list, b)].inputs[2];
        CHECK(graph_bypass(g, first_of(list, b), first_of(list, b + 1), sum));
    }
    return GRAIL_OK;
}
