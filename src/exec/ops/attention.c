#include "exec/ops/operator_code.h"

/* Runs of rows of a sample that see each other; 1 where all do. */
static int64_t windows_of(const node_run *r)
{
    const extent w = r->node->attention.windows;
    const int64_t count = w.height > 0 ? w.height * w.width : 1;
    return r->node->attention.spans_windows ? r->in.height * r->in.width / count : count;
}

static attention_shape attention_of(const node_run *r)
{
    const attention_attributes *a = &r->node->attention;
    const int64_t kv_heads = r->x[1].columns / a->head_dim;
    return (attention_shape){
        .sequences = r->samples * windows_of(r),
        .length = r->in.height * r->in.width / windows_of(r),
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

/* -- biases ------------------------------------------------------------------------------------ */

/* The biases of a table, a row for each head or window. */
static grail_status keep_biases(const node_run *r, int64_t heads)
{
    const attention_attributes *a = &r->node->attention;
    const int64_t p = a->positions;
    const int64_t each = a->by_distance ? 2 * p - 1 : p * p;
    const int64_t windows = a->bias_windows > 0 ? a->bias_windows : 1;
    const int64_t own = windows * a->bias_heads;
    return keep_table(r, a->bias_windows > 0 ? own : heads, each, own * each, a->biases);
}

/* *out[windows * heads, positions^2] <- those of each head, 0 without, and of each window. */
static grail_status add_windows(const node_run *r, int64_t heads, matrix *out)
{
    const attention_attributes *a = &r->node->attention;
    CHECK(matrix_pool_take(r->pool, a->bias_windows * heads, r->kept->columns, out));
    for (int64_t w = 0; w < a->bias_windows; w++) {
        const matrix to = matrix_rows(*out, w * heads, heads);
        matrix own = matrix_rows(*r->kept, w * a->bias_heads, a->bias_heads);
        own = a->bias_heads == 1 ? matrix_repeat_row(own, heads) : own;
        CHECK(matrix_exists(r->bias) ? matrix_add(r->bias, own, to) : matrix_copy(own, to));
    }
    return GRAIL_OK;
}

/* *out <- biases as operations take them; *made, of the pool, is what they lie in, if anything. */
static grail_status biases_of(const node_run *r, const attention_shape *s, matrix *made,
                              matrix *out)
{
    const attention_attributes *a = &r->node->attention;
    *out = no_matrix;
    *made = no_matrix;
    if (a->positions == 0) {
        return GRAIL_OK;
    }
    if (s->earlier + s->length > a->positions) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "biases of attention are known for %lld positions, and there are %lld",
                         (long long)a->positions, (long long)(s->earlier + s->length));
    }
    CHECK(a->biases == NULL ? GRAIL_OK : keep_biases(r, s->query_heads));
    CHECK(a->bias_windows > 0 ? add_windows(r, s->query_heads, made) : GRAIL_OK);
    *out = matrix_exists(*made) ? *made : matrix_exists(r->bias) ? r->bias : *r->kept;
    *out = a->by_distance ? *out : matrix_reshape(*out, out->rows * a->positions, a->positions);
    return GRAIL_OK;
}

/* -- windows ----------------------------------------------------------------------------------- */

/* The rows of a batch in the order of windows, and back. */
typedef struct window_order {
    int64_t *to, *back; /* owned; NULL without windows */
} window_order;

static void window_order_fini(window_order *o)
{
    memory_free(o->to);
    memory_free(o->back);
}

static grail_status find_order(const node_run *r, window_order *o)
{
    const extent w = r->node->attention.windows;
    const extent roll = r->node->attention.roll;
    const extent all = r->in;
    const int64_t positions = all.height * all.width;
    int64_t at = 0;
    if (w.height == 0) {
        return GRAIL_OK;
    }
    const extent in = {all.height / w.height, all.width / w.width};
    const bool spans = r->node->attention.spans_windows;
    const extent outer = spans ? in : w; /* of runs, and of the rows in each */
    const extent inner = spans ? w : in;
    const extent apart = spans ? in : (extent){1, 1};
    const extent begin = spans ? (extent){1, 1} : in;
    CHECK(memory_new(&o->to, (size_t)(r->samples * positions), sizeof o->to[0]));
    CHECK(memory_new(&o->back, (size_t)(r->samples * positions), sizeof o->back[0]));
    for (int64_t i = 0; i < r->samples * outer.height * outer.width; i++) {
        const int64_t sample = i / (outer.height * outer.width);
        const int64_t y0 = i / outer.width % outer.height * begin.height + roll.height;
        const int64_t x0 = i % outer.width * begin.width + roll.width;
        for (int64_t k = 0; k < inner.height * inner.width; k++) {
            const int64_t y = (y0 + k / inner.width * apart.height) % all.height;
            const int64_t x = (x0 + k % inner.width * apart.width) % all.width;
            const int64_t row = sample * positions + y * all.width + x;
            o->back[row] = at;
            o->to[at++] = row;
        }
    }
    return GRAIL_OK;
}

