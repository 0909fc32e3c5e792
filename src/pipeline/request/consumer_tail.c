#include "pipeline/request/consumer_tail.h"

#include "graph/operators.h"

/* Whether a node multiplies `value` by one factor for each row, which is there before the consumer.
 */
static bool is_row_factor(const graph *g, const node *n, int value, int consumer)
{
    if (operator_of(n)->axis != AXIS_JOINS || !n->repeats_second || n->inputs[0] != value) {
        return false;
    }
    int source = g->value_source[n->inputs[1]];
    bool one = source != GRAPH_NONE && source < consumer;
    while (one && operator_of(&g->nodes[source])->axis == AXIS_CARRIES) {
        source = g->value_source[g->nodes[source].inputs[0]];
        one = source != GRAPH_NONE;
    }
    return one && node_is_linear(&g->nodes[source]) &&
           g->parameters[g->nodes[source].weight].shape[0] == 1;
}

consumer_tail consumer_tail_of(const graph *g, int consumer)
{
    consumer_tail tail = {.batch_norm = GRAPH_NONE,
                          .row_norm = GRAPH_NONE,
                          .scale = GRAPH_NONE,
                          .put = GRAPH_NONE,
                          .factor = GRAPH_NONE,
                          .skip = GRAPH_NONE};
    int value = g->nodes[consumer].output;
    int next = graph_sole_reader(g, value);
    if (next != GRAPH_NONE && operator_of(&g->nodes[next])->rows == ROWS_PUT) {
        tail.put = next;
        tail.skip = g->nodes[next].inputs[2];
        return tail;
    }
    if (next != GRAPH_NONE && is_row_factor(g, &g->nodes[next], value, consumer)) {
        tail.factor = g->nodes[next].inputs[1];
        value = g->nodes[next].output;
        next = graph_sole_reader(g, value);
    }
    if (next != GRAPH_NONE && node_has_moments(&g->nodes[next])) {
        tail.batch_norm = next;
    } else if (next != GRAPH_NONE && operator_of(&g->nodes[next])->keeps_zeros) {
        tail.row_norm = next;
    } else if (next != GRAPH_NONE && node_scales_channels(&g->nodes[next])) {
        tail.scale = next;
    }
    if (tail.batch_norm != GRAPH_NONE || tail.row_norm != GRAPH_NONE || tail.scale != GRAPH_NONE) {
        value = g->nodes[next].output;
        next = graph_sole_reader(g, value);
    }
    if (next != GRAPH_NONE && node_is_sum(&g->nodes[next])) {
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

bool map_is_fitted_by_tap(const compensation *how, const node *n)
{
    return how->conv_fit == CONV_FIT_KERNEL && node_fits_taps(n);
}

bool consumer_fits_bias(const graph *g, const compensation *how, int consumer)
{
    return how->enabled && how->bias != BIAS_OFF &&
           consumer_bias_slot(g, consumer).parameter != GRAPH_NONE;
}
