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
        .earlier = earlier_positions(r),
        .room = r->past == NULL ? 0 : r->past->room,
    };
}

/* Puts x behind what is kept of each sequence; *all is all of it. */
static grail_status keep(const node_run *r, matrix x, matrix *kept, matrix *all)
{
    const int64_t room = r->past->room;
    const int64_t length = x.rows / r->samples;
    if (!matrix_exists(*kept)) {
        CHECK(matrix_new(x.owner, x.type, r->samples * room, x.columns, kept));
    }
    *all = *kept;
    return matrix_copy(
        by_sample(r, x),
        matrix_columns(by_sample(r, *kept), r->past->earlier * x.columns, length * x.columns));
}

static grail_status run_attention(const node_run *r)
{
    const attention_shape shape = attention_of(r);
    matrix k = r->x[1];
    matrix v = r->x[2];
    if (r->past != NULL) {
        CHECK(keep(r, k, &r->kept_keys->k, &k));
        CHECK(keep(r, v, &r->kept_keys->v, &v));
    }
    return matrix_attention(&shape, r->x[0], k, v, r->y, r->weight);
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