/* *out <- x in that order, of the pool, or x itself where there is none. */
static grail_status in_order(const node_run *r, const int64_t *order, matrix x, matrix *out)
{
    *out = x;
    if (order == NULL) {
        return GRAIL_OK;
    }
    *out = no_matrix;
    CHECK(matrix_pool_take(r->pool, x.rows, x.columns, out));
    return matrix_gather(order, NULL, x, *out);
}

static void give_back(const node_run *r, const int64_t *order, int count, matrix m[])
{
    for (int i = 0; i < count && order != NULL; i++) {
        matrix_pool_give(r->pool, &m[i]);
    }
}

/* -- attention --------------------------------------------------------------------------------- */

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

/* The same in windows. */
static grail_status run_windows(const node_run *r, const attention_shape *shape, matrix biases)
{
    enum { VALUES = 4 };
    grail_status status = GRAIL_OK;
    window_order order = {0};
    matrix m[VALUES] = {no_matrix, no_matrix, no_matrix, no_matrix};
    TRY(find_order(r, &order));
    for (int i = 0; i < 3; i++) {
        TRY(in_order(r, order.to, r->x[i], &m[i]));
    }
    TRY(matrix_pool_take(r->pool, r->y.rows, r->y.columns, &m[3]));
    TRY(matrix_attention(shape, m[0], m[1], m[2], m[3], r->weight, biases));
    TRY(matrix_gather(order.back, NULL, m[3], r->y));
out:
    give_back(r, order.to, VALUES, m);
    window_order_fini(&order);
    return status;
}

static grail_status run_attention(const node_run *r)
{
    grail_status status = GRAIL_OK;
    const attention_shape shape = attention_of(r);
    matrix k = r->x[1];
    matrix v = r->x[2];
    matrix biases;
    matrix made;
    TRY(biases_of(r, &shape, &made, &biases));
    if (r->node->attention.windows.height > 0) {
        TRY(run_windows(r, &shape, biases));
        goto out;
    }
    if (r->past != NULL) {
        TRY(keep(r, k, &r->kept_keys->k, &k));
        TRY(keep(r, v, &r->kept_keys->v, &v));
    }
    TRY(matrix_attention(&shape, r->x[0], k, v, r->y, r->weight, biases));
out:
    matrix_pool_give(r->pool, &made);
    return status;
}

/* m: queries, keys, values, the output, its gradient, and those of the first three. */
static grail_status back_attention(node_back *b)
{
    enum { VALUES = 8, READ = 5 };
    grail_status status = GRAIL_OK;
    const node_run *r = &b->run;
    const attention_shape shape = attention_of(r);
    window_order order = {0};
    matrix m[VALUES] = {no_matrix};
    matrix biases;
    matrix made;
    TRY(biases_of(r, &shape, &made, &biases));
    TRY(find_order(r, &order));
    for (int i = 0; i < NODE_MAX_INPUTS; i++) {
        TRY(back_new(b, i));
    }
    for (int i = 0; i < READ; i++) {
        TRY(in_order(r, order.to, i < 3 ? r->x[i] : i == 3 ? r->y : b->dy, &m[i]));
    }
    for (int i = 0; i < 3; i++) {
        m[READ + i] = b->dx[i];
        if (order.to != NULL) {
            m[READ + i] = no_matrix;
            TRY(matrix_pool_take(r->pool, b->dx[i].rows, b->dx[i].columns, &m[READ + i]));
        }
    }
    TRY(matrix_attention_gradient(&shape, m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], r->weight,
                                  b->dweight, biases));
    for (int i = 0; i < 3 && order.to != NULL; i++) {
        TRY(matrix_gather(order.back, NULL, m[READ + i], b->dx[i]));
    }
out:
    give_back(r, order.to, VALUES, m);
    window_order_fini(&order);
    matrix_pool_give(r->pool, &made);
    return status;
}

const operator_code operator_attention = {run_attention, back_attention};
