#include "arch/onnx_nodes.h"

#include "arch/onnx_arguments.h"

#include <math.h>
#include <string.h>

/* -- outputs ----------------------------------------------------------------------------------- */

static grail_status give(const onnx_reading *r, int i, onnx_known like)
{
    const onnx_file_node *n = r->node;
    if (i >= n->node.output_count || n->outputs[i] < 0) {
        return onnx_misfit("has no output %d", i);
    }
    onnx_known *out = &r->values[n->outputs[i]];
    like.readers = out->readers;
    like.depth = out->depth;
    *out = like;
    return GRAIL_OK;
}

/* Output 0 <- a node of the graph, whose other properties are those of its input. */
static grail_status give_node(const onnx_reading *r, const node *n, onnx_known like)
{
    CHECK(graph_add_node(r->g, n, &like.value));
    return give(r, 0, like);
}

static node plain(node_kind kind, const onnx_known *left, const onnx_known *right)
{
    return node_of(kind, GRAPH_NONE, left->value, right == NULL ? GRAPH_NONE : right->value);
}

static grail_status needs_rank(const onnx_known *x, int rank)
{
    return x->rank == rank ? GRAIL_OK
                           : onnx_misfit("reads %d dimensions, expected %s", x->rank,
                                         rank == IMAGE_RANK ? "[N, C, H, W]" : "[N, C]");
}

/* -- operators --------------------------------------------------------------------------------- */

/* out[count] <- an attribute's integers, or the usual one for all. */
static grail_status numbers_of(const onnx_reading *r, const char *name, int count, int64_t usual,
                               int64_t out[ONNX_MOST_AXES])
{
    int given = 0;
    CHECK(onnx_list_of(r, name, 0, &given, out));
    for (int i = given; i < count; i++) {
        out[i] = usual;
    }
    return given == 0 || given == count ? GRAIL_OK
                                        : onnx_misfit("has %d %s, expected %d", given, name, count);
}

static bool axis_is_bounded(const window_axis *a)
{
    const int64_t most = 1 << 20;
    return a->kernel > 0 && a->kernel <= most && a->stride > 0 && a->stride <= most &&
           a->dilation > 0 && a->dilation <= most && a->before >= 0 && a->before <= most &&
           a->behind >= 0 && a->behind <= most;
}

/* Pads so that outputs are as many as inputs, which windows that move by one position can do at any
 * size; the odd one goes behind, or before the input. */
static void pad_to_same(window_axis *a, bool behind)
{
    const int64_t all = a->dilation * (a->kernel - 1);
    a->before = behind ? all / 2 : all - all / 2;
    a->behind = all - a->before;
}

/* Nothing bounds what a file says but that windows fit, which graph_extents checks. */
static grail_status window_of(const onnx_reading *r, int64_t height, int64_t width, window2d *out)
{
    int64_t strides[ONNX_MOST_AXES];
    int64_t dilations[ONNX_MOST_AXES];
    int64_t pads[ONNX_MOST_AXES];
    const bool behind = onnx_text_is(r, "auto_pad", "SAME_UPPER");
    const bool same = behind || onnx_text_is(r, "auto_pad", "SAME_LOWER");
    const bool is_explicit = onnx_node_attribute(r->node, "auto_pad") == NULL ||
                             onnx_text_is(r, "auto_pad", "NOTSET") ||
                             onnx_text_is(r, "auto_pad", "VALID");
    if (!is_explicit && !same) {
        return onnx_misfit("its 'auto_pad' is not known");
    }
    CHECK(numbers_of(r, "strides", 2, 1, strides));
    CHECK(numbers_of(r, "dilations", 2, 1, dilations));
    CHECK(numbers_of(r, "pads", 4, 0, pads));
    *out = (window2d){{height, strides[0], dilations[0], pads[0], pads[2]},
                      {width, strides[1], dilations[1], pads[1], pads[3]},
                      onnx_integer_of(r, "ceil_mode", 0) != 0};
    if (!axis_is_bounded(&out->height) || !axis_is_bounded(&out->width)) {
        return onnx_misfit(
            "has a window that is empty, negative or of more than a million positions");
    }
    if (same && (strides[0] != 1 || strides[1] != 1)) {
        return onnx_misfit("pads by 'auto_pad' and strides, which depends on the size of images; "
                           "export the network with 'pads'");
    }
    if (same) {
        pad_to_same(&out->height, behind);
        pad_to_same(&out->width, behind);
    }
    return GRAIL_OK;
}

