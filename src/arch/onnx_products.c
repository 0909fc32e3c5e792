/* Products with a matrix of weights. */
#include "arch/onnx_arguments.h"
#include "arch/onnx_nodes.h"

/* What a Flatten put beside each channel are its positions, and the columns of W are those of a
 * convolution as large as the image. */
static grail_status add_weight(const onnx_reading *r, const onnx_known *x, const tensor_view *t,
                               bool transposed, node *n)
{
    extent positions = {1, 1};
    CHECK(x->one ? GRAIL_OK : onnx_positions(r, x, &positions));
    const int64_t taps = positions.height * positions.width;
    const int64_t shape[] = {t->shape[transposed ? 1 : 0], x->width, positions.height,
                             positions.width};
    if (t->shape[transposed ? 0 : 1] != x->width * taps) {
        return onnx_misfit("its tensor '%.100s' does not read %lld features", t->name,
                           (long long)(x->width * taps));
    }
    if (!x->one) {
        *n = onnx_plain(NODE_CONV2D, x, NULL);
        n->window.height.kernel = positions.height;
        n->window.width.kernel = positions.width;
        n->is_whole = true;
    }
    return onnx_add_shaped(r, t, transposed, x->one ? 2 : IMAGE_RANK, shape, &n->weight);
}

/* y = x W^T + b: `is_turned` where input 1 is W^T. */
static grail_status add_linear(onnx_reading *r, bool is_turned, bool has_bias)
{
    onnx_known *x = NULL;
    const tensor_view *t = NULL;
    bool transposed = false;
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(onnx_needs_rank(x, FLAT_RANK));
    CHECK(onnx_tensor_input(r, 1, 2, &transposed, &t));
    node n = onnx_plain(NODE_LINEAR, x, NULL);
    onnx_known y = *x;
    transposed = transposed != is_turned;
    y.width = t->shape[transposed ? 1 : 0];
    y.one = true;
    CHECK(add_weight(r, x, t, transposed, &n));
    CHECK(has_bias ? onnx_add_vector(r, 2, y.width, true, &n.bias) : GRAIL_OK);
    return onnx_give_node(r, &n, y);
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
    return add_linear(r, true, false);
}
