#include "exec/ops/operator_code.h"

static rope_shape rotation_of(const node_run *r)
{
    const rope_attributes *a = &r->node->rope;
    const int64_t length = r->out.height * r->out.width;
    const int64_t first = earlier_positions(r);
    const bool is_long = a->long_frequency != NULL && first + length > a->longest;
    return (rope_shape){
        .sequences = r->samples,
        .length = length,
        .first = first,
        .head_dim = a->head_dim,
        .turned = a->turned,
        .factor = a->factor,
        .frequency = is_long ? a->long_frequency : a->frequency,
        .angles = a->angles,
        .neighbours = a->neighbours,
    };
}

static grail_status run_rope(const node_run *r)
{
    const rope_shape shape = rotation_of(r);
    if (shape.angles != NULL && shape.first + shape.length > r->node->rope.positions) {
        return error_set(
            GRAIL_ERROR_SHAPE, "rotary positions are known for %lld positions, and there are %lld",
            (long long)r->node->rope.positions, (long long)(shape.first + shape.length));
    }
    if (r->y.allocation != r->x[0].allocation) {
        CHECK(matrix_copy(r->x[0], r->y));
    }
    return matrix_rope(&shape, r->y);
}

static grail_status back_rope(node_back *b)
{
    rope_shape shape = rotation_of(&b->run);
    shape.backward = true;
    const grail_status status = matrix_rope(&shape, b->dy);
    back_pass(b, 0);
    return status;
}

const operator_code operator_rope = {run_rope, back_rope};
