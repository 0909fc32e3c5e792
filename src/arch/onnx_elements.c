/* Nodes that work on each element alone, or on those of one channel. */
#include "arch/onnx_arguments.h"
#include "arch/onnx_attention.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_nodes.h"
#include "arch/onnx_products.h"
#include "arch/onnx_tokens.h"

#include <math.h>
#include <string.h>

grail_status onnx_read_batch_norm(onnx_reading *r)
{
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, 0, &x));
    CHECK(onnx_channel_dimension(x) == 1 ? GRAIL_OK : onnx_value_input(r, 0, &x));
    node n = onnx_plain(NODE_BATCH_NORM, x, NULL);
    n.norm.epsilon = onnx_real_of(r, "epsilon", 1e-5);
    if (onnx_integer_of(r, "training_mode", 0) != 0 || r->node->node.output_count != 1) {
        return error_set(GRAIL_ERROR_FORMAT, "is of training; export the network for inference");
    }
    CHECK(onnx_add_vector(r, 1, x->width, false, &n.weight));
    CHECK(onnx_add_vector(r, 2, x->width, false, &n.bias));
    CHECK(onnx_add_vector(r, 3, x->width, false, &n.mean));
    CHECK(onnx_add_vector(r, 4, x->width, false, &n.variance));
    return onnx_give_node(r, &n, *x);
}

/* *x <- a function of its own elements, which the node at hand goes on with. */
static grail_status activate(onnx_reading *r, activation_kind kind, onnx_known *x)
{
    node n = onnx_plain(NODE_ACTIVATION, x, NULL);
    n.activation = kind;
    return graph_add_node(r->g, &n, &x->value);
}

static grail_status add_activation(onnx_reading *r, activation_kind kind)
{
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, 0, &x));
    onnx_known y = *x;
    CHECK(activate(r, kind, &y));
    return onnx_give(r, 0, y);
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

grail_status onnx_read_tanh(onnx_reading *r)
{
    const bool caps = onnx_has_input(r, 0) && onnx_known_input(r, 0)->form == ONNX_SCORES;
    return caps ? onnx_cap_scores(r) : add_activation(r, ACTIVATION_TANH);
}

grail_status onnx_read_erf(onnx_reading *r)
{
    return add_activation(r, ACTIVATION_ERF);
}

grail_status onnx_read_softplus(onnx_reading *r)
{
    return add_activation(r, ACTIVATION_SOFTPLUS);
}

/* min(max(alpha x + beta, 0), 1), of which the activation is that of alpha 1/6 and beta 1/2. */
grail_status onnx_read_hard_sigmoid(onnx_reading *r)
{
    const double alpha = onnx_real_of(r, "alpha", 0.2);
    const double beta = onnx_real_of(r, "beta", 0.5);
    onnx_known *x = NULL;
    if (fabs(alpha - 1.0 / 6.0) < 1e-6 && beta == 0.5) {
        return add_activation(r, ACTIVATION_HARD_SIGMOID);
    }
    CHECK(onnx_any_input(r, 0, &x));
    onnx_known y = *x;
    node n = onnx_plain(NODE_AFFINE, x, NULL);
    n.affine = (affine_attributes){.scale = alpha, .offset = beta};
    CHECK(graph_add_node(r->g, &n, &y.value));
    n = onnx_plain(NODE_CLAMP, &y, NULL);
    n.clamp = (clamp_attributes){.low = 0.0, .high = 1.0};
    return onnx_give_node(r, &n, y);
}

/* x above 0, slope x below */
static grail_status add_slope(onnx_reading *r, onnx_known x, double slope)
{
    node n = onnx_plain(NODE_PRELU, &x, NULL);
    n.slope = slope;
    return onnx_give_node(r, &n, x);
}

grail_status onnx_read_leaky_relu(onnx_reading *r)
{
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, 0, &x));
    return add_slope(r, *x, onnx_real_of(r, "alpha", 0.01));
}

