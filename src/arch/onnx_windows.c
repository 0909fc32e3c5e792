/* Nodes that move a window over images, or take their means. */
#include "arch/onnx_arguments.h"
#include "arch/onnx_extents.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_nodes.h"
#include "arch/onnx_numbers.h"
#include "arch/onnx_products.h"
#include "arch/onnx_tokens.h"

#include <float.h>
#include <string.h>

/* Nodes that reshape what a convolution makes before its channels are parted. */
enum { MOST_SHAPES = 8 };

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

/* Pads so that there is an output for each stride, which depends on the size but where windows move
 * by one position; the odd one goes behind, or before the input. */
static void pad_to_same(window_axis *a, int64_t size, bool behind)
{
    const int64_t rest = a->stride == 1 || size % a->stride == 0 ? a->stride : size % a->stride;
    const int64_t lacks = a->dilation * (a->kernel - 1) + 1 - rest;
    const int64_t all = lacks > 0 ? lacks : 0;
    a->before = behind ? all / 2 : all - all / 2;
    a->behind = all - a->before;
}

/* How many dimensions of positions a value has that windows move over: 2 of [N, C, H, W], 1 of [N,
 * C, T], which is a map as wide as one position; 0: none. */
static int dimensions_of(const onnx_known *x)
{
    const bool is_row = strcmp(x->layout, x->one ? "N,C," : "N,C,T") == 0;
    return is_row ? 1 : x->layout[0] == '\0' && x->rank == IMAGE_RANK ? 2 : 0;
}

/* What a node may read around a value. */
typedef enum surroundings { NO_PADS, ZEROS, LOWEST } surroundings;

/* Input 0, perhaps with pads around it. */
static grail_status map_input(const onnx_reading *r, surroundings around, onnx_known **out)
{
    CHECK(onnx_padded_input(r, 0, out));
    if (around == NO_PADS || (*out)->pads_lowest != (around == LOWEST)) {
        CHECK(onnx_any_input(r, 0, out));
    }
    if (dimensions_of(*out) > 0) {
        return GRAIL_OK;
    }
    CHECK(onnx_value_input(r, 0, out)); /* which says what it has otherwise */
    return onnx_needs_rank(*out, IMAGE_RANK);
}

/* The dimensions of what is made: [N, C], and those of positions. */
static void lay_map(int dimensions, onnx_known *y)
{
    onnx_set_layout(y, dimensions == 0   ? "N,C"
                       : dimensions == 2 ? (y->one ? "N,C,," : "N,C,Y,X")
                       : y->one          ? "N,C,"
                                         : "N,C,T");
}

/* A window over so many dimensions of positions of x, and its pads. Nothing bounds what a file says
 * but that windows fit, which graph_extents checks. */
static grail_status window_of(onnx_reading *r, const onnx_known *x, int64_t height, int64_t width,
                              window2d *out)
{
    extent at = {0};
    const int dimensions = dimensions_of(x);
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
    CHECK(numbers_of(r, "strides", dimensions, 1, strides));
    CHECK(numbers_of(r, "dilations", dimensions, 1, dilations));
    CHECK(numbers_of(r, "pads", 2 * dimensions, 0, pads));
    *out = (window2d){{height, strides[0], dilations[0], pads[0], pads[dimensions]},
                      {1, 1, 1, 0, 0},
                      onnx_integer_of(r, "ceil_mode", 0) != 0};
    if (dimensions == 2) {
        out->width = (window_axis){width, strides[1], dilations[1], pads[1], pads[3]};
    }
    if (!axis_is_bounded(&out->height) || !axis_is_bounded(&out->width)) {
        return onnx_misfit(
            "has a window that is empty, negative or of more than a million positions");
    }
    if (same && (out->height.stride != 1 || out->width.stride != 1)) {
        CHECK(onnx_positions_of(r, x, &at));
        if (at.height == 0) {
            return onnx_misfit("pads by 'auto_pad' and strides, which depends on the size of "
                               "images; the settings height=N and width=N say it");
        }
    }
    if (same) {
        pad_to_same(&out->height, at.height + x->pads[0] + x->pads[2], behind);
        pad_to_same(&out->width, at.width + x->pads[1] + x->pads[3], behind);
    }
    out->height.before += x->pads[0];
    out->height.behind += x->pads[2];
    out->width.before += x->pads[1];
    out->width.behind += x->pads[3];
    return GRAIL_OK;
}