static void widen(window_axis *a, int64_t before, int64_t behind)
{
    a->before += before;
    a->behind += behind;
}

static grail_status read_conv(onnx_reading *r)
{
    onnx_known *x = NULL;
    const tensor_view *t = NULL;
    node n;
    CHECK(onnx_padded_input(r, 0, &x));
    CHECK(needs_rank(x, IMAGE_RANK));
    CHECK(onnx_tensor_input(r, 1, IMAGE_RANK, NULL, &t));
    const int64_t groups = onnx_integer_of(r, "group", 1);
    const bool is_depthwise = groups > 1 && groups == x->width && groups == t->shape[0];
    if (groups < 1 || x->width % groups != 0 || t->shape[0] % groups != 0) {
        return onnx_misfit("makes %lld channels of %lld, which are no %lld groups",
                           (long long)t->shape[0], (long long)x->width, (long long)groups);
    }
    if (t->shape[1] != x->width / groups) {
        return onnx_misfit("reads %lld channels in a group, but there are %lld",
                           (long long)t->shape[1], (long long)(x->width / groups));
    }
    onnx_known y = *x;
    n = plain(is_depthwise ? NODE_DEPTHWISE : NODE_CONV2D, x, NULL);
    n.groups = is_depthwise ? 0 : groups;
    CHECK(window_of(r, t->shape[2], t->shape[3], &n.window));
    widen(&n.window.height, x->pads[0], x->pads[2]);
    widen(&n.window.width, x->pads[1], x->pads[3]);
    memset(y.pads, 0, sizeof y.pads);
    CHECK(onnx_add_parameter(r, t, false, &n.weight));
    CHECK(onnx_add_vector(r, 2, t->shape[0], true, &n.bias));
    y.width = t->shape[0];
    const window2d *w = &n.window;
    y.one = x->one && window_taps(w) == 1 &&
            w->height.before + w->height.behind + w->width.before + w->width.behind == 0;
    CHECK(give_node(r, &n, y));
    return is_depthwise ? onnx_note_count(r, "group", 0, 0, x->value) : GRAIL_OK;
}

static grail_status read_batch_norm(onnx_reading *r)
{
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    node n = plain(NODE_BATCH_NORM, x, NULL);
    n.norm.epsilon = onnx_real_of(r, "epsilon", 1e-5);
    if (onnx_integer_of(r, "training_mode", 0) != 0 || r->node->node.output_count != 1) {
        return onnx_misfit("is of training; export the network for inference");
    }
    CHECK(onnx_add_vector(r, 1, x->width, false, &n.weight));
    CHECK(onnx_add_vector(r, 2, x->width, false, &n.bias));
    CHECK(onnx_add_vector(r, 3, x->width, false, &n.mean));
    CHECK(onnx_add_vector(r, 4, x->width, false, &n.variance));
    return give_node(r, &n, *x);
}

static grail_status add_activation(onnx_reading *r, activation_kind kind)
{
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    node n = plain(NODE_ACTIVATION, x, NULL);
    n.activation = kind;
    return give_node(r, &n, *x);
}

static grail_status read_relu(onnx_reading *r)
{
    return add_activation(r, ACTIVATION_RELU);
}

static grail_status read_sigmoid(onnx_reading *r)
{
    return add_activation(r, ACTIVATION_SIGMOID);
}

static grail_status read_gelu(onnx_reading *r)
{
    return add_activation(r, onnx_text_is(r, "approximate", "tanh") ? ACTIVATION_GELU_TANH
                                                                    : ACTIVATION_GELU);
}

