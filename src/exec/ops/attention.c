#include "exec/ops/operator_code.h"

static attention_shape attention_of(const node_run *r)
{
    const attention_attributes *a = &r->node->attention;
    const int64_t kv_heads = r->x[1].columns / a->head_dim;
    return (attention_shape){
        .sequences = r->samples,
        .length = r->in.height * r->in.width,
        .query_heads = r->x[0].columns / a->head_dim,
        .kv_heads = kv_heads,
        .head_dim = a->head_dim,
        .window = a->window,
        .bidirectional = a->bidirectional,
        .scale = a->scale,
        .cap = a->cap,
        .value_dim = kv_heads == 0 ? 0 : r->columns[2] / kv_heads,
    };
}

static grail_status run_attention(const node_run *r)
{
    const attention_shape shape = attention_of(r);
    return matrix_attention(&shape, r->x[0], r->x[1], r->x[2], r->y, r->weight);
}

static grail_status back_attention(node_back *b)
{
    const node_run *r = &b->run;
    const attention_shape shape = attention_of(r);
    for (int i = 0; i < NODE_MAX_INPUTS; i++) {
        CHECK(back_new(b, i));
    }
    return matrix_attention_gradient(&shape, r->x[0], r->x[1], r->x[2], r->y, b->dy, b->dx[0],
                                     b->dx[1], b->dx[2], r->weight, b->dweight);
}

const operator_code operator_attention = {run_attention, back_attention};
