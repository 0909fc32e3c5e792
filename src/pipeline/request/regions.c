#include "pipeline/request/regions.h"

#include "graph/operators.h"

grail_status regions_hide(const graph *g, int begin, int end, bool **hidden, int *first)
{
    grail_status status = GRAIL_OK;
    bool *reached = NULL; /* of values: a parameter is before it */
    int regions = 0;
    *first = 0;
    *hidden = NULL;
    TRY(memory_new(&reached, (size_t)g->value_count, sizeof reached[0]));
    TRY(memory_new(hidden, (size_t)g->value_count, sizeof(*hidden)[0]));
    for (int i = 0; i < end; i++) {
        const node *n = &g->nodes[i];
        int used[NODE_MAX_PARAMETERS];
        bool before = false;
        bool behind = false;
        for (int k = 0; k < n->input_count; k++) {
            before = before || reached[n->inputs[k]];
            behind = behind || (*hidden)[n->inputs[k]];
        }
        regions += n->kind == NODE_OPAQUE ? 1 : 0;
        const bool stops = n->kind == NODE_OPAQUE && before;
        *first = stops && *first == 0 ? regions : *first;
        reached[n->output] = i >= begin && (before || node_parameters(n, used) > 0);
        (*hidden)[n->output] = behind || stops;
    }
out:
    memory_free(reached);
    return status;
}

/* No whole gradient comes from what these nodes give on, which `end` follows, or the outputs. */
static grail_status find_stop(const graph *g, int begin, int end, bool to_outputs, int *first)
{
    bool *hidden = NULL;
    grail_status status = regions_hide(g, begin, end, &hidden, first);
    bool all = true;
    for (int i = 0; status == GRAIL_OK && to_outputs && i < g->output_count; i++) {
        all = all && hidden[g->outputs[i].value];
    }
    *first = all ? *first : 0;
    memory_free(hidden);
    return status;
}

static const region *region_of(const graph *g, int number)
{
    for (int i = 0; i < g->node_count; i++) {
        if (g->nodes[i].kind == NODE_OPAQUE && --number == 0) {
            return g->nodes[i].region;
        }
    }
    return NULL;
}

static grail_status refuse(const graph *g, int number, const char *remedy)
{
    return number == 0 ? GRAIL_OK
                       : error_set(GRAIL_ERROR_UNSUPPORTED,
                                   "no gradient goes through %s, which ONNX Runtime computes, to "
                                   "the weights before it: %s",
                                   region_name(region_of(g, number)), remedy);
}

/* Choices and regional trainings take gradients of each block. */
static bool trains_each(const cutting *cut)
{
    bool any = cut->plan->compensation.regional_training;
    for (int i = 0; i < cut->plan->count && !any; i++) {
        any = (site_decision_needs(cut->plan, i, cut_site(cut, i)) & NEEDS_GRADIENTS) != 0;
    }
    return any;
}

static grail_status refuse_gradients(const cutting *cut, const heal_options *heal)
{
    const graph *g = cut->graph;
    int stop = 0;
    int healed = 0; /* blocks */
    int last_stop = 0;
    for (int block = 0; block < g->block_count; block++) {
        int begin = 0;
        int end = 0;
        graph_block_range(g, block, &begin, &end);
        CHECK(find_stop(g, begin, end, false, &stop));
        healed += stop == 0 ? 1 : 0;
        last_stop = stop == 0 ? last_stop : stop;
        CHECK(trains_each(cut) ? refuse(g, stop, "choose by a selector without gradients")
                               : GRAIL_OK);
    }
    if (cuts_take_metric(cut)) {
        CHECK(find_stop(g, 0, g->node_count, false, &stop));
        CHECK(refuse(g, stop, "choose by a metric without gradients"));
    }
    if (heal->network) {
        CHECK(find_stop(g, 0, g->node_count, true, &stop));
        CHECK(refuse(g, stop,
                     "every output is behind it; heal blocks, of which those without such nodes "
                     "are trained"));
    }
    return heal->blocks && healed == 0
               ? refuse(g, last_stop, "no block is without such nodes, so that none can be healed")
               : GRAIL_OK;
}

/* The last node that a run comes to: a map that is fitted, or a norm that is repaired. */
static int last_node(const cutting *cut)
{
    const graph *g = cut->graph;
    int last = 0;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        const bool is_refitted = node_is_map(n) && plan_refits(cut->plan);
        last = is_refitted || (cut->plan->repair && node_has_moments(n)) ? i : last;
    }
    for (int i = 0; i < cut->plan->count; i++) {
        const site *s = cut_site(cut, i);
        for (int k = 0; k < s->consumer_count && site_is_cut(cut->plan, i); k++) {
            last = s->consumers[k].node > last ? s->consumers[k].node : last;
        }
    }
    return last;
}

grail_status regions_check(const cutting *cut, const heal_options *heal, bool judges,
                           bool sees_samples)
{
    const graph *g = cut->graph;
    const bool to_end = judges || heal->blocks || heal->network;
    const int end = !sees_samples ? 0 : to_end ? g->node_count : last_node(cut);
    CHECK(refuse_gradients(cut, heal));
    for (int i = 0; i < end; i++) {
        if (g->nodes[i].kind == NODE_OPAQUE) {
            CHECK(region_start(g->nodes[i].region));
        }
    }
    return GRAIL_OK;
}
