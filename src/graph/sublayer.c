#include "graph/sublayer.h"

#include "graph/operators.h"

/* The first of the nodes up to `last` whose values reach nothing but node `last`. */
static int first_node(const graph *g, int last)
{
    int begin = last;
    while (begin > 0 && g->nodes[begin - 1].block == g->nodes[last].block &&
           g->last_use[g->nodes[begin - 1].output] <= last) {
        begin--;
    }
    return begin;
}

static bool reads_only(const graph *g, const sublayer *s)
{
    for (int n = s->begin; n < s->add; n++) {
        for (int i = 0; i < g->nodes[n].input_count; i++) {
            const int value = g->nodes[n].inputs[i];
            if (value != s->input && (value == g->input || g->value_source[value] < s->begin)) {
                return false;
            }
        }
    }
    return true;
}

static bool is_inside(const sublayer *s, int node_index)
{
    return node_index >= s->begin && node_index < s->add;
}

/* Whether a node outside reads a parameter of node `owner`. */
static bool shares_parameters(const graph *g, const sublayer *s, int owner)
{
    int own[NODE_MAX_PARAMETERS];
    const int count = node_parameters(&g->nodes[owner], own);
    for (int n = 0; n < g->node_count; n++) {
        int other[NODE_MAX_PARAMETERS];
        const int others = is_inside(s, n) ? 0 : node_parameters(&g->nodes[n], other);
        for (int i = 0; i < count * others; i++) {
            if (own[i / others] == other[i % others]) {
                return true;
            }
        }
    }
    return false;
}

static bool is_closed(const graph *g, const site *of, const sublayer *s)
{
    for (int p = 0; p < of->producer_count; p++) {
        if (!is_inside(s, of->producers[p].node)) {
            return false;
        }
    }
    for (int n = s->begin; n < s->add; n++) {
        if (shares_parameters(g, s, n)) {
            return false;
        }
    }
    return reads_only(g, s);
}

/* The last node before the sum: the consumer, or the norm behind it. */
static int last_node(const graph *g, int consumer)
{
    const int next = graph_sole_reader(g, g->nodes[consumer].output);
    const bool is_norm = next == consumer + 1 && g->nodes[next].block == g->nodes[consumer].block &&
                         operator_of(&g->nodes[next])->keeps_zeros;
    return is_norm ? next : consumer;
}

bool sublayer_of(const graph *g, const site *s, sublayer *out)
{
    if (s->consumer_count != 1 || s->is_part || s->kind == SITE_VALUES ||
        s->kind == SITE_GROUPS) { /* other sites stand for it */
        return false;
    }
    const int last = last_node(g, s->consumers[0].node);
    const int made = g->nodes[last].output;
    const int add = graph_sole_reader(g, made);
    if (add != last + 1 || !node_is_sum(&g->nodes[add]) ||
        g->nodes[add].block != g->nodes[last].block) {
        return false;
    }
    const int *summed = g->nodes[add].inputs;
    const sublayer found = {.begin = first_node(g, last),
                            .add = add,
                            .input = summed[0] == made ? summed[1] : summed[0],
                            .output = g->nodes[add].output};
    if (found.input == made || !is_closed(g, s, &found)) {
        return false;
    }
    *out = found;
    return true;
}

grail_status graph_drop_sublayer(graph *g, const sublayer *s)
{
    return graph_bypass(g, s->begin, s->add + 1, s->input);
}
