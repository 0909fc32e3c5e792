/* Nodes that compute nothing: they move, join, part or give on what they read. */
#include "arch/onnx_arguments.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_nodes.h"
#include "arch/onnx_rolls.h"
#include "arch/onnx_tokens.h"

#include <string.h>

/* What keeps the channels, and has one position of each sample before and behind. */
static grail_status give_flat(onnx_reading *r, int rank)
{
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    if (!x->one) {
        return onnx_misfit("takes out or puts in dimensions of several positions");
    }
    onnx_known y = *x;
    y.rank = rank;
    return onnx_give(r, 0, y);
}

static bool is_constant(const onnx_reading *r)
{
    return onnx_has_input(r, 0) && onnx_known_input(r, 0)->tensor >= 0;
}

/* The copy of the constant that the node at hand reads. */
static const tensor_view *own_copy(const onnx_reading *r)
{
    const tensor_view *t = onnx_constant_of(r, 0);
    return t == &r->file->tensors[onnx_known_input(r, 0)->tensor].view ? NULL : t;
}

/* `counted`: the dimension that the file states and that counts channels, -1 without. */
static grail_status give_constant(onnx_reading *r, int rank, const int64_t shape[], int counted)
{
    int64_t own[ONNX_MOST_AXES];
    int64_t before = 0;
    int64_t behind = 0;
    onnx_known y = *onnx_known_input(r, 0);
    const int own_rank = onnx_constant_shape(r, &y, own);
    if (y.transposed || rank > IMAGE_RANK || (counted >= 0 && y.count.element >= 0) ||
        !shape_elements(own_rank, own, &before) || !shape_elements(rank, shape, &behind) ||
        before != behind) {
        return onnx_misfit("gives a constant dimensions that it has not");
    }
    y.copy = own_copy(r);
    y.reshaped = true;
    y.rank = rank;
    memcpy(y.shape, shape, (size_t)rank * sizeof shape[0]);
    if (counted >= 0) {
        CHECK(
            onnx_count_at(r, "shape", 1, counted, (onnx_channels){.value = GRAPH_NONE}, &y.count));
    }
    return onnx_give(r, 0, y);
}

/* 0 stands for what the constant has there, and -1 for what is left. */
static grail_status reshape_constant(onnx_reading *r)
{
    int count = 0;
    int open = -1;
    int counted = -1;
    int64_t own[ONNX_MOST_AXES];
    int64_t shape[ONNX_MOST_AXES];
    int64_t all = 0;
    int64_t others = 0;
    const int own_rank = onnx_constant_shape(r, onnx_known_input(r, 0), own);
    CHECK(onnx_list_of(r, "shape", 1, &count, shape));
    for (int d = 0; d < count; d++) {
        counted = shape[d] > 1 ? d : counted;
        open = shape[d] == -1 ? d : open;
        shape[d] = shape[d] == 0 && d < own_rank ? own[d] : shape[d];
        shape[d] = shape[d] == -1 ? 1 : shape[d];
    }
    if (open >= 0 && shape_elements(own_rank, own, &all) && shape_elements(count, shape, &others) &&
        others > 0) {
        shape[open] = all / others;
    }
    return give_constant(r, count, shape, counted);
}

/* Takes out dimensions of 1 (all without a list), or puts such in. */
static grail_status move_constant(onnx_reading *r, bool takes, int count, const int64_t axes[])
{
    bool is_listed[2 * ONNX_MOST_AXES] = {false};
    int64_t own[ONNX_MOST_AXES];
    int64_t shape[2 * ONNX_MOST_AXES];
    int rank = 0;
    int from = 0;
    const int own_rank = onnx_constant_shape(r, onnx_known_input(r, 0), own);
    const int whole = takes ? own_rank : own_rank + count;
    for (int i = 0; i < count; i++) {
        const int64_t axis = axes[i] < 0 ? axes[i] + whole : axes[i];
        if (axis < 0 || axis >= whole || is_listed[axis]) {
            return onnx_misfit("names dimension %lld of a constant of %d", (long long)axes[i],
                               own_rank);
        }
        is_listed[axis] = true;
    }
    for (int d = 0; d < whole; d++) {
        const bool goes = takes && (count == 0 ? own[d] == 1 : is_listed[d]);
        if (!goes) {
            shape[rank++] = !takes && is_listed[d] ? 1 : own[from++];
        } else {
            from++;
        }
    }
    return give_constant(r, rank, shape, -1);
}

/* Whether input 0 has other dimensions than [N, C, 1, 1] and [N, C], or will have. */
static bool is_laid(const onnx_reading *r)
{
    const onnx_known *x = onnx_has_input(r, 0) ? onnx_known_input(r, 0) : NULL;
    return x != NULL && x->tensor < 0 && (onnx_has_layout(x) || !x->one);
}

grail_status onnx_read_flatten(onnx_reading *r)
{
    return is_laid(r) ? onnx_lay_flat(r)
           : onnx_integer_of(r, "axis", 1) == 1
               ? give_flat(r, FLAT_RANK)
               : onnx_misfit("flattens other dimensions than those "
                             "behind the first");
}

