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

/* The biases of a table, a row for each head; made for the first batch. */
static grail_status keep_biases(const node_run *r, int64_t heads)
{
    grail_status status = GRAIL_OK;
    host_view v = {0};
    const attention_attributes *a = &r->node->attention;
    const int64_t p = a->positions;
    const int64_t each = a->by_distance ? 2 * p - 1 : p * p;
    if (matrix_exists(*r->kept)) {
        return GRAIL_OK;
    }
    TRY(matrix_new(r->x[0].owner, r->x[0].type, heads, each, r->kept));
    TRY(host_view_open(*r->kept, GRAIL_DTYPE_F32, HOST_WRITES, &v));
    for (int64_t i = 0; i < heads * each; i++) {
        ((float *)v.values)[i] = (float)a->biases[a->bias_heads == 1 ? i % each : i];
    }
    TRY(host_view_close(&v));
out:
    host_view_drop(&v);
    if (status != GRAIL_OK) {
        matrix_free(r->kept);
    }
    return status;
}

/* As operations take them: a row for each head by distance, else for each head and query. */
static grail_status biases_of(const node_run *r, const attention_shape *s, matrix *out)
{
    const attention_attributes *a = &r->node->attention;
    *out = no_matrix;
    if (a->positions == 0) {
        return GRAIL_OK;
    }
    if (s->earlier + s->length > a->positions) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "biases of attention are known for %lld positions, and there are %lld",
                         (long long)a->positions, (long long)(s->earlier + s->length));
    }
    CHECK(matrix_exists(r->bias) ? GRAIL_OK : keep_biases(r, s->query_heads));
    *out = matrix_exists(r->bias) ? r->bias : *r->kept;
    *out =
        a->by_distance ? *out : matrix_reshape(*out, s->query_heads * a->positions, a->positions);
    return GRAIL_OK;
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
    matrix biases;
    CHECK(biases_of(r, &shape, &biases));
    if (r->past != NULL) {
        CHECK(keep(r, k, &r->kept_keys->k, &k));
        CHECK(keep(r, v, &r->kept_keys->v, &v));
    }
    return matrix_attention(&shape, r->x[0], k, v, r->y, r->weight, biases);
}

static grail_status back_attention(node_back *b)
{
    const node_run *r = &b->run;
    const attention_shape shape = attention_of(r);
    matrix biases;
    CHECK(biases_of(r, &shape, &biases));
    for (int i = 0; i < NODE_MAX_INPUTS; i++) {
        CHECK(back_new(b, i));
    }
    return matrix_attention_gradient(&shape, r->x[0], r->x[1], r->x[2], r->y, b->dy, b->dx[0],
                                     b->dx[1], b->dx[2], r->weight, b->dweight, biases);
}

const operator_code operator_attention = {run_attention, back_attention};
