/* Norms over the positions of each sample. */
#include "arch/onnx_arguments.h"
#include "arch/onnx_nodes.h"

#include <string.h>

static grail_status add_norm(onnx_reading *r, const onnx_known *x, int64_t groups, bool has_weights)
{
    node n = onnx_plain(NODE_GROUP_NORM, x, NULL);
    n.norm.epsilon = onnx_real_of(r, "epsilon", 1e-5);
    if (groups < 1 || x->width % groups != 0) {
        return onnx_misfit("norms %lld groups of %lld channels", (long long)groups,
                           (long long)x->width);
    }
    n.norm.group = x->width / groups;
    CHECK(has_weights ? onnx_add_vector(r, 1, x->width, false, &n.weight) : GRAIL_OK);
    CHECK(has_weights ? onnx_add_vector(r, 2, x->width, false, &n.bias) : GRAIL_OK);
    return onnx_give_node(r, &n, *x);
}

/* Whether input i is a vector of this number alone. */
static grail_status check_all(const onnx_reading *r, int i, int64_t count, float value)
{
    grail_status status = GRAIL_OK;
    const tensor_view *t = NULL;
    float *values = NULL;
    bool same = true;
    CHECK(onnx_tensor_input(r, i, 1, NULL, &t));
    TRY(memory_new(&values, (size_t)t->shape[0], sizeof values[0]));
    TRY(onnx_tensor_f32(&r->file->tensors[onnx_known_input(r, i)->tensor], values));
    for (int64_t k = 0; k < t->shape[0]; k++) {
        same = same && values[k] == value;
    }
    if (!same || t->shape[0] != count) {
        status = onnx_misfit("its tensor '%.100s' scales or shifts groups, expected %g of each",
                             t->name, (double)value);
    }
out:
    memory_free(values);
    return status;
}

/* How many groups of channels a Reshape made, [N, groups, all others]; 0: none. */
static int64_t groups_of(const onnx_known *x)
{
    return strcmp(x->layout, "N,H,DT") == 0  ? x->pieces[1]
           : strcmp(x->layout, "N,,CT") == 0 ? 1
                                             : 0;
}

/* A norm of each channel, or of the groups that a Reshape made, which others scale and shift. */
grail_status onnx_read_instance_norm(onnx_reading *r)
{
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, 0, &x));
    const int64_t groups = groups_of(x);
    if (groups == 0) {
        CHECK(strcmp(x->layout, "N,C,T") == 0 ? GRAIL_OK : onnx_value_input(r, 0, &x));
        CHECK(onnx_needs_rank(x, x->layout[0] == '\0' ? IMAGE_RANK : 3));
        return add_norm(r, x, x->width, true);
    }
    CHECK(check_all(r, 1, groups, 1.0F));
    CHECK(check_all(r, 2, groups, 0.0F));
    return add_norm(r, x, groups, false);
}

grail_status onnx_read_group_norm(onnx_reading *r)
{
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(onnx_needs_rank(x, IMAGE_RANK));
    if (r->file->opset < 21) {
        return onnx_misfit("scales groups, as before operator set 21; grail has a row for scales "
                           "of channels");
    }
    return add_norm(r, x, onnx_integer_of(r, "num_groups", 0), true);
}