static grail_status read_hard_sigmoid(onnx_reading *r)
{
    const bool is_usual = fabs(onnx_real_of(r, "alpha", 0.2) - 1.0 / 6.0) < 1e-6 &&
                          onnx_real_of(r, "beta", 0.5) == 0.5;
    return is_usual ? add_activation(r, ACTIVATION_HARD_SIGMOID)
                    : onnx_misfit("has another slope than 1/6, for which grail has no row");
}

/* x * hard_sigmoid(x) */
static grail_status read_hard_swish(onnx_reading *r)
{
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    onnx_known gate = *x;
    node n = plain(NODE_ACTIVATION, x, NULL);
    n.activation = ACTIVATION_HARD_SIGMOID;
    CHECK(graph_add_node(r->g, &n, &gate.value));
    n = plain(NODE_MULTIPLY, x, &gate);
    return give_node(r, &n, *x);
}

static grail_status read_clip(onnx_reading *r)
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
                   ? read_relu(r)
                   : onnx_misfit("has no lower or no upper bound, or a larger lower one");
    }
    if (low == 0.0 && high == 6.0) {
        return add_activation(r, ACTIVATION_RELU6);
    }
    node n = plain(NODE_CLAMP, x, NULL);
    n.clamp = (clamp_attributes){.low = low, .high = high};
    return give_node(r, &n, *x);
}

/* A vector that is added to what a Linear without a bias makes is its bias. */
static grail_status take_bias(onnx_reading *r, int i)
{
    const onnx_known *x = onnx_known_input(r, 1 - i);
    node *last = r->g->node_count == 0 ? NULL : &r->g->nodes[r->g->node_count - 1];
    if (last == NULL || last->output != x->value || last->kind != NODE_LINEAR ||
        last->bias != GRAPH_NONE || x->readers != 1) {
        return onnx_misfit("adds a constant, for which grail has a row only behind a MatMul");
    }
    CHECK(onnx_add_vector(r, i, x->width, false, &last->bias));
    return give(r, 0, *x);
}

static grail_status read_pair(onnx_reading *r, node_kind kind)
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
    node n = turns ? plain(kind, y, x) : plain(kind, x, y);
    n.repeats_second = x->one != y->one;
    return give_node(r, &n, turns ? *y : *x);
}

static grail_status read_add(onnx_reading *r)
{
    return read_pair(r, NODE_ADD);
}

static grail_status read_mul(onnx_reading *r)
{
    return read_pair(r, NODE_MULTIPLY);
}

static grail_status add_pool(onnx_reading *r, node_kind kind)
{
    onnx_known *x = NULL;
    int count = 0;
    int64_t kernel[ONNX_MOST_AXES];
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(needs_rank(x, IMAGE_RANK));
    CHECK(onnx_list_of(r, "kernel_shape", 0, &count, kernel));
    node n = plain(kind, x, NULL);
    if (count != 2 || r->node->node.output_count != 1) {
        return onnx_misfit("is no pooling over windows of two dimensions alone");
    }
    CHECK(window_of(r, kernel[0], kernel[1], &n.window));
    if (kind == NODE_AVERAGE_POOL &&
        (n.window.height.dilation != 1 || n.window.width.dilation != 1)) {
        return onnx_misfit("is a mean over windows with dilation");
    }
    n.counts_padding = kind == NODE_AVERAGE_POOL && onnx_integer_of(r, "count_include_pad", 0) != 0;
    onnx_known y = *x;
    y.one = false;
    return give_node(r, &n, y);
}

static grail_status read_max_pool(onnx_reading *r)
{
    return add_pool(r, NODE_MAX_POOL);
}

static grail_status read_average_pool(onnx_reading *r)
{
    return add_pool(r, NODE_AVERAGE_POOL);
}

