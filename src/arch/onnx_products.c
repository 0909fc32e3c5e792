/* Products with a matrix of weights. */
#include "arch/onnx_arguments.h"
#include "arch/onnx_nodes.h"

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
    if (t->shape[transposed ? 0 : 1] != x->width) {
        return onnx_misfit("its tensor '%.100s' does not read %lld features", t->name,
                           (long long)x->width);
    }
    CHECK(onnx_add_parameter(r, t, transposed, &n.weight));
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
