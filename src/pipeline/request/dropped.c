#include "pipeline/request/dropped.h"

#include "pipeline/request/consumer_tail.h"

static grail_status check_site(const grail_model *model, const site *s)
{
    sublayer found;
    if (!sublayer_of(model->graph, s, &found)) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "site '%s' keeps 0 units, but it is not alone in a sublayer that is added "
            "to a residual stream, so nothing could stand in its place; keep 1 or more",
            s->name);
    }
    if (model->architecture->rename_tensor == NULL) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "site '%s' keeps 0 units, but a checkpoint of a %s network cannot say that "
            "a block lacks a sublayer; keep 1 or more",
            s->name, model->architecture->name);
    }
    return GRAIL_OK;
}

grail_status dropped_check(const grail_model *model, const site_list *sites, const plan *p)
{
    sublayer found;
    int dropped = 0;
    int all = 0;
    for (int i = 0; i < sites->count; i++) {
        all += sublayer_of(model->graph, &sites->sites[i], &found) ? 1 : 0;
        if (site_is_dropped(p, i)) {
            CHECK(check_site(model, &sites->sites[i]));
            dropped++;
        }
    }
    if (dropped > 0 && dropped == all) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "the plan drops all %d sublayers, and a network without layers cannot be stored; keep "
            "one",
            all);
    }
    return GRAIL_OK;
}

void dropped_settle(const graph *g, const site_list *sites, plan *p)
{
    sublayer found;
    for (int d = 0; d < sites->count; d++) {
        const bool drops = site_is_dropped(p, d) && sublayer_of(g, &sites->sites[d], &found);
        for (int i = 0; drops && i < sites->count; i++) {
            const int first = sites->sites[i].producers[0].node;
            if (i != d && first >= found.begin && first < found.add) {
                plan_site_leave(&p->sites[i]);
            }
        }
    }
}

/* From the last to the first, since the nodes behind a sublayer get other indices. */
grail_status dropped_take_out(const graph *dense, const site_list *sites, const plan *p, graph *g)
{
    sublayer found;
    for (int i = sites->count - 1; i >= 0; i--) {
        const site *s = &sites->sites[i];
        if (site_is_dropped(p, i) && sublayer_of(g, s, &found)) {
            CHECK(graph_drop_sublayer(g, &found));
        } else if (s->kind == SITE_EXPERTS && site_is_cut(p, i)) {
            const branch_list branches = site_branches(dense, s);
            CHECK(branches_drop(g, &branches, p->sites[i].kept));
        }
    }
    return GRAIL_OK;
}

/* Whether a dropped sublayer begins with this node; *out is the sublayer. */
static bool begins_dropped(const graph *g, const site_list *sites, const plan *p, int node_index,
                           sublayer *out)
{
    for (int i = 0; i < sites->count; i++) {
        if (site_is_dropped(p, i) && sublayer_of(g, &sites->sites[i], out) &&
            out->begin == node_index) {
            return true;
        }
    }
    return false;
}

/* Through a norm the stream is on another scale, so nothing is aimed at behind it. */
stream_goal dropped_goal_of(const graph *g, const site_list *sites, const plan *p, int consumer)
{
    stream_goal goal = {.value = GRAPH_NONE};
    sublayer next;
    const consumer_tail tail = consumer_tail_of(g, consumer);
    const int add = graph_sole_reader(g, g->nodes[consumer].output);
    if (tail.skip == GRAPH_NONE || tail.put != GRAPH_NONE || tail.batch_norm != GRAPH_NONE ||
        tail.row_norm != GRAPH_NONE || tail.scale != GRAPH_NONE || add != consumer + 1) {
        return goal;
    }
    int reached = g->nodes[add].output;
    int end = add + 1;
    while (begins_dropped(g, sites, p, end, &next) && next.input == reached) {
        reached = next.output;
        end = next.add + 1;
        goal = (stream_goal){.value = reached, .end = end};
    }
    return goal;
}

void dropped_mark(const graph *g, const site_list *sites, const plan *p, bool *nodes)
{
    sublayer found = {0};
    for (int i = 0; i < sites->count; i++) {
        const bool dropped = site_is_dropped(p, i) && sublayer_of(g, &sites->sites[i], &found);
        for (int n = found.begin; dropped && n <= found.add; n++) {
            nodes[n] = true;
        }
    }
}

int dropped_number_blocks(const graph *narrowed, int *numbers)
{
    int left = 0;
    for (int block = 0; block < narrowed->block_count; block++) {
        int begin = 0;
        int end = 0;
        graph_block_range(narrowed, block, &begin, &end);
        numbers[block] = begin < end ? left++ : GRAPH_NONE;
    }
    return left;
}
