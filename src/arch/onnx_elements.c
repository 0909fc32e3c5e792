/* Nodes that work on each element alone, or on those of one channel. */
#include "arch/onnx_arguments.h"
#include "arch/onnx_nodes.h"
#include "graph/operators.h"

#include <math.h>

grail_status onnx_read_batch_norm(onnx_reading *r)
{
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    node n = onnx_plain(NODE_BATCH_NORM, x, NULL);
    n.norm.epsilon = onnx_real_of(r, "epsilon", 1e-5);
    if (onnx_integer_of(r, "training_mode", 0) != 0 || r->node->node.output_count != 1) {
        return onnx_misfit("is of training; export the network for inference");
    }
    CHECK(onnx_add_vector(r, 1, x->width, false, &n.weight));
    CHECK(onnx_add_vector(r, 2, x->width, false, &n.bias));
    CHECK(onnx_add_vector(r, 3, x->width, false, &n.mean));
    CHECK(onnx_add_vector(r, 4, x->width, false, &n.variance));
    return onnx_give_node(r, &n, *x);
}

static grail_status add_activation(onnx_reading *r, activation_kind kind)
{
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    node n = onnx_plain(NODE_ACTIVATION, x, NULL);
    n.activation = kind;
    return onnx_give_node(r, &n, *x);
}

grail_status onnx_read_relu(onnx_reading *r)
{
    return add_activation(r, ACTIVATION_RELU);
}

grail_status onnx_read_sigmoid(onnx_reading *r)
{
    return add_activation(r, ACTIVATION_SIGMOID);
}

grail_status onnx_read_gelu(onnx_reading *r)
{
    return add_activation(r, onnx_text_is(r, "approximate", "tanh") ? ACTIVATION_GELU_TANH
                                                                    : ACTIVATION_GELU);
}

grail_status onnx_read_hard_sigmoid(onnx_reading *r)
{
    const bool is_usual = fabs(onnx_real_of(r, "alpha", 0.2) - 1.0 / 6.0) < 1e-6 &&
                          onnx_real_of(r, "beta", 0.5) == 0.5;
    return is_usual ? add_activation(r, ACTIVATION_HARD_SIGMOID)
                    : onnx_misfit("has another slope than 1/6, for which grail has no row");
}

/* x * hard_sigmoid(x) */
grail_status onnx_read_hard_swish(onnx_reading *r)
{
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    onnx_known gate = *x;
    node n = onnx_plain(NODE_ACTIVATION, x, NULL);
    n.activation = ACTIVATION_HARD_SIGMOID;
    CHECK(graph_add_node(r->g, &n, &gate.value));
    n = onnx_plain(NODE_MULTIPLY, x, &gate);
    return onnx_give_node(r, &n, *x);
}

grail_status onnx_read_clip(onnx_reading *r)
{
    onnx_known *x = NULL;
    double low = 0.0;
    double high = 0.0;
    bool has_low = false;
    bool has_high = false;
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(onnx_number_of(r, "min", 1, &has_low, &low));
    CHECK(onnx_number_of(r, "max", 2, &has_high, &high));
    if (!has_low || !has_high || !isfinite(low) || !isfinite(high) || low > high) {
        return has_low && !has_high && low == 0.0
                   ? onnx_read_relu(r)
                   : onnx_misfit("has no lower or no upper bound, or a larger lower one");
    }
    if (low == 0.0 && high == 6.0) {
        return add_activation(r, ACTIVATION_RELU6);
    }
    node n = onnx_plain(NODE_CLAMP, x, NULL);
    n.clamp = (clamp_attributes){.low = low, .high = high};
    return onnx_give_node(r, &n, *x);
}

/* A vector that is added to what a Linear without a bias makes is its bias. */
static grail_status take_bias(onnx_reading *r, int i)
{
    const onnx_known *x = onnx_known_input(r, 1 - i);
    node *last = r->g->node_count == 0 ? NULL : &r->g->nodes[r->g->node_count - 1];
    if (last == NULL || last->output != x->value || x->rank != FLAT_RANK || !node_is_map(last) ||
        last->bias != GRAPH_NONE || x->readers != 1) {
        return onnx_misfit("adds a constant, for which grail has a row only behind a MatMul");
    }
    CHECK(onnx_add_vector(r, i, x->width, false, &last->bias));
    return onnx_give(r, 0, *x);
}

static grail_status add_pair(onnx_reading *r, node_kind kind)
{
    onnx_known *x = NULL;
    onnx_known *y = NULL;
    for (int i = 0; kind == NODE_ADD && i < 2; i++) {
        if (onnx_has_input(r, 0) && onnx_has_input(r, 1) && onnx_known_input(r, i)->tensor >= 0) {
            return take_bias(r, i);
        }
    }
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(onnx_value_input(r, 1, &y));
    if (x->rank != y->rank || x->width != y->width) {
        return onnx_misfit("reads %d dimensions of %lld channels and %d of %lld, expected the same",
                           x->rank, (long long)x->width, y->rank, (long long)y->width);
    }
    const bool turns = x->one != y->one ? x->one : y->depth < x->depth;
    node n = turns ? onnx_plain(kind, y, x) : onnx_plain(kind, x, y);
    n.repeats_second = x->one != y->one;
    return onnx_give_node(r, &n, turns ? *y : *x);
}

grail_status onnx_read_add(onnx_reading *r)
{
    return add_pair(r, NODE_ADD);
}

grail_status onnx_read_mul(onnx_reading *r)
{
    return add_pair(r, NODE_MULTIPLY);
}
