#include "pipeline/network/refits.h"

#include "base/memory.h"
#include "graph/operators.h"
#include "pipeline/request/dropped.h"
#include "pipeline/request/experts.h"

#include <math.h>

static bool is_cut_consumer(const cutting *cut, const node *n)
{
    return node_is_map(n) && cut->axes[n->weight].columns.site != GRAPH_NONE;
}

static bool is_shared(const graph *g, int weight)
{
    int users = 0;
    for (int i = 0; i < g->node_count; i++) {
        users += g->nodes[i].weight == weight ? 1 : 0;
    }
    return users > 1;
}

/* Whether the node reads a value that drifted. */
static bool reads_drift(const node *n, const bool *drifts)
{
    bool found = false;
    for (int i = 0; i < n->input_count; i++) {
        found = found || drifts[n->inputs[i]];
    }
    return found;
}

static bool precedes_dropped(const cutting *cut, int node_index)
{
    return dropped_goal_of(cut->graph, cut->sites, cut->plan, node_index).value != GRAPH_NONE;
}

static grail_status find_wanted(const cutting *cut, bool drifts_by_rounding, bool *wanted,
                                bool *needed)
{
    grail_status status = GRAIL_OK;
    const graph *g = cut->graph;
    const bool refits = plan_refits(cut->plan);
    bool *drifts = NULL;
    bool *dropped = NULL;
    expert_part *parts = NULL;
    TRY(memory_new(&drifts, (size_t)g->value_count, sizeof drifts[0]));
    TRY(memory_new(&dropped, (size_t)g->node_count, sizeof dropped[0]));
    TRY(memory_new(&parts, (size_t)g->node_count, sizeof parts[0]));
    dropped_mark(g, cut->sites, cut->plan, dropped);
    experts_mark(g, cut->sites, cut->plan, parts);
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        const bool changes = is_cut_consumer(cut, n) || dropped[i] || parts[i] == EXPERT_PUTS ||
                             node_passes_groups(g, cut->axes, n);
        const bool drifting = reads_drift(n, drifts);
        const bool in_block = n->block >= 0 && n->block < g->block_count;
        const bool may = node_is_map(n) && !changes && in_block && parts[i] != EXPERT_GOES &&
                         !is_shared(g, n->weight);
        needed[i] = may && (parts[i] == EXPERT_MAKES_UP || (refits && precedes_dropped(cut, i)));
        wanted[i] = may && ((refits && drifting) || needed[i]);
        drifts[n->output] = drifting || changes || drifts_by_rounding;
    }
out:
    memory_free(drifts);
    memory_free(dropped);
    memory_free(parts);
    return status;
}

grail_status refits_init(const cutting *cut, bool drifts_by_rounding, refit_list *out)
{
    const size_t nodes = (size_t)cut->graph->node_count;
    CHECK(memory_new(&out->wanted, nodes, sizeof out->wanted[0]));
    CHECK(memory_new(&out->needed, nodes, sizeof out->needed[0]));
    out->pauses = cut->plan->compensation.refit == REFIT_AUTO;
    if (cut->plan->compensation.enabled && cut->plan->loop == LOOP_CLOSED) {
        CHECK(find_wanted(cut, drifts_by_rounding, out->wanted, out->needed));
    }
    return GRAIL_OK;
}

void refits_fini(refit_list *list)
{
    memory_free(list->wanted);
    memory_free(list->needed);
    memory_free(list->made);
    *list = (refit_list){0};
}

grail_status refits_add(refit_list *list, int block, const grail_fit *fit)
{
    CHECK(memory_reserve(&list->made, (size_t)list->count + 1, sizeof list->made[0]));
    list->made[list->count++] = (refit){.block = block, .fit = *fit};
    return GRAIL_OK;
}

/* Whether the refits of one block, made[first, end), gained too little to go on: the share of the
 * held-out errors that they took away. Without a held-out part nothing says so. */
static bool gained_little(const refit_list *list, int first, int end)
{
    static const double least_share = 0.02;
    double before = 0.0;
    double after = 0.0;
    for (int i = first; i < end; i++) {
        const grail_fit *fit = &list->made[i].fit;
        before += isnan(fit->held_before) ? 0.0 : fit->held_before;
        after += isnan(fit->held_after) ? 0.0 : fit->held_after;
    }
    return before - after < least_share * before;
}

bool refits_due(const refit_list *list, int node_index, int block)
{
    int useless = 0;
    int last = block;
    for (int first = 0, end = 0; first < list->count && list->made[first].block < block;
         first = end) {
        last = list->made[first].block;
        for (end = first; end < list->count && list->made[end].block == last; end++) {
        }
        useless = gained_little(list, first, end) ? useless + 1 : 0;
    }
    const bool rests = useless >= 2 && (useless > 30 || block - last <= 1 << (useless - 1));
    return list->wanted[node_index] && (list->needed[node_index] || !list->pauses || !rests);
}