/* Zeros around an image, which the convolutions behind take for their own padding. */
static grail_status read_pad(onnx_reading *r)
{
    const int64_t most = 1 << 20;
    onnx_known *x = NULL;
    int count = 0;
    int64_t pads[ONNX_MOST_AXES];
    bool has_number = false;
    double number = 0.0;
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(needs_rank(x, IMAGE_RANK));
    CHECK(onnx_list_of(r, "pads", 1, &count, pads));
    CHECK(onnx_number_of(r, "value", 2, &has_number, &number));
    const bool is_constant =
        onnx_node_attribute(r->node, "mode") == NULL || onnx_text_is(r, "mode", "constant");
    if (count != 2 * IMAGE_RANK || onnx_has_input(r, 3) || !is_constant || number != 0.0 ||
        pads[0] != 0 || pads[1] != 0 || pads[4] != 0 || pads[5] != 0) {
        return onnx_misfit("pads with other than zeros above, below and beside images");
    }
    onnx_known y = *x;
    for (int i = 0; i < 4; i++) {
        y.pads[i] = pads[2 + i % 2 + 4 * (i / 2)];
        if (y.pads[i] < 0 || y.pads[i] > most) {
            return onnx_misfit("pads by %lld positions", (long long)y.pads[i]);
        }
    }
    y.one = y.one && !onnx_is_padded(&y);
    return give(r, 0, y);
}

static grail_status add_mean(onnx_reading *r, bool keeps)
{
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(needs_rank(x, IMAGE_RANK));
    node n = plain(NODE_MEAN, x, NULL);
    onnx_known y = *x;
    y.one = true;
    y.rank = keeps ? IMAGE_RANK : FLAT_RANK;
    return give_node(r, &n, y);
}

static grail_status read_global_pool(onnx_reading *r)
{
    return add_mean(r, true);
}

/* Axes 2 and 3, counted from either end. */
static bool are_positions(int count, const int64_t axes[])
{
    bool is_there[2] = {false, false};
    for (int i = 0; i < count; i++) {
        const int64_t axis = axes[i] < 0 ? axes[i] + IMAGE_RANK : axes[i];
        if (axis != 2 && axis != 3) {
            return false;
        }
        is_there[axis - 2] = true;
    }
    return is_there[0] && is_there[1];
}

static grail_status read_reduce_mean(onnx_reading *r)
{
    int count = 0;
    int64_t axes[ONNX_MOST_AXES];
    CHECK(onnx_list_of(r, "axes", 1, &count, axes));
    return are_positions(count, axes)
               ? add_mean(r, onnx_integer_of(r, "keepdims", 1) != 0)
               : onnx_misfit(
                     "is over other dimensions than height and width, for which grail has no "
                     "row");
}

/* What keeps the channels, and has one position of each sample before and behind. */
static grail_status give_flat(onnx_reading *r, int rank)
{
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    if (!x->one) {
        return onnx_misfit("puts positions beside channels, for which grail has no row yet: it may "
                           "stand behind a pool over all positions");
    }
    onnx_known y = *x;
    y.rank = rank;
    return give(r, 0, y);
}

static grail_status read_flatten(onnx_reading *r)
{
    return onnx_integer_of(r, "axis", 1) == 1
               ? give_flat(r, FLAT_RANK)
               : onnx_misfit("flattens other dimensions than those behind the "
                             "first");
}

/* [N, C] or [N, C, 1, 1], where either may be -1 or 0. */
static grail_status read_reshape(onnx_reading *r)
{
    int count = 0;
    int64_t shape[ONNX_MOST_AXES];
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(onnx_list_of(r, "shape", 1, &count, shape));
    const bool is_flat = count == FLAT_RANK;
    const bool keeps = is_flat || (count == IMAGE_RANK && shape[2] == 1 && shape[3] == 1 && x->one);
    if (!keeps || (shape[1] > 0 && shape[1] != x->width)) {
        return onnx_misfit("moves channels, for which grail has no row");
    }
    const int value = x->value;
    CHECK(give_flat(r, count));
    return shape[1] > 0 ? onnx_note_count(r, "shape", 1, 1, value) : GRAIL_OK;
}

