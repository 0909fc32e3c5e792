#include "pipeline/request/consumer_tail.h"

/* The only reader of a value, if it is the node right behind or a later one; GRAPH_NONE when there
 * are several or none. */
static int sole_reader(const graph *g, int value)
{
    int reader = GRAPH_NONE;
    for (int i = g->value_source[value] + 1; i <= g->last_use[value] && i < g->node_count; i++) {
        for (int k = 0; k < g->nodes[i].input_count; k++) {
            if (g->nodes[i].inputs[k] == value) {
                if (reader != GRAPH_NONE) {
                    return GRAPH_NONE;
                }
                reader = i;
            }
        }
    }
    return g->last_use[value] == g->node_count ? GRAPH_NONE : reader;
}

consumer_tail consumer_tail_of(const graph *g, int consumer)
{
    consumer_tail tail = {.batch_norm = GRAPH_NONE, .skip = GRAPH_NONE};
    int value = g->nodes[consumer].output;
    int next = sole_reader(g, value);
    if (next != GRAPH_NONE && g->nodes[next].kind == NODE_BATCH_NORM) {
        tail.batch_norm = next;
        value = g->nodes[next].output;
        next = sole_reader(g, value);
    }
    if (next != GRAPH_NONE && g->nodes[next].kind == NODE_ADD) {
        const int *inputs = g->nodes[next].inputs;
        const int other = inputs[0] == value ? inputs[1] : inputs[0];
        if (other != g->input && g->value_source[other] < consumer) {
            tail.skip = other;
        }
    }
    return tail;
}

bias_slot consumer_bias_slot(const graph *g, int consumer)
{
    const int bias = g->nodes[consumer].bias;
    const int next = consumer_tail_of(g, consumer).batch_norm;
    if (bias != GRAPH_NONE) {
        return (bias_slot){.parameter = bias, .sign = 1.0};
    }
    if (next != GRAPH_NONE) {
        return (bias_slot){.parameter = g->nodes[next].mean, .sign = -1.0};
    }
    return (bias_slot){.parameter = GRAPH_NONE};
}