static bool is_one_of(const onnx_file_node *n, size_t count, const char *const names[])
{
    bool is = false;
    for (size_t k = 0; k < count; k++) {
        is = is || onnx_node_is(n, names[k]);
    }
    return is;
}

/* Whether all that reads a value reshapes it, by at most so many nodes, until one parts it. */
static bool is_parted(const onnx_reading *r, int64_t value, int most, bool is_reshaped)
{
    static const char *const shapes[] = {"Reshape", "Transpose", "Squeeze", "Unsqueeze"};
    static const char *const parts[] = {"Split", "Slice", "Gather"};
    int64_t found = 0;
    for (int64_t i = 0; i < r->file->node_count && value >= 0 && most > 0; i++) {
        const onnx_file_node *n = &r->file->nodes[i];
        if (n->node.input_count == 0 || n->inputs[0] != value || n->node.output_count == 0) {
            continue;
        }
        found += is_one_of(n, 4, shapes)  ? is_parted(r, n->outputs[0], most - 1, true)
                 : is_one_of(n, 3, parts) ? is_reshaped
                                          : 0;
    }
    return found > 0 && found == r->values[value].readers;
}

/* A convolution of single positions whose channels are parted is a map like a Linear. */
static grail_status give_map(onnx_reading *r, const onnx_known *x, const tensor_view *t,
                             onnx_known y)
{
    onnx_linear map = {.input = x->value,
                       .weight = t,
                       .is_convolution = true,
                       .value = GRAPH_NONE,
                       .node = onnx_node_number(r)};
    CHECK(onnx_check_free(r, t));
    CHECK(onnx_has_input(r, 2) ? onnx_vector_input(r, 2, t->shape[0], &map.bias) : GRAIL_OK);
    y.value = GRAPH_NONE;
    y.readers = 0;
    CHECK(onnx_add_linear(r, &map, &y.linear));
    return onnx_give(r, 0, y);
}

grail_status onnx_read_conv(onnx_reading *r)
{
    onnx_known *x = NULL;
    const tensor_view *t = NULL;
    node n;
    CHECK(map_input(r, ZEROS, &x));
    const int dimensions = dimensions_of(x);
    CHECK(onnx_tensor_input(r, 1, 2 + dimensions, NULL, &t));
    const int64_t shape[] = {t->shape[0], t->shape[1], t->shape[2],
                             dimensions == 2 ? t->shape[3] : 1};
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
    n = onnx_plain(is_depthwise ? NODE_DEPTHWISE : NODE_CONV2D, x, NULL);
    n.groups = is_depthwise ? 0 : groups;
    CHECK(window_of(r, x, shape[2], shape[3], &n.window));
    memset(y.pads, 0, sizeof y.pads);
    y.width = t->shape[0];
    const window2d *w = &n.window;
    const bool is_point =
        window_taps(w) == 1 &&
        w->height.before + w->height.behind + w->width.before + w->width.behind == 0;
    y.one = x->one && is_point;
    lay_map(dimensions, &y);
    if (is_point && groups == 1 && w->height.stride * w->width.stride == 1 &&
        is_parted(r, r->node->outputs[0], MOST_SHAPES, false)) {
        return give_map(r, x, t, y);
    }
    CHECK(onnx_add_shaped(r, t, false, IMAGE_RANK, shape, &n.weight));
    CHECK(onnx_add_vector(r, 2, t->shape[0], true, &n.bias));
    CHECK(onnx_give_node(r, &n, y));
    return groups > 1 ? onnx_note_groups(r, "group", x->value, n.weight) : GRAIL_OK;
}

