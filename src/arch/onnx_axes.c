/* Nodes that compute nothing: they move, join, part or give on what they read. */
#include "arch/onnx_arguments.h"
#include "arch/onnx_nodes.h"

#include <string.h>

/* Keeps the channels, and puts their positions beside them where there are several. */
static grail_status give_flat(onnx_reading *r, int rank)
{
    extent positions = {1, 1};
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(x->one ? GRAIL_OK : onnx_positions(r, x, &positions));
    onnx_known y = *x;
    y.one = positions.height * positions.width == 1;
    y.rank = rank;
    return (y.one || rank == FLAT_RANK) && (x->rank == IMAGE_RANK || x->rank == FLAT_RANK)
               ? onnx_give(r, 0, y)
               : onnx_misfit("gives several positions the dimensions of one");
}

grail_status onnx_read_flatten(onnx_reading *r)
{
    return onnx_integer_of(r, "axis", 1) == 1
               ? give_flat(r, FLAT_RANK)
               : onnx_misfit("flattens other dimensions than those behind the "
                             "first");
}

/* Sizes of which one may be left open (-1), and those that `may_stay` taken as they are (0). */
static bool are_sizes(const int64_t given[], int count, const int64_t sizes[], bool may_stay)
{
    bool fit = true;
    for (int i = 0; i < count; i++) {
        fit = fit && (given[i] < 0 || (may_stay && given[i] == 0) || given[i] == sizes[i]);
    }
    return fit;
}

/* [N, C, H, W], or [N, runs, C / runs, H, W]: what a shuffle of channels is made of. */
static grail_status give_runs(onnx_reading *r, onnx_known *x, int count, const int64_t shape[])
{
    extent positions = {1, 1};
    const bool splits = count == RUNS_RANK;
    CHECK(x->one ? GRAIL_OK : onnx_positions(r, x, &positions));
    const int64_t length = splits && shape[2] > 0 ? shape[2] : 1;
    const int64_t stated = shape[1] > 0 ? shape[1] : x->width / length;
    const int64_t runs = splits && stated > 0 ? stated : 1;
    const int64_t sizes[] = {runs, x->width / runs, positions.height, positions.width};
    const int64_t image[] = {x->width, positions.height, positions.width};
    const bool fits = splits ? x->rank == IMAGE_RANK && are_sizes(shape + 1, 4, sizes, false)
                             : are_sizes(shape + 1, 3, image, x->rank == IMAGE_RANK);
    if (!fits || runs * sizes[1] != x->width) {
        return onnx_misfit("moves channels, for which grail has no row");
    }
    onnx_known y = *x;
    y.rank = count;
    y.runs = runs;
    CHECK(onnx_give(r, 0, y));
    return !splits && shape[1] > 0 ? onnx_note_count(r, "shape", 1, 1, x->value) : GRAIL_OK;
}

/* [N, C, H, W] -> [N, groups, C / groups H W] before a norm, and back behind it. */
static grail_status give_groups(onnx_reading *r, onnx_known *x, int count, const int64_t shape[])
{
    const bool back = count == IMAGE_RANK;
    extent positions = {1, 1};
    onnx_known y = *x;
    y.rank = count;
    y.runs = back ? 0 : shape[1];
    if (back && r->g->nodes[x->value - 1].kind == NODE_GROUP_NORM) {
        CHECK(x->one ? GRAIL_OK : onnx_positions(r, x, &positions));
        const int64_t sizes[] = {x->width, positions.height, positions.width};
        CHECK(are_sizes(shape + 1, 3, sizes, false)
                  ? onnx_give(r, 0, y)
                  : onnx_misfit("moves channels, for which grail has no row"));
        return shape[1] > 0 ? onnx_note_count(r, "shape", 1, 1, x->value) : GRAIL_OK;
    }
    if (back || x->rank != IMAGE_RANK || shape[1] < 1 || x->width % shape[1] != 0 ||
        shape[2] != -1) {
        return onnx_misfit("moves channels, for which grail has no row");
    }
    CHECK(onnx_give(r, 0, y));
    return shape[1] == x->width ? onnx_note_count(r, "shape", 1, 1, x->value) : GRAIL_OK;
}

