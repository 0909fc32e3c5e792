/* Nodes that compute nothing: they move, join, part or give on what they read. */
#include "arch/onnx_arguments.h"
#include "arch/onnx_nodes.h"

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
    return y.one || rank == FLAT_RANK
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

/* [N, C] or [N, C, 1, 1], or [N, C H W], where any may be -1 or 0. */
grail_status onnx_read_reshape(onnx_reading *r)
{
    int count = 0;
    int64_t shape[ONNX_MOST_AXES];
    extent positions = {1, 1};
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(onnx_list_of(r, "shape", 1, &count, shape));
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
    if (x->rank == FLAT_RANK && !x->one) {
        return onnx_misfit("takes positions for channels, which a Flatten before it put beside "
                           "them; grail has a row for that before a Linear alone");
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

/* Sizes that are stated: others would have to stay equal. */
grail_status onnx_read_split(onnx_reading *r)
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
        node n = onnx_plain(NODE_SLICE, &whole, NULL);
        n.slice = (slice_attributes){first, sizes[i]};
        y.width = sizes[i];
        CHECK(graph_add_node(r->g, &n, &y.value));
        CHECK(onnx_give(r, i, y));
        CHECK(onnx_note_count(r, "split", 1, i, y.value));
        first += sizes[i];
    }
    return first == whole.width ? GRAIL_OK : onnx_misfit("leaves channels out");
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

grail_status onnx_read_transpose(onnx_reading *r)
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
    return onnx_give(r, 0, y);
}

grail_status onnx_read_constant(onnx_reading *r)
{
    return r->values[r->node->outputs[0]].tensor >= 0
               ? GRAIL_OK
               : onnx_misfit("holds values that are no numbers");
}