/* x above 0, alpha (exp(x) - 1) below */
grail_status onnx_read_elu(onnx_reading *r)
{
    const double alpha = onnx_real_of(r, "alpha", 1.0);
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, 0, &x));
    onnx_known y = *x;
    CHECK(activate(r, ACTIVATION_ELU, &y));
    return alpha == 1.0 ? onnx_give(r, 0, y) : add_slope(r, y, alpha);
}

grail_status onnx_read_prelu(onnx_reading *r)
{
    bool is_one = false;
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, 0, &x));
    if (!onnx_has_input(r, 1) || onnx_known_input(r, 1)->tensor < 0) {
        return onnx_misfit("its slopes are computed, or missing");
    }
    node n = onnx_plain(NODE_PRELU, x, NULL);
    n.slope = 1.0;
    CHECK(onnx_one_number(r, 1, x, &is_one, &n.slope));
    CHECK(is_one ? GRAIL_OK : onnx_add_channels(r, 1, x, (storage_map){0}, &n.weight));
    return onnx_give_node(r, &n, *x);
}

/* x tanh(softplus(x)) */
grail_status onnx_read_mish(onnx_reading *r)
{
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, 0, &x));
    onnx_known gate = *x;
    CHECK(activate(r, ACTIVATION_SOFTPLUS, &gate));
    CHECK(activate(r, ACTIVATION_TANH, &gate));
    const node n = onnx_plain(NODE_MULTIPLY, x, &gate);
    return onnx_give_node(r, &n, *x);
}

/* x * hard_sigmoid(x) */
grail_status onnx_read_hard_swish(onnx_reading *r)
{
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, 0, &x));
    onnx_known gate = *x;
    CHECK(activate(r, ACTIVATION_HARD_SIGMOID, &gate));
    const node n = onnx_plain(NODE_MULTIPLY, x, &gate);
    return onnx_give_node(r, &n, *x);
}

/* min(max(x, low), high) */
static grail_status add_clamp(onnx_reading *r, onnx_known x, double low, double high)
{
    const bool is_relu = low == 0.0 && (high == HUGE_VAL || high == 6.0);
    node n = onnx_plain(is_relu ? NODE_ACTIVATION : NODE_CLAMP, &x, NULL);
    if (!(low <= high)) {
        return onnx_misfit("has the bounds %g and %g, expected the lower one first", low, high);
    }
    if (is_relu) {
        n.activation = high == 6.0 ? ACTIVATION_RELU6 : ACTIVATION_RELU;
    } else {
        n.clamp = (clamp_attributes){.low = low, .high = high};
    }
    return onnx_give_node(r, &n, x);
}

grail_status onnx_read_clip(onnx_reading *r)
{
    onnx_known *x = NULL;
    double low = 0.0;
    double high = 0.0;
    bool has_low = false;
    bool has_high = false;
    CHECK(onnx_any_input(r, 0, &x));
    CHECK(onnx_number_of(r, "min", 1, &has_low, &low));
    CHECK(onnx_number_of(r, "max", 2, &has_high, &high));
    return add_clamp(r, *x, has_low ? low : -HUGE_VAL, has_high ? high : HUGE_VAL);
}

/* -- a constant and a value -------------------------------------------------------------------- */

/* The first input that is a constant; -1 without, or with fewer inputs than two. */
static int constant_operand(const onnx_reading *r)
{
    for (int i = 0; i < 2 && onnx_has_input(r, 0) && onnx_has_input(r, 1); i++) {
        if (onnx_known_input(r, i)->tensor >= 0) {
            return i;
        }
    }
    return -1;
}

/* How constants and values are put together, by one node of ONNX. */
typedef enum arithmetic { PLUS, MINUS, TIMES, OVER } arithmetic;