/* [N, C] or [N, C, 1, 1], or [N, C H W], where any may be -1 or 0. */
grail_status onnx_read_reshape(onnx_reading *r)
{
    int count = 0;
    int64_t shape[ONNX_MOST_AXES];
    extent positions = {1, 1};
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(onnx_list_of(r, "shape", 1, &count, shape));
    if (count == GROUPS_RANK || (count == IMAGE_RANK && x->rank == GROUPS_RANK)) {
        return give_groups(r, x, count, shape);
    }
    if (count == RUNS_RANK || (count == IMAGE_RANK && x->rank >= IMAGE_RANK)) {
        return give_runs(r, x, count, shape);
    }
    const bool is_flat = count == FLAT_RANK;
    const bool keeps = is_flat || (count == IMAGE_RANK && shape[2] == 1 && shape[3] == 1 && x->one);
    CHECK(x->one || !is_flat ? GRAIL_OK : onnx_positions(r, x, &positions));
    const int64_t taps = positions.height * positions.width;
    if (!keeps || (shape[1] > 0 && shape[1] != x->width * taps)) {
        return onnx_misfit("moves channels, for which grail has no row");
    }
    const int value = x->value;
    CHECK(give_flat(r, count));
    CHECK(shape[1] > 0 ? onnx_note_count(r, "shape", 1, 1, value) : GRAIL_OK);
    if (shape[1] > 0) {
        r->counts[r->count_count - 1].times = taps;
    }
    return GRAIL_OK;
}

grail_status onnx_read_squeeze(onnx_reading *r)
{
    int count = 0;
    int64_t axes[ONNX_MOST_AXES];
    CHECK(onnx_list_of(r, "axes", 1, &count, axes));
    return onnx_are_positions(count, axes)
               ? give_flat(r, FLAT_RANK)
               : onnx_misfit("takes out other dimensions than height and width");
}

grail_status onnx_read_unsqueeze(onnx_reading *r)
{
    int count = 0;
    int64_t axes[ONNX_MOST_AXES];
    CHECK(onnx_list_of(r, "axes", 1, &count, axes));
    return onnx_are_positions(count, axes)
               ? give_flat(r, IMAGE_RANK)
               : onnx_misfit("adds other dimensions than height and width");
}

static grail_status check_channel_axis(const onnx_reading *r, const onnx_known *x)
{
    if (x->rank > IMAGE_RANK || x->rank == GROUPS_RANK || (x->rank == FLAT_RANK && !x->one)) {
        return onnx_misfit("takes other dimensions for channels, which a Reshape or Flatten before "
                           "it made");
    }
    const int64_t axis = onnx_integer_of(r, "axis", 0);
    return axis == 1 || axis == 1 - x->rank
               ? GRAIL_OK
               : onnx_misfit("is along dimension %lld, which is not that of the channels",
                             (long long)axis);
}

/* In a chain, since a node has up to three inputs. */
grail_status onnx_read_concat(onnx_reading *r)
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
        node n = onnx_plain(NODE_CONCAT, &y, x);
        y.width += x->width;
        CHECK(graph_add_node(r->g, &n, &y.value));
    }
    return onnx_give(r, 0, y);
}

/* Sizes that are not stated would have to stay equal, so those channels stay. */
grail_status onnx_read_split(onnx_reading *r)
{
    onnx_known *x = NULL;
    int count = 0;
    int64_t sizes[ONNX_MOST_AXES];
    int64_t first = 0;
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(check_channel_axis(r, x));
    CHECK(onnx_list_of(r, "split", 1, &count, sizes));
    const onnx_known whole = *x;
    const int parts = r->node->node.output_count;
    const bool is_stated = count > 0;
    for (int i = 0; i < parts && parts <= ONNX_MOST_AXES && !is_stated; i++) {
        const int64_t most = (whole.width + parts - 1) / parts;
        sizes[i] = i < parts - 1 ? most : whole.width - most * (parts - 1);
        count = parts;
    }
    if (count != parts) {
        return onnx_misfit("has %d outputs, and %d sizes of them", parts, count);
    }
    for (int i = 0; i < count; i++) {
        if (sizes[i] < 1 || sizes[i] > whole.width - first) {
            return onnx_misfit("takes more channels than the %lld there are",
                               (long long)whole.width);
        }
        onnx_known y = whole;
        node n = onnx_plain(NODE_SLICE, &whole, NULL);
        n.slice = (slice_attributes){first, sizes[i], !is_stated};
        y.width = sizes[i];
        CHECK(graph_add_node(r->g, &n, &y.value));
        CHECK(onnx_give(r, i, y));
        CHECK(is_stated ? onnx_note_count(r, "split", 1, i, y.value) : GRAIL_OK);
        first += sizes[i];
    }
    return first == whole.width ? GRAIL_OK : onnx_misfit("leaves channels out");
}