/* What surrounds the patches of a transposed convolution, and is added behind. */
static grail_status read_back_window(onnx_reading *r, const onnx_known *x, const tensor_view *t,
                                     node *n)
{
    int64_t more[ONNX_MOST_AXES];
    const int dimensions = dimensions_of(x);
    CHECK(window_of(r, x, t->shape[2], dimensions == 2 ? t->shape[3] : 1, &n->window));
    CHECK(numbers_of(r, "output_padding", dimensions, 0, more));
    more[1] = dimensions == 2 ? more[1] : 0;
    const window_axis *high = &n->window.height;
    const window_axis *wide = &n->window.width;
    if (onnx_node_attribute(r->node, "output_shape") != NULL ||
        onnx_text_is(r, "auto_pad", "SAME_UPPER") || onnx_text_is(r, "auto_pad", "SAME_LOWER")) {
        return onnx_misfit("pads to a size that it states ('output_shape', 'auto_pad'); export the "
                           "network with 'pads'");
    }
    n->more = (extent){more[0], more[1]};
    return more[0] >= 0 && more[0] < high->stride && more[1] >= 0 && more[1] < wide->stride
               ? GRAIL_OK
               : onnx_misfit("adds %lld x %lld positions, which are not fewer than its strides",
                             (long long)more[0], (long long)more[1]);
}

/* A map from each position to a patch, W[in, (out, row, column)], and the patches added up. */
grail_status onnx_read_conv_transpose(onnx_reading *r)
{
    onnx_known *x = NULL;
    const tensor_view *t = NULL;
    CHECK(map_input(r, NO_PADS, &x));
    const int dimensions = dimensions_of(x);
    CHECK(onnx_tensor_input(r, 1, 2 + dimensions, NULL, &t));
    if (onnx_integer_of(r, "group", 1) != 1 || t->shape[0] != x->width) {
        return onnx_misfit("is in groups, for which grail has no row, or does not read %lld "
                           "channels",
                           (long long)x->width);
    }
    onnx_known y = *x;
    node map = onnx_plain(NODE_CONV2D, x, NULL);
    const int64_t shape[] = {t->shape[1] * t->shape[2] * (dimensions == 2 ? t->shape[3] : 1),
                             x->width, 1, 1};
    CHECK(onnx_add_shaped(r, t, true, IMAGE_RANK, shape, &map.weight));
    CHECK(graph_add_node(r->g, &map, &y.value));
    node n = onnx_plain(NODE_PUT_PATCHES, &y, NULL);
    CHECK(read_back_window(r, x, t, &n));
    CHECK(onnx_add_vector(r, 2, t->shape[1], true, &n.bias));
    y.width = t->shape[1];
    y.one = false;
    lay_map(dimensions, &y);
    return onnx_give_node(r, &n, y);
}

/* The channels of each position become a square of positions: (channel, row, column), as they lie
 * in patches that are put side by side. */
grail_status onnx_read_depth_to_space(onnx_reading *r)
{
    onnx_known *x = NULL;
    const int64_t side = onnx_integer_of(r, "blocksize", 0);
    CHECK(map_input(r, NO_PADS, &x));
    CHECK(onnx_needs_rank(x, IMAGE_RANK));
    if (!onnx_text_is(r, "mode", "CRD") || side < 1 || side > x->width ||
        x->width % (side * side) != 0) {
        return onnx_misfit("makes squares of %lld x %lld positions of %lld channels, or not in the "
                           "order (channel, row, column)",
                           (long long)side, (long long)side, (long long)x->width);
    }
    onnx_known y = *x;
    node n = onnx_plain(NODE_PUT_PATCHES, x, NULL);
    n.window = (window2d)WINDOW2D(side, side, side, 0, 1);
    y.width = x->width / (side * side);
    y.one = false;
    lay_map(2, &y);
    return onnx_give_node(r, &n, y);
}

static bool sees_pads_alone(const window_axis *a)
{
    const int64_t reach = a->dilation * (a->kernel - 1);
    return a->before > reach || a->behind > reach;
}

/* Whether a value has no number below 0, so that zeros around it are as good as minus infinity to a
 * maximum of some of its own. */
static bool is_never_negative(const graph *g, int value)
{
    bool found = false;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        const bool is_relu = n->kind == NODE_ACTIVATION && (n->activation == ACTIVATION_RELU ||
                                                            n->activation == ACTIVATION_RELU6);
        found = found ||
                (n->output == value && (is_relu || (n->kind == NODE_CLAMP && n->clamp.low >= 0.0)));
    }
    return found;
}

