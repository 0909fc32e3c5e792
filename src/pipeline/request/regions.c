#include "pipeline/request/regions.h"

#include "graph/operators.h"

#include <string.h>

/* Whether gradients of parameters are asked for at all, and whether they go through several blocks.
 */
static bool trains(const cutting *cut, const heal_options *heal, bool *across)
{
    bool any = heal->blocks || heal->network || cut->plan->compensation.regional_training;
    *across = heal->network || (heal->blocks && heal->chosen.group > 1);
    for (int i = 0; i < cut->plan->count; i++) {
        const site *s = cut_site(cut, i);
        *across = *across || site_takes_metric(cut->plan, i, s);
        any = any || *across || (site_decision_needs(cut->plan, i, s) & NEEDS_GRADIENTS) != 0;
    }
    return any;
}

/* A region may not lie behind parameters that have gradients. */
static grail_status refuse_gradients(const graph *g, bool across)
{
    grail_status status = GRAIL_OK;
    bool *reached = NULL; /* of values: a parameter is before it, of the same block at least */
    TRY(memory_new(&reached, (size_t)g->value_count, sizeof reached[0]));
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        int used[NODE_MAX_PARAMETERS];
        bool any = node_parameters(n, used) > 0;
        if (!across && i > 0 && n->block != g->nodes[i - 1].block) {
            memset(reached, 0, (size_t)g->value_count * sizeof reached[0]);
        }
        for (int k = 0; k < n->input_count; k++) {
            any = any || reached[n->inputs[k]];
        }
        if (any && n->kind == NODE_OPAQUE) {
            FAIL(GRAIL_ERROR_UNSUPPORTED,
                 "no gradient goes through %s, which ONNX Runtime computes, to the weights before "
                 "it: heal no more than blocks that it lies between, and choose by a selector "
                 "without gradients",
                 region_name(n->region));
        }
        reached[n->output] = any;
    }
out:
    memory_free(reached);
    return status;
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
    bool across = false;
    if (trains(cut, heal, &across)) {
        CHECK(refuse_gradients(g, across));
    }
    for (int i = 0; i < end; i++) {
        if (g->nodes[i].kind == NODE_OPAQUE) {
            CHECK(region_start(g->nodes[i].region));
        }
    }
    return GRAIL_OK;
}