/* [N, C] or [N, C, 1, 1], where either may be -1 or 0. */
grail_status onnx_read_reshape(onnx_reading *r)
{
    int count = 0;
    int64_t shape[ONNX_MOST_AXES];
    onnx_known *x = NULL;
    if (is_constant(r)) {
        return reshape_constant(r);
    }
    CHECK(onnx_laid_input(r, 0, &x));
    CHECK(onnx_list_of(r, "shape", 1, &count, shape));
    if (is_laid(r) || (count != FLAT_RANK && count != IMAGE_RANK)) {
        return onnx_lay_reshaped(r);
    }
    CHECK(onnx_value_input(r, 0, &x));
    const bool is_flat = count == FLAT_RANK;
    const bool keeps = is_flat || (count == IMAGE_RANK && shape[2] == 1 && shape[3] == 1 && x->one);
    if (!keeps || (shape[1] > 0 && shape[1] != x->width)) {
        return onnx_lay_reshaped(r);
    }
    const int value = x->value;
    CHECK(give_flat(r, count));
    return shape[1] > 0 ? onnx_note_count(r, "shape", 1, 1, value) : GRAIL_OK;
}

grail_status onnx_read_squeeze(onnx_reading *r)
{
    int count = 0;
    int64_t axes[ONNX_MOST_AXES];
    CHECK(onnx_list_of(r, "axes", 1, &count, axes));
    if (is_laid(r)) {
        return onnx_lay_squeezed(r, count, axes);
    }
    return is_constant(r) ? move_constant(r, true, count, axes)
           : onnx_are_positions(count, axes)
               ? give_flat(r, FLAT_RANK)
               : onnx_misfit("takes out other dimensions than height and width");
}

grail_status onnx_read_unsqueeze(onnx_reading *r)
{
    int count = 0;
    int64_t axes[ONNX_MOST_AXES];
    CHECK(onnx_list_of(r, "axes", 1, &count, axes));
    if (onnx_has_input(r, 0) && onnx_has_layout(onnx_known_input(r, 0))) {
        return onnx_lay_unsqueezed(r, count, axes);
    }
    return is_constant(r) ? move_constant(r, false, count, axes)
           : onnx_are_positions(count, axes)
               ? give_flat(r, IMAGE_RANK)
               : onnx_misfit("adds other dimensions than height and width");
}

static grail_status check_channel_axis(const onnx_reading *r, const onnx_known *x)
{
    const int64_t axis = onnx_integer_of(r, "axis", 0);
    const int channels = onnx_channel_dimension(x);
    return channels > 0 && onnx_axis_of(axis, x->rank) == channels
               ? GRAIL_OK
               : onnx_misfit("is along dimension %lld, which is not that of the channels",
                             (long long)axis);
}

/* In a chain, since a node has up to three inputs. */
grail_status onnx_read_concat(onnx_reading *r)
{
    onnx_known *x = NULL;
    if (onnx_adds_tokens(r)) {
        return onnx_add_tokens(r);
    }
    if (onnx_joins_lines(r)) {
        return onnx_join_lines(r);
    }
    CHECK(onnx_any_input(r, 0, &x));
    CHECK(check_channel_axis(r, x));
    onnx_known y = *x;
    for (int i = 1; i < r->node->node.input_count; i++) {
        CHECK(onnx_any_input(r, i, &x));
        if (x->rank != y.rank || x->one != y.one || strcmp(x->layout, y.layout) != 0) {
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
    if (onnx_has_input(r, 0) && onnx_has_layout(onnx_known_input(r, 0)) &&
        (onnx_known_input(r, 0)->linear != 0 ||
         onnx_channel_dimension(onnx_known_input(r, 0)) < 0)) {
        return onnx_part_all(r);
    }
    CHECK(onnx_any_input(r, 0, &x));
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
        n.slice = (slice_attributes){first, sizes[i], !is_stated, whole.width % parts == 0};
        y.width = sizes[i];
        CHECK(graph_add_node(r->g, &n, &y.value));
        CHECK(onnx_give(r, i, y));
        CHECK(is_stated ? onnx_note_count(r, "split", 1, i, y.value) : GRAIL_OK);
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

/* Between types of floating point a value is the same to grail, which computes in its own. */
grail_status onnx_read_cast(onnx_reading *r)
{
    const int64_t to = onnx_integer_of(r, "to", 0);
    return to == ONNX_FLOAT || to == ONNX_FLOAT16 || to == ONNX_BFLOAT16
               ? onnx_read_identity(r)
               : onnx_misfit("makes values of another type than FLOAT, FLOAT16 and BFLOAT16");
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
    return trains == 0
               ? onnx_read_identity(r)
               : error_set(GRAIL_ERROR_FORMAT, "is of training; export the network for inference");
}

grail_status onnx_read_transpose(onnx_reading *r)
{
    int count = 0;
    int64_t order[ONNX_MOST_AXES];
    CHECK(onnx_list_of(r, "perm", 0, &count, order));
    const onnx_known *k = onnx_has_input(r, 0) ? onnx_known_input(r, 0) : NULL;
    if (k == NULL || k->tensor < 0 || k->form != ONNX_VALUE) {
        return onnx_lay_transposed(r, count, order);
    }
    if (count != 2 || order[0] != 1 || order[1] != 0) {
        return onnx_misfit("moves dimensions of a constant that is no matrix");
    }
    onnx_known y = *k;
    y.copy = own_copy(r);
    y.transposed = !k->transposed;
    return onnx_give(r, 0, y);
}

grail_status onnx_read_constant(onnx_reading *r)
{
    return r->values[r->node->outputs[0]].tensor >= 0
               ? GRAIL_OK
               : onnx_misfit("holds values that are no numbers");
}