/* A window that is larger than an image, which it covers once as `ceil_mode` counts, ends with it.
 */
static void end_window(window_axis *a, int64_t size)
{
    const int64_t beyond = a->kernel - size;
    if (size > 0 && beyond > 0 && beyond < a->stride && a->dilation == 1 && a->before == 0 &&
        a->behind == 0) {
        a->kernel = size;
    }
}

static grail_status add_pool(onnx_reading *r, node_kind kind)
{
    onnx_known *x = NULL;
    int count = 0;
    extent at = {0};
    int64_t kernel[ONNX_MOST_AXES];
    CHECK(onnx_padded_input(r, 0, &x));
    const surroundings around = kind != NODE_MAX_POOL                                  ? NO_PADS
                                : is_never_negative(r->g, x->value) && !x->pads_lowest ? ZEROS
                                                                                       : LOWEST;
    CHECK(map_input(r, around, &x));
    const int dimensions = dimensions_of(x);
    CHECK(onnx_list_of(r, "kernel_shape", 0, &count, kernel));
    node n = onnx_plain(kind, x, NULL);
    if (count != dimensions || r->node->node.output_count != 1) {
        return onnx_misfit("is no pooling over windows of the positions alone");
    }
    CHECK(window_of(r, x, kernel[0], count == 2 ? kernel[1] : 1, &n.window));
    CHECK(onnx_positions_of(r, x, &at));
    if (n.window.rounds_up) {
        end_window(&n.window.height, at.height);
        end_window(&n.window.width, at.width);
    }
    if (sees_pads_alone(&n.window.height) || sees_pads_alone(&n.window.width)) {
        return onnx_misfit("has windows over nothing but pads");
    }
    if (kind == NODE_AVERAGE_POOL &&
        (n.window.height.dilation != 1 || n.window.width.dilation != 1)) {
        return onnx_misfit("is a mean over windows with dilation");
    }
    n.counts_padding = kind == NODE_AVERAGE_POOL && onnx_integer_of(r, "count_include_pad", 0) != 0;
    onnx_known y = *x;
    y.one = false;
    memset(y.pads, 0, sizeof y.pads);
    y.pads_lowest = false;
    lay_map(dimensions, &y);
    return onnx_give_node(r, &n, y);
}

grail_status onnx_read_max_pool(onnx_reading *r)
{
    return add_pool(r, NODE_MAX_POOL);
}

grail_status onnx_read_average_pool(onnx_reading *r)
{
    return add_pool(r, NODE_AVERAGE_POOL);
}

/* *y <- with so many channels of zeros behind it, or before it; element `at` of the pads counts
 * them. */
static grail_status join_zeros(onnx_reading *r, int64_t channels, int64_t at, bool behind,
                               onnx_known *y)
{
    onnx_known added = *y;
    if (channels == 0) {
        return GRAIL_OK;
    }
    if (channels < 0 || channels > INT32_MAX - y->width) {
        return onnx_misfit("pads by %lld channels", (long long)channels);
    }
    node n = onnx_plain(NODE_ZEROS, y, NULL);
    n.zeros = channels;
    CHECK(graph_add_node(r->g, &n, &added.value));
    CHECK(onnx_note_count(r, "pads", 1, at, added.value));
    n = behind ? onnx_plain(NODE_CONCAT, y, &added) : onnx_plain(NODE_CONCAT, &added, y);
    y->width += channels;
    return graph_add_node(r->g, &n, &y->value);
}

/* Zeros around an image, which the convolutions behind take for their own padding, or minus
 * infinity, which maxima do; or zeros before and behind the channels. */
/* Exporters pad what windows would not cover, by nothing where they do. */
static bool pads_nothing(const onnx_reading *r)
{
    onnx_numbers pads;
    bool is_nothing = onnx_numbers_of(r, 1, &pads) == GRAIL_OK && pads.is_known && pads.count > 0;
    for (int i = 0; is_nothing && i < pads.count; i++) {
        const onnx_number *n = &pads.items[i];
        is_nothing = !n->is_open && !n->is_real && n->factor == 0;
    }
    memory_free(pads.items);
    return is_nothing;
}