/* The node that makes `x`, if what it adds is missing, and nothing else reads what it makes. */
static node *without_bias(const onnx_reading *r, const onnx_known *x)
{
    for (int i = 0; i < r->g->node_count && x->readers == 1; i++) {
        node *n = &r->g->nodes[i];
        const bool adds =
            n->kind == NODE_LINEAR || n->kind == NODE_CONV2D || n->kind == NODE_DEPTHWISE;
        if (n->output == x->value && adds && n->bias == GRAPH_NONE) {
            return n;
        }
    }
    return NULL;
}

/* One number for all: constant `c` is the left operand, 0, or the right one. */
static grail_status set_number(arithmetic how, int c, double value, affine_attributes *a)
{
    switch (how) {
    case PLUS:
        a->offset = value;
        break;
    case MINUS:
        a->offset = c == 0 ? value : -value;
        a->scale = c == 0 ? -1.0 : 1.0;
        break;
    case TIMES:
        a->scale = value;
        break;
    case OVER:
        a->scale = 1.0 / value;
        break;
    }
    return isfinite(a->scale) ? GRAIL_OK : onnx_misfit("divides by %g", value);
}

/* One for each channel. */
static grail_status set_channels(onnx_reading *r, arithmetic how, int c, const onnx_known *x,
                                 node *n)
{
    const storage_map map = {.inverts = how == OVER, .scale = how == MINUS && c == 1 ? -1.0 : 0.0};
    n->affine.scale = how == MINUS && c == 0 ? -1.0 : 1.0;
    return onnx_add_channels(r, c, x, map, how == TIMES || how == OVER ? &n->weight : &n->bias);
}

/* A constant that is added to a value, multiplies it, or is what it is divided by. */
static grail_status add_affine(onnx_reading *r, arithmetic how)
{
    bool is_one = false;
    double value = 0.0;
    onnx_known *x = NULL;
    const int c = constant_operand(r);
    if (c < 0) {
        return onnx_misfit("puts two values together, for which grail has no row yet");
    }
    CHECK(onnx_any_input(r, 1 - c, &x));
    if (how == OVER && c == 0) {
        return onnx_misfit("divides by a value, for which grail has no row");
    }
    node n = onnx_plain(NODE_AFFINE, x, NULL);
    n.affine.scale = 1.0;
    CHECK(onnx_one_number(r, c, x, &is_one, &value));
    CHECK(is_one ? set_number(how, c, value, &n.affine) : set_channels(r, how, c, x, &n));
    /* What a map before it lacks is its bias. */
    node *last = n.bias == GRAPH_NONE || n.affine.scale != 1.0 ? NULL : without_bias(r, x);
    if (last != NULL) {
        last->bias = n.bias;
        return onnx_give(r, 0, *x);
    }
    return onnx_give_node(r, &n, *x);
}

/* The larger or smaller one of a value and a number. */
static grail_status bound_by_number(onnx_reading *r, bool is_least)
{
    bool is_one = false;
    double bound = 0.0;
    onnx_known *x = NULL;
    const int c = constant_operand(r);
    if (c < 0 || r->node->node.input_count != 2) {
        return onnx_misfit("compares values, for which grail has no row");
    }
    CHECK(onnx_any_input(r, 1 - c, &x));
    CHECK(onnx_one_number(r, c, x, &is_one, &bound));
    return is_one ? add_clamp(r, *x, is_least ? bound : -HUGE_VAL, is_least ? HUGE_VAL : bound)
                  : onnx_misfit("compares a value with several numbers");
}

grail_status onnx_read_max(onnx_reading *r)
{
    return bound_by_number(r, true);
}

grail_status onnx_read_min(onnx_reading *r)
{
    return bound_by_number(r, false);
}

/* -- sums and products ------------------------------------------------------------------------- */

/* *x <- its sum with y, or the product; where one of them has one position, with all of the other.
 */
