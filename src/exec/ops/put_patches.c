#include "exec/ops/operator_code.h"

/* The window that takes patches of the output: as many as the input has positions. */
static conv_shape reverse_of(const node_run *r, int64_t channels)
{
    return (conv_shape){
        .samples = r->samples,
        .in = r->out,
        .out = r->in,
        .channels_in = channels,
        .channels_out = channels,
        .groups = 1,
        .window = r->node->window,
    };
}

static grail_status run_put_patches(const node_run *r)
{
    const conv_shape shape = reverse_of(r, r->y.columns);
    CHECK(matrix_put_patches(&shape, r->x[0], r->y));
    return matrix_exists(r->bias) ? matrix_add(r->y, r->bias, r->y) : GRAIL_OK;
}

static grail_status back_put_patches(node_back *b)
{
    const conv_shape shape = reverse_of(&b->run, b->dy.columns);
    if (b->reaches[0]) {
        CHECK(back_new(b, 0));
        CHECK(matrix_patches(&shape, 0, shape.samples * shape.out.height, b->dy, b->dx[0]));
    }
    return back_add_column_sums(b, b->dy, b->dbias);
}

const operator_code operator_put_patches = {run_put_patches, back_put_patches};
