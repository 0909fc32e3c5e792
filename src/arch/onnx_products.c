#include "arch/onnx_products.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_attention.h"
#include "arch/onnx_extents.h"
#include "arch/onnx_layouts.h"

#include <string.h>

grail_status onnx_add_linear(onnx_reading *r, const onnx_linear *linear, int *out)
{
    const int least = r->linear_count > 0 ? r->linear_count : 1; /* the first one is none */
    CHECK(memory_reserve(&r->linears, (size_t)least + 1, sizeof r->linears[0]));
    r->linears[least] = *linear;
    r->linear_count = least + 1;
    *out = least;
    return GRAIL_OK;
}

/* The features that a Linear reads: channels, at all positions where Flatten puts them beside
 * these, in front or behind, or positions in the last dimension. */
static grail_status find_features(onnx_reading *r, const onnx_known *x, onnx_linear *linear,
                                  int64_t *out)
{
    extent at = {0};
    linear->channels_last = strcmp(x->layout, "N,TC") == 0;
    const bool is_whole = linear->channels_last || strcmp(x->layout, "N,CT") == 0;
    linear->mixes = strcmp(x->layout, "N,C,T") == 0;
    *out = x->width;
    if (!is_whole && !linear->mixes) {
        return onnx_ends_in_channels(x)
                   ? GRAIL_OK
                   : onnx_misfit("multiplies other dimensions than that of the channels");
    }
    CHECK(onnx_known_positions(r, x, &at));
    linear->window = is_whole ? at : (extent){0};
    *out = at.height * at.width * (is_whole ? x->width : 1);
    return GRAIL_OK;
}

/* y = x W^T + b: `is_turned` where input 1 is W^T. */
static grail_status add_linear(onnx_reading *r, bool is_turned, bool has_bias)
{
    onnx_known *x = NULL;
    const tensor_view *t = NULL;
    int64_t features = 0;
    onnx_linear linear = {.value = GRAPH_NONE, .node = onnx_node_number(r)};
    CHECK(onnx_any_input(r, 0, &x));
    CHECK(onnx_tensor_input(r, 1, 2, &linear.transposed, &t));
    CHECK(onnx_check_free(r, t));
    onnx_known y = *x;
    linear.input = x->value;
    linear.weight = t;
    linear.transposed = linear.transposed != is_turned;
    CHECK(find_features(r, x, &linear, &features));
    if (t->shape[linear.transposed ? 0 : 1] != features) {
        return onnx_misfit("its tensor '%.100s' does not read %lld features", t->name,
                           (long long)features);
    }
    y.width = linear.mixes ? x->width : onnx_linear_rows(&linear);
    if (linear.window.height > 0) {
        y.one = true;
        onnx_set_layout(&y, "N,C");
    }
    if (has_bias && onnx_has_input(r, 2)) {
        CHECK(onnx_vector_input(r, 2, onnx_linear_rows(&linear), &linear.bias));
    }
    y.value = GRAPH_NONE;
    y.readers = 0;
    CHECK(onnx_add_linear(r, &linear, &y.linear));
    return onnx_give(r, 0, y);
}

grail_status onnx_read_gemm(onnx_reading *r)
{
    if (onnx_real_of(r, "alpha", 1.0) != 1.0 || onnx_real_of(r, "beta", 1.0) != 1.0 ||
        onnx_integer_of(r, "transA", 0) != 0) {
        return onnx_misfit("scales its factors (alpha, beta), or transposes the first one");
    }
    return add_linear(r, onnx_integer_of(r, "transB", 0) == 0, true);
}

grail_status onnx_read_mat_mul(onnx_reading *r)
{
    const onnx_known *y = onnx_has_input(r, 1) ? onnx_known_input(r, 1) : NULL;
    const bool are_heads =
        y != NULL && (y->value != GRAPH_NONE || y->linear != 0 || y->form == ONNX_SHARES);
    return are_heads ? onnx_multiply_heads(r) : add_linear(r, true, false);
}

grail_status onnx_take_bias(onnx_reading *r, bool *taken)
{
    *taken = false;
    for (int i = 0; i < 2 && onnx_has_input(r, 0) && onnx_has_input(r, 1); i++) {
        const onnx_known *b = onnx_known_input(r, i);
        const onnx_known *x = onnx_known_input(r, 1 - i);
        const tensor_view *t = b->tensor < 0 ? NULL : &r->file->tensors[b->tensor].view;
        onnx_linear *linear = x->linear == 0 ? NULL : &r->linears[x->linear];
        if (t != NULL && t->rank == 1 && linear != NULL && linear->value == GRAPH_NONE &&
            t->shape[0] == onnx_linear_rows(linear) && linear->bias == NULL &&
            linear->parent == 0 && x->readers == 1 && (linear->mixes || onnx_ends_in_channels(x))) {
            CHECK(onnx_vector_input(r, i, t->shape[0], &t));
            linear->bias = t;
            *taken = true;
            return onnx_give(r, 0, *x);
        }
    }
    return GRAIL_OK;
}

/* -- parts ------------------------------------------------------------------------------------- */

/* *out <- the rows of `part`, as it has them, of a Linear that mixes positions, or channels. */
static grail_status part_rows(onnx_reading *r, int linear, bool mixes, onnx_linear part, int *out)
{
    const onnx_linear whole = linear == 0 ? (onnx_linear){0} : r->linears[linear]; /* of a list */
    if (linear == 0 || whole.value != GRAPH_NONE || whole.window.height > 0 || whole.run > 0 ||
        whole.mixes != mixes) {
        return onnx_misfit("parts channels of what is no Linear, or is read as a whole, too");
    }
    onnx_linear own = whole;
    own.parent = linear;
    own.node = onnx_node_number(r);
    own.first += part.first;
    own.count = part.count;
    own.run = part.run;
    own.stride = part.stride;
    for (int i = 1; i < r->linear_count; i++) {
        const onnx_linear *other = &r->linears[i];
        if (other->parent == linear && other->first == own.first && other->count == own.count &&
            other->run == own.run) {
            *out = i;
            return GRAIL_OK;
        }
    }
    return onnx_add_linear(r, &own, out);
}

grail_status onnx_part_linear(onnx_reading *r, int linear, int64_t first, int64_t count, int *out)
{
    return part_rows(r, linear, false, (onnx_linear){.first = first, .count = count}, out);
}

grail_status onnx_part_positions(onnx_reading *r, int linear, int64_t first, int64_t count,
                                 int *out)
{
    return part_rows(r, linear, true, (onnx_linear){.first = first, .count = count}, out);
}

grail_status onnx_part_heads(onnx_reading *r, int linear, int64_t heads, int64_t stride,
                             int64_t first, int64_t run, int *out)
{
    const onnx_linear part = {.first = first, .count = heads * run, .run = run, .stride = stride};
    return part_rows(r, linear, false, part, out);
}