/* Channel `at` of a range, which may count from the end or lie behind it. */
static int64_t bound_of(int64_t at, int64_t width)
{
    const int64_t from = at < 0 ? at + width : at;
    return from < 0 ? 0 : from > width ? width : from;
}

/* A run of channels, which stay: a range is told by both ends. */
grail_status onnx_read_slice(onnx_reading *r)
{
    static const char *const names[] = {"starts", "ends", "axes", "steps"};
    int64_t list[4][ONNX_MOST_AXES] = {{0}, {0}, {0}, {1}};
    int counts[4];
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    for (int i = 0; i < 4; i++) {
        CHECK(onnx_list_of(r, names[i], 1 + i, &counts[i], list[i]));
    }
    const int64_t axis = list[2][0] < 0 ? list[2][0] + x->rank : list[2][0];
    if (counts[0] != 1 || counts[1] != 1 || counts[2] != 1 || axis != 1 ||
        (counts[3] > 0 && list[3][0] != 1) || (x->rank != IMAGE_RANK && !x->one)) {
        return onnx_misfit("takes other parts than a run of channels");
    }
    onnx_known y = *x;
    node n = onnx_plain(NODE_SLICE, x, NULL);
    const int64_t first = bound_of(list[0][0], x->width);
    y.width = bound_of(list[1][0], x->width) - first;
    n.slice = (slice_attributes){first, y.width, true};
    return y.width > 0 ? onnx_give_node(r, &n, y) : onnx_misfit("takes no channels");
}

/* Gives on what it reads; a matrix of weights may be turned. */
grail_status onnx_read_identity(onnx_reading *r)
{
    return onnx_has_input(r, 0) ? onnx_give(r, 0, *onnx_known_input(r, 0))
                                : onnx_misfit("reads nothing");
}

grail_status onnx_read_dropout(onnx_reading *r)
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
    return trains == 0 ? onnx_read_identity(r)
                       : onnx_misfit("is of training; export the network for inference");
}

/* [N, runs, length, H, W] <-> [N, length, runs, H, W] */
static grail_status give_shuffled(onnx_reading *r, const onnx_known *x)
{
    node n = onnx_plain(NODE_SHUFFLE, x, NULL);
    onnx_known y = *x;
    n.runs = x->runs;
    y.runs = x->width / x->runs;
    return onnx_give_node(r, &n, y);
}

grail_status onnx_read_transpose(onnx_reading *r)
{
    static const int64_t swapped[] = {0, 2, 1, 3, 4};
    int count = 0;
    int64_t order[ONNX_MOST_AXES];
    CHECK(onnx_list_of(r, "perm", 0, &count, order));
    if (onnx_has_input(r, 0) && onnx_known_input(r, 0)->value != GRAPH_NONE &&
        onnx_known_input(r, 0)->rank == RUNS_RANK && count == RUNS_RANK &&
        memcmp(order, swapped, sizeof swapped) == 0) {
        return give_shuffled(r, onnx_known_input(r, 0));
    }
    const onnx_known *k = onnx_has_input(r, 0) ? onnx_known_input(r, 0) : NULL;
    if (k == NULL || k->tensor < 0 || count != 2 || order[0] != 1 || order[1] != 0) {
        return onnx_misfit("moves dimensions of a value, for which grail has no row yet");
    }
    onnx_known y = *k;
    y.transposed = !k->transposed;
    return onnx_give(r, 0, y);
}

grail_status onnx_read_constant(onnx_reading *r)
{
    return r->values[r->node->outputs[0]].tensor >= 0
               ? GRAIL_OK
               : onnx_misfit("holds values that are no numbers");
}