static grail_status read_squeeze(onnx_reading *r)
{
    int count = 0;
    int64_t axes[ONNX_MOST_AXES];
    CHECK(onnx_list_of(r, "axes", 1, &count, axes));
    return are_positions(count, axes)
               ? give_flat(r, FLAT_RANK)
               : onnx_misfit("takes out other dimensions than height and width");
}

static grail_status read_unsqueeze(onnx_reading *r)
{
    int count = 0;
    int64_t axes[ONNX_MOST_AXES];
    CHECK(onnx_list_of(r, "axes", 1, &count, axes));
    return are_positions(count, axes) ? give_flat(r, IMAGE_RANK)
                                      : onnx_misfit("adds other dimensions than height and width");
}

/* y = x W^T + b: `is_turned` where input 1 is W^T. */
static grail_status add_linear(onnx_reading *r, bool is_turned, bool has_bias)
{
    onnx_known *x = NULL;
    const tensor_view *t = NULL;
    bool transposed = false;
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(needs_rank(x, FLAT_RANK));
    CHECK(onnx_tensor_input(r, 1, 2, &transposed, &t));
    node n = plain(NODE_LINEAR, x, NULL);
    onnx_known y = *x;
    transposed = transposed != is_turned;
    y.width = t->shape[transposed ? 1 : 0];
    if (t->shape[transposed ? 0 : 1] != x->width) {
        return onnx_misfit("its tensor '%.100s' does not read %lld features", t->name,
                           (long long)x->width);
    }
    CHECK(onnx_add_parameter(r, t, transposed, &n.weight));
    CHECK(has_bias ? onnx_add_vector(r, 2, y.width, true, &n.bias) : GRAIL_OK);
    return give_node(r, &n, y);
}

static grail_status read_gemm(onnx_reading *r)
{
    if (onnx_real_of(r, "alpha", 1.0) != 1.0 || onnx_real_of(r, "beta", 1.0) != 1.0 ||
        onnx_integer_of(r, "transA", 0) != 0) {
        return onnx_misfit("scales its factors (alpha, beta), or transposes the first one");
    }
    return add_linear(r, onnx_integer_of(r, "transB", 0) == 0, true);
}

static grail_status read_mat_mul(onnx_reading *r)
{
    return add_linear(r, true, false);
}

static grail_status check_channel_axis(const onnx_reading *r, const onnx_known *x)
{
    const int64_t axis = onnx_integer_of(r, "axis", 0);
    return axis == 1 || axis == 1 - x->rank
               ? GRAIL_OK
               : onnx_misfit("is along dimension %lld, which is not that of the channels",
                             (long long)axis);
}

/* In a chain, since a node has up to three inputs. */
static grail_status read_concat(onnx_reading *r)
{
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(check_channel_axis(r, x));
    onnx_known y = *x;
    for (int i = 1; i < r->node->node.input_count; i++) {
        CHECK(onnx_value_input(r, i, &x));
        if (x->rank != y.rank || x->one != y.one) {
            return onnx_misfit("its inputs have other dimensions");
        }
        node n = plain(NODE_CONCAT, &y, x);
        y.width += x->width;
        CHECK(graph_add_node(r->g, &n, &y.value));
    }
    return give(r, 0, y);
}

/* Sizes that are stated: others would have to stay equal. */
static grail_status read_split(onnx_reading *r)
{
    onnx_known *x = NULL;
    int count = 0;
    int64_t sizes[ONNX_MOST_AXES];
    int64_t first = 0;
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(check_channel_axis(r, x));
    CHECK(onnx_list_of(r, "split", 1, &count, sizes));
    if (count != r->node->node.output_count) {
        return onnx_misfit("states no sizes ('split'), which a cut would change; export the "
                           "network with them");
    }
    const onnx_known whole = *x;
    for (int i = 0; i < count; i++) {
        if (sizes[i] < 1 || sizes[i] > whole.width - first) {
            return onnx_misfit("takes more channels than the %lld there are",
                               (long long)whole.width);
        }
        onnx_known y = whole;
        node n = plain(NODE_SLICE, &whole, NULL);
        n.slice = (slice_attributes){first, sizes[i]};
        y.width = sizes[i];
        CHECK(graph_add_node(r->g, &n, &y.value));
        CHECK(give(r, i, y));
        CHECK(onnx_note_count(r, "split", 1, i, y.value));
        first += sizes[i];
    }
    return first == whole.width ? GRAIL_OK : onnx_misfit("leaves channels out");
}