grail_status onnx_read_pad(onnx_reading *r)
{
    const int64_t most = 1 << 20;
    onnx_known *x = NULL;
    int count = 0;
    int64_t pads[ONNX_MOST_AXES];
    bool has_number = false;
    double number = 0.0;
    if (onnx_node_attribute(r->node, "pads") == NULL && pads_nothing(r)) {
        CHECK(onnx_laid_input(r, 0, &x));
        return onnx_give(r, 0, *x);
    }
    CHECK(map_input(r, NO_PADS, &x));
    const int dimensions = dimensions_of(x);
    const int behind = 2 + dimensions;
    CHECK(onnx_list_of(r, "pads", 1, &count, pads));
    CHECK(onnx_number_of(r, "value", 2, &has_number, &number));
    const bool is_constant =
        onnx_node_attribute(r->node, "mode") == NULL || onnx_text_is(r, "mode", "constant");
    const bool fits = count == 2 * behind && !onnx_has_input(r, 3) && is_constant;
    const bool widens = fits && (pads[1] != 0 || pads[behind + 1] != 0);
    if (!fits || !(number == 0.0 || (number <= -(double)FLT_MAX && !widens)) || pads[0] != 0 ||
        pads[behind] != 0) {
        return onnx_misfit("pads with other than zeros above, below and beside images or before "
                           "and behind channels, or minus infinity around images");
    }
    onnx_known y = *x;
    CHECK(join_zeros(r, pads[1], 1, false, &y));
    CHECK(join_zeros(r, pads[behind + 1], behind + 1, true, &y));
    y.pads_lowest = number != 0.0;
    for (int i = 0; i < 4; i++) {
        y.pads[i] = i % 2 < dimensions ? pads[2 + i % 2 + behind * (i / 2)] : 0;
        if (y.pads[i] < 0 || y.pads[i] > most) {
            return onnx_misfit("pads by %lld positions", (long long)y.pads[i]);
        }
    }
    y.one = y.one && !onnx_is_padded(&y);
    lay_map(dimensions, &y);
    return onnx_give(r, 0, y);
}

/* The mean of all positions, or the largest: a window as large as the image. */
static grail_status reduction_of(onnx_reading *r, bool is_mean, const onnx_known *x, node *n)
{
    extent positions;
    *n = onnx_plain(is_mean ? NODE_MEAN : NODE_MAX_POOL, x, NULL);
    if (!is_mean) {
        CHECK(onnx_known_positions(r, x, &positions));
        n->window.height.kernel = positions.height;
        n->window.width.kernel = positions.width;
        n->is_whole = true;
    }
    return GRAIL_OK;
}

static grail_status pool_all(onnx_reading *r, bool is_mean, bool keeps)
{
    onnx_known *x = NULL;
    node n;
    CHECK(map_input(r, NO_PADS, &x));
    CHECK(reduction_of(r, is_mean, x, &n));
    onnx_known y = *x;
    y.one = true;
    lay_map(keeps ? dimensions_of(x) : 0, &y);
    return onnx_give_node(r, &n, y);
}

grail_status onnx_read_global_pool(onnx_reading *r)
{
    return pool_all(r, true, true);
}

grail_status onnx_read_global_max_pool(onnx_reading *r)
{
    return pool_all(r, false, true);
}

static grail_status reduce(onnx_reading *r, bool is_mean)
{
    int count = 0;
    int64_t axes[ONNX_MOST_AXES];
    onnx_known *x = NULL;
    node n;
    CHECK(onnx_list_of(r, "axes", 1, &count, axes));
    if (onnx_has_input(r, 0) && onnx_has_layout(onnx_known_input(r, 0))) {
        CHECK(onnx_any_input(r, 0, &x));
        CHECK(reduction_of(r, is_mean, x, &n));
        return onnx_reduce_over(r, n, count, axes);
    }
    return onnx_are_positions(count, axes)
               ? pool_all(r, is_mean, onnx_integer_of(r, "keepdims", 1) != 0)
               : onnx_misfit(
                     "is over other dimensions than height and width, for which grail has no "
                     "row");
}

grail_status onnx_read_reduce_mean(onnx_reading *r)
{
    return reduce(r, true);
}

grail_status onnx_read_reduce_max(onnx_reading *r)
{
    return reduce(r, false);
}