static grail_status join(const onnx_reading *r, node_kind kind, onnx_known *x, const onnx_known *y)
{
    if (x->rank != y->rank || x->width != y->width || !onnx_agree(x, y)) {
        return onnx_misfit("reads %d dimensions of %lld channels and %d of %lld, expected the same",
                           x->rank, (long long)x->width, y->rank, (long long)y->width);
    }
    const bool turns = x->one != y->one ? x->one : y->depth < x->depth;
    node n = turns ? onnx_plain(kind, y, x) : onnx_plain(kind, x, y);
    n.repeats_second = x->one != y->one;
    *x = turns ? *y : *x;
    return graph_add_node(r->g, &n, &x->value);
}

/* All values that the node reads. */
static grail_status join_inputs(onnx_reading *r, node_kind kind)
{
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, 0, &x));
    onnx_known whole = *x;
    for (int i = 1; i < r->node->node.input_count; i++) {
        CHECK(onnx_any_input(r, i, &x));
        CHECK(join(r, kind, &whole, x));
    }
    whole.readers = 0;
    return onnx_give(r, 0, whole);
}

/* The number 0 is added to anything, as exporters do that state scales with offsets. */
static grail_status take_nothing(onnx_reading *r, bool *taken)
{
    const int c = constant_operand(r);
    const onnx_known *x = c < 0 ? NULL : onnx_known_input(r, 1 - c);
    double value = 1.0;
    *taken = false;
    if (x != NULL && (x->form == ONNX_VALUE || x->form == ONNX_SCORES)) {
        CHECK(onnx_one_number(r, c, x, taken, &value));
    }
    *taken = *taken && value == 0.0;
    return *taken ? onnx_give(r, 0, *x) : GRAIL_OK;
}

grail_status onnx_read_add(onnx_reading *r)
{
    bool taken = false;
    CHECK(take_nothing(r, &taken));
    CHECK(taken ? GRAIL_OK : onnx_take_bias(r, &taken));
    return taken                      ? GRAIL_OK
           : onnx_adds_positions(r)   ? onnx_add_positions(r)
           : constant_operand(r) >= 0 ? add_affine(r, PLUS)
                                      : join_inputs(r, NODE_ADD);
}

grail_status onnx_read_sum(onnx_reading *r)
{
    return r->node->node.input_count == 2 ? onnx_read_add(r) : join_inputs(r, NODE_ADD);
}

grail_status onnx_read_mul(onnx_reading *r)
{
    return onnx_scales_heads(r)       ? onnx_scale_heads(r, false)
           : constant_operand(r) >= 0 ? add_affine(r, TIMES)
                                      : join_inputs(r, NODE_MULTIPLY);
}

/* x^2 */
grail_status onnx_read_pow(onnx_reading *r)
{
    bool found = false;
    double power = 0.0;
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, 0, &x));
    CHECK(onnx_number_of(r, "", 1, &found, &power));
    if (power != 2.0) {
        return onnx_misfit("is another power than 2, for which grail has no row");
    }
    const node n = onnx_plain(NODE_MULTIPLY, x, x);
    return onnx_give_node(r, &n, *x);
}

/* A difference of two values is the sum with what is turned round. */
grail_status onnx_read_sub(onnx_reading *r)
{
    onnx_known *x = NULL;
    onnx_known *y = NULL;
    if (constant_operand(r) >= 0) {
        return add_affine(r, MINUS);
    }
    CHECK(onnx_any_input(r, 0, &x));
    CHECK(onnx_any_input(r, 1, &y));
    onnx_known difference = *x;
    onnx_known turned = *y;
    node n = onnx_plain(NODE_AFFINE, y, NULL);
    n.affine.scale = -1.0;
    CHECK(graph_add_node(r->g, &n, &turned.value));
    CHECK(join(r, NODE_ADD, &difference, &turned));
    difference.readers = 0;
    return onnx_give(r, 0, difference);
}

grail_status onnx_read_div(onnx_reading *r)
{
    return onnx_scales_heads(r) ? onnx_scale_heads(r, true) : add_affine(r, OVER);
}