/* Gives on what it reads; a matrix of weights may be turned. */
static grail_status read_identity(onnx_reading *r)
{
    return onnx_has_input(r, 0) ? give(r, 0, *onnx_known_input(r, 0))
                                : onnx_misfit("reads nothing");
}

static grail_status read_dropout(onnx_reading *r)
{
    int64_t trains = 0;
    for (int i = 1; i < r->node->node.output_count; i++) {
        if (r->node->outputs[i] >= 0 && r->values[r->node->outputs[i]].readers > 0) {
            return onnx_misfit("gives its mask, too, for which grail has no row");
        }
    }
    if (onnx_has_input(r, 2)) {
        const int64_t tensor = onnx_known_input(r, 2)->tensor;
        trains = 1;
        if (tensor >= 0 && r->file->tensors[tensor].view.rank == 0) {
            CHECK(onnx_tensor_integers(&r->file->tensors[tensor], &trains));
        }
    }
    return trains == 0 ? read_identity(r)
                       : onnx_misfit("is of training; export the network for inference");
}

static grail_status read_transpose(onnx_reading *r)
{
    int count = 0;
    int64_t order[ONNX_MOST_AXES];
    CHECK(onnx_list_of(r, "perm", 0, &count, order));
    const onnx_known *k = onnx_has_input(r, 0) ? onnx_known_input(r, 0) : NULL;
    if (k == NULL || k->tensor < 0 || count != 2 || order[0] != 1 || order[1] != 0) {
        return onnx_misfit("moves dimensions of a value, for which grail has no row yet");
    }
    onnx_known y = *k;
    y.transposed = !k->transposed;
    return give(r, 0, y);
}

static grail_status read_constant(onnx_reading *r)
{
    return r->values[r->node->outputs[0]].tensor >= 0
               ? GRAIL_OK
               : onnx_misfit("holds values that are no numbers");
}

typedef grail_status (*operator_reader)(onnx_reading *r);

static const struct {
    const char *name;
    operator_reader read;
} operators[] = {{"Add", read_add},
                 {"AveragePool", read_average_pool},
                 {"BatchNormalization", read_batch_norm},
                 {"Clip", read_clip},
                 {"Concat", read_concat},
                 {"Constant", read_constant},
                 {"Conv", read_conv},
                 {"Dropout", read_dropout},
                 {"Flatten", read_flatten},
                 {"Gelu", read_gelu},
                 {"Gemm", read_gemm},
                 {"GlobalAveragePool", read_global_pool},
                 {"HardSigmoid", read_hard_sigmoid},
                 {"HardSwish", read_hard_swish},
                 {"Identity", read_identity},
                 {"MatMul", read_mat_mul},
                 {"MaxPool", read_max_pool},
                 {"Mul", read_mul},
                 {"Pad", read_pad},
                 {"ReduceMean", read_reduce_mean},
                 {"Relu", read_relu},
                 {"Reshape", read_reshape},
                 {"Sigmoid", read_sigmoid},
                 {"Split", read_split},
                 {"Squeeze", read_squeeze},
                 {"Transpose", read_transpose},
                 {"Unsqueeze", read_unsqueeze}};

grail_status onnx_read_node(onnx_reading *r, int64_t i)
{
    r->node = &r->file->nodes[i];
    r->is_read[i] = true;
    for (size_t k = 0; k < sizeof operators / sizeof operators[0]; k++) {
        if (onnx_node_is(r->node, operators[k].name)) {
            return onnx_in_node(r, operators[k].read(r));
        }
    }
    return onnx_in_node(
        r, onnx_misfit("grail has no row for this operator in networks of ONNX yet; where "
                       "the checkpoint that the file was exported from is of a family it "
                       "reads, give that"));
}
