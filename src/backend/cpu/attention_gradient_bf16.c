/* The gradient of attention with products of bf16 and f32 sums; all between them is f32. Tiles of
 * scores lie transposed, a row for each key: then the weights P and slopes dS are left factors as
 * they are, and what belongs to a query is a vector along rows. For each block of queries the
 * softmax's maximum and sum are found over all blocks of keys, and then the weights of each block
 * are formed again. A task does what attention_gradient.c does in one. */
#include "backend/cpu/attention.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/pairs.h"
#include "backend/cpu/reductions.h"
#include "backend/cpu/rounding.h"
#include "backend/cpu/special.h"
#include "backend/cpu/tasks.h"
#include "base/clones.h"

#include <math.h>

/* Products of tiles: T rows of queries or keys, features padded to D (of keys) and V (of values).
 */
typedef enum tile_product {
    SCORES,     /* [T, T] = K[T, D] Q[T, D]^T */
    SLOPES,     /* [T, T] = V[T, V] dOUT[T, V]^T */
    VALUE_SUMS, /* [T, V] = P^T[T, T] dOUT[T, V] */
    KEY_SUMS,   /* [T, D] = dS^T[T, T] Q[T, D] */
    QUERY_SUMS, /* [D, T] = K^T[D, T] dS^T[T, T] */
    TILE_PRODUCTS
} tile_product;

typedef struct gradient_tiles {
    const operation *operation;
    const attention_shape *shape;
    int64_t rows, width, value_width; /* T, D, V */
    int64_t blocks;                   /* of a sequence */
    tile_kernel *kernel[TILE_PRODUCTS];
    double *dsinks; /* [sequences, query_heads]; NULL where they are not wanted; owned */
} gradient_tiles;

/* What a worker has; all lies in its scratch memory. Keys have tiles for all blocks. */
typedef struct gradient_scratch {
    uint16_t *k, *v, *k_transposed;                    /* left factors */
    uint16_t *rounded;                                 /* a tile on its way to an ordered one */
    char *q_scores, *q_sums, *dout_slopes, *dout_sums; /* right factors */
    char *ordered_slopes;
    float *scores, *slopes, *sums, *dq;
    uint16_t *rounded_weights, *rounded_slopes;
    float *largest, *total, *inverse, *projected; /* [T] of each query; inverse: 1 / total */
} gradient_scratch;

/* A block of queries of one head. Pointers are to its first row, at the head's first feature. */
typedef struct gradient_block {
    const gradient_tiles *tiles;
    const gradient_scratch *s;
    int64_t worker, first, queries;
    int64_t q_stride, k_stride, v_stride, out_stride;
    float sink;
    double *dsink;
    const float *q, *out, *dout;
    float *dq;
    float *dk, *dv;                                 /* of position 0 */
    int64_t begin[MOST_QUERIES], end[MOST_QUERIES]; /* of the keys of a block that each sees */
} gradient_block;

/* -- rows of transposed tiles, whose elements are those of queries ------------------------------
 */

CPU_CLONES static void take_maximum(int64_t count, const float *scores, float *largest)
{
    for (int64_t i = 0; i < count; i++) {
        largest[i] = scores[i] > largest[i] ? scores[i] : largest[i];
    }
}

CPU_CLONES static void take_exponentials(int64_t count, const float *scores, const float *largest,
                                         float *total)
{
    for (int64_t i = 0; i < count; i++) {
        total[i] += exp_f32(scores[i] - largest[i]);
    }
}

/* total <- what it is with a larger maximum */
CPU_CLONES static void shrink_totals(int64_t count, const float *before, const float *largest,
                                     float *total)
{
    for (int64_t i = 0; i < count; i++) {
        total[i] = before[i] == largest[i] ? total[i] : total[i] * exp_f32(before[i] - largest[i]);
    }
}

/* weights <- P, rounded_slopes <- P (slopes - projected), with the slope of a cap; rounded */
CPU_CLONES static void make_row(int64_t count, float cap, const float *largest,
                                const float *total_inverse, const float *projected,
                                const float *scores, const float *slopes,
                                uint16_t *restrict weights, uint16_t *restrict rounded_slopes)
{
    const float inverse = cap > 0.0F ? 1.0F / cap : 0.0F;
    for (int64_t i = 0; i < count; i++) {
        const float share = scores[i] * inverse;
        const float weight = exp_f32(scores[i] - largest[i]) * total_inverse[i];
        const float slope = weight * (slopes[i] - projected[i]) * (1.0F - share * share);
        weights[i] = bf16_rounded(weight);
        rounded_slopes[i] = bf16_rounded(slope);
    }
}

typedef struct seen_queries {
    int64_t begin, end;
} seen_queries;

/* Those that see a key, which are neighbours: both bounds ascend from query to query, so from key
 * to key *s goes on. */
static int64_t find_queries(const gradient_block *b, int64_t key, seen_queries *s)
{
    while (s->begin < b->queries && b->end[s->begin] <= key) {
        s->begin++;
    }
    while (s->end < b->queries && b->begin[s->end] <= key) {
        s->end++;
    }
    return s->end > s->begin ? s->end - s->begin : 0;
}

/* -- blocks ------------------------------------------------------------------------------------ */

static int64_t keys_of_block(const gradient_block *b, int64_t k0)
{
    return smaller(b->tiles->rows, b->tiles->shape->length - k0);
}

/* The scores of the keys from k0 on, and which of them each query sees. */
static void make_scores(gradient_block *b, int64_t k0)
{
    const gradient_tiles *t = b->tiles;
    const int64_t keys = keys_of_block(b, k0);
    onednn_tile_multiply(t->kernel[SCORES], b->worker, b->s->k + k0 * t->width, b->s->q_scores,
                         b->s->scores);
    for (int64_t j = 0; t->shape->cap > 0.0 && j < keys; j++) {
        attention_cap(b->queries, (float)t->shape->cap, b->s->scores + j * t->rows);
    }
    for (int64_t i = 0; i < b->queries; i++) {
        const key_range seen = visible_keys(t->shape, b->first + i, k0, keys);
        b->begin[i] = seen.begin;
        b->end[i] = seen.end;
    }
}

/* Takes them into each query's maximum and sum. */
static void take_scores(gradient_block *b, int64_t k0)
{
    const gradient_scratch *s = b->s;
    const int64_t keys = keys_of_block(b, k0);
    float before[MOST_QUERIES];
    seen_queries q = {0};
    memcpy(before, s->largest, (size_t)b->queries * sizeof before[0]);
    for (int64_t j = 0; j < keys; j++) {
        const int64_t count = find_queries(b, j, &q);
        take_maximum(count, s->scores + j * b->tiles->rows + q.begin, s->largest + q.begin);
    }
    shrink_totals(b->queries, before, s->largest, s->total);
    q = (seen_queries){0};
    for (int64_t j = 0; j < keys; j++) {
        const int64_t count = find_queries(b, j, &q);
        take_exponentials(count, s->scores + j * b->tiles->rows + q.begin, s->largest + q.begin,
                          s->total + q.begin);
    }
}

/* P^T and dS^T, rounded, 0 where a key is hidden. */
static void make_slopes(const gradient_block *b, int64_t k0)
{
    const gradient_tiles *t = b->tiles;
    const gradient_scratch *s = b->s;
    const int64_t keys = keys_of_block(b, k0);
    seen_queries q = {0};
    onednn_tile_multiply(t->kernel[SLOPES], b->worker, s->v + k0 * t->value_width, s->dout_slopes,
                         s->slopes);
    for (int64_t j = 0; j < t->rows; j++) {
        const int64_t count = j < keys ? find_queries(b, j, &q) : 0;
        const int64_t at = j * t->rows;
        memset(s->rounded_weights + at, 0, (size_t)t->rows * sizeof(uint16_t));
        memset(s->rounded_slopes + at, 0, (size_t)t->rows * sizeof(uint16_t));
        make_row(count, (float)t->shape->cap, s->largest + q.begin, s->inverse + q.begin,
                 s->projected + q.begin, s->scores + at + q.begin, s->slopes + at + q.begin,
                 s->rounded_weights + at + q.begin, s->rounded_slopes + at + q.begin);
    }
}

/* Adds what the block of keys contributes; its scores are in place. */
static void add_keys(const gradient_block *b, int64_t k0)
{
    const gradient_tiles *t = b->tiles;
    const gradient_scratch *s = b->s;
    const int64_t keys = keys_of_block(b, k0);
    make_slopes(b, k0);
    onednn_tile_multiply(t->kernel[VALUE_SUMS], b->worker, s->rounded_weights, s->dout_sums,
                         s->sums);
    attention_add_tile(keys, attention_value_dim(t->shape), s->sums, t->value_width, true,
                       b->dv + k0 * b->v_stride, b->v_stride);
    onednn_tile_multiply(t->kernel[KEY_SUMS], b->worker, s->rounded_slopes, s->q_sums, s->sums);
    attention_add_tile(keys, t->shape->head_dim, s->sums, t->width, true, b->dk + k0 * b->k_stride,
                       b->k_stride);
    onednn_tile_order(t->kernel[QUERY_SUMS], b->worker, s->rounded_slopes, s->ordered_slopes);
    onednn_tile_multiply(t->kernel[QUERY_SUMS], b->worker, s->k_transposed + k0 * t->width,
                         s->ordered_slopes, s->sums);
    attention_add_tile(t->shape->head_dim, b->queries, s->sums, t->rows, true, s->dq, t->rows);
}

/* Rounds and orders what the block's queries multiply. */
static void place_queries(const gradient_block *b)
{
    const gradient_tiles *t = b->tiles;
    const gradient_scratch *s = b->s;
    attention_round_tile(b->queries, t->shape->head_dim, b->q, b->q_stride, (float)t->shape->scale,
                         t->rows, t->width, s->rounded);
    onednn_tile_order(t->kernel[SCORES], b->worker, s->rounded, s->q_scores);
    onednn_tile_order(t->kernel[KEY_SUMS], b->worker, s->rounded, s->q_sums);
    attention_round_tile(b->queries, attention_value_dim(t->shape), b->dout, b->out_stride, 1.0F,
                         t->rows, t->value_width, s->rounded);
    onednn_tile_order(t->kernel[SLOPES], b->worker, s->rounded, s->dout_slopes);
    onednn_tile_order(t->kernel[VALUE_SUMS], b->worker, s->rounded, s->dout_sums);
    for (int64_t i = 0; i < b->queries; i++) {
        s->total[i] = isfinite(b->sink) ? 1.0F : 0.0F;
        s->largest[i] = b->sink;
        s->projected[i] = (float)row_dot(attention_value_dim(t->shape), b->dout + i * b->out_stride,
                                         b->out + i * b->out_stride);
    }
    memset(s->dq, 0, (size_t)(t->width * t->rows) * sizeof s->dq[0]);
}

/* The inverse of each query's sum, and what its sink gets. */
static void finish_sums(const gradient_block *b)
{
    const gradient_scratch *s = b->s;
    for (int64_t i = 0; i < b->queries; i++) {
        s->inverse[i] = 1.0F / s->total[i];
        if (b->dsink != NULL) {
            const double own = exp((double)b->sink - (double)s->largest[i]) / (double)s->total[i];
            *b->dsink -= own * (double)s->projected[i];
        }
    }
}

/* By lines of 16 queries, which stay in the first-level cache. */
static void write_queries(const gradient_block *b)
{
    enum { LINE = 16 };
    const float scale = (float)b->tiles->shape->scale;
    for (int64_t first = 0; first < b->queries; first += LINE) {
        const int64_t end = smaller(first + LINE, b->queries);
        for (int64_t d = 0; d < b->tiles->shape->head_dim; d++) {
            for (int64_t i = first; i < end; i++) {
                b->dq[i * b->q_stride + d] = scale * b->s->dq[d * b->tiles->rows + i];
            }
        }
    }
}

/* Keys are gone through backwards, since the scores of the last ones are in place. */
static void add_queries(gradient_block *b)
{
    const gradient_tiles *t = b->tiles;
    const int64_t start = first_visible(t->shape, b->first) / t->rows * t->rows;
    const int64_t end = end_visible(t->shape, b->first + b->queries - 1);
    const int64_t last = start + (end - start - 1) / t->rows * t->rows;
    place_queries(b);
    for (int64_t k0 = start; k0 < end; k0 += t->rows) {
        make_scores(b, k0);
        take_scores(b, k0);
    }
    finish_sums(b);
    for (int64_t k0 = last; k0 >= start; k0 -= t->rows) {
        if (k0 < last) {
            make_scores(b, k0);
        }
        add_keys(b, k0);
    }
    write_queries(b);
}

/* -- heads ------------------------------------------------------------------------------------- */

/* Takes so many bytes of the scratch memory, which is NULL where they are counted alone. */
static void *take(char *memory, size_t *used, size_t bytes)
{
    enum { LINE = 64 };
    void *taken = memory == NULL ? NULL : memory + *used;
    *used += (bytes + LINE - 1) / LINE * LINE;
    return taken;
}

static gradient_scratch scratch_of(const gradient_tiles *t, char *memory, size_t *used)
{
    const size_t rows = (size_t)t->rows;
    const size_t width = (size_t)t->width;
    const size_t value_width = (size_t)t->value_width;
    const size_t widest = width > value_width ? width : value_width;
    const size_t keys = (size_t)t->blocks * rows;
    *used = 0;
    return (gradient_scratch){
        .k = take(memory, used, keys * width * sizeof(uint16_t)),
        .v = take(memory, used, keys * value_width * sizeof(uint16_t)),
        .k_transposed = take(memory, used, keys * width * sizeof(uint16_t)),
        .rounded = take(memory, used, rows * widest * sizeof(uint16_t)),
        .q_scores = take(memory, used, onednn_tile_bytes(t->kernel[SCORES])),
        .q_sums = take(memory, used, onednn_tile_bytes(t->kernel[KEY_SUMS])),
        .dout_slopes = take(memory, used, onednn_tile_bytes(t->kernel[SLOPES])),
        .dout_sums = take(memory, used, onednn_tile_bytes(t->kernel[VALUE_SUMS])),
        .ordered_slopes = take(memory, used, onednn_tile_bytes(t->kernel[QUERY_SUMS])),
        .scores = take(memory, used, rows * rows * sizeof(float)),
        .slopes = take(memory, used, rows * rows * sizeof(float)),
        .sums = take(memory, used, rows * widest * sizeof(float)),
        .dq = take(memory, used, rows * width * sizeof(float)),
        .rounded_weights = take(memory, used, rows * rows * sizeof(uint16_t)),
        .rounded_slopes = take(memory, used, rows * rows * sizeof(uint16_t)),
        .largest = take(memory, used, rows * sizeof(float)),
        .total = take(memory, used, rows * sizeof(float)),
        .projected = take(memory, used, rows * sizeof(float)),
        .inverse = take(memory, used, rows * sizeof(float)),
    };
}

static void transpose_tile(int64_t rows, int64_t columns, const uint16_t *from, uint16_t *to)
{
    for (int64_t c = 0; c < columns; c++) {
        for (int64_t r = 0; r < rows; r++) {
            to[c * rows + r] = from[r * columns + c];
        }
    }
}

/* Rounds the keys and values of a head, and clears their gradients. */
static void place_keys(const gradient_block *b, const float *k, const float *v)
{
    const gradient_tiles *t = b->tiles;
    const int64_t value_dim = attention_value_dim(t->shape);
    for (int64_t k0 = 0; k0 < t->shape->length; k0 += t->rows) {
        const int64_t keys = keys_of_block(b, k0);
        uint16_t *tile = b->s->k + k0 * t->width;
        attention_round_tile(keys, t->shape->head_dim, k + k0 * b->k_stride, b->k_stride, 1.0F,
                             t->rows, t->width, tile);
        transpose_tile(t->rows, t->width, tile, b->s->k_transposed + k0 * t->width);
        attention_round_tile(keys, value_dim, v + k0 * b->v_stride, b->v_stride, 1.0F, t->rows,
                             t->value_width, b->s->v + k0 * t->value_width);
    }
    for (int64_t j = 0; j < t->shape->length; j++) {
        memset(b->dk + j * b->k_stride, 0, (size_t)t->shape->head_dim * sizeof(float));
        memset(b->dv + j * b->v_stride, 0, (size_t)value_dim * sizeof(float));
    }
}

static void add_head(int64_t task, int64_t worker, float *scratch, void *context)
{
    const gradient_tiles *t = context;
    const attention_shape *s = t->shape;
    const matrix *m = t->operation->m;
    const int64_t value_dim = attention_value_dim(s);
    const int64_t sequence = task / s->kv_heads;
    const int64_t kv_head = task % s->kv_heads;
    const int64_t group = s->query_heads / s->kv_heads;
    const int64_t key = sequence * s->length * s->kv_heads + kv_head;
    size_t used = 0;
    const gradient_scratch own = scratch_of(t, (char *)scratch, &used);
    gradient_block b = {.tiles = t,
                        .s = &own,
                        .worker = worker,
                        .q_stride = s->query_heads * s->head_dim,
                        .k_stride = s->kv_heads * s->head_dim,
                        .v_stride = s->kv_heads * value_dim,
                        .out_stride = s->query_heads * value_dim,
                        .dk = (float *)m[6].memory + key * s->head_dim,
                        .dv = (float *)m[7].memory + key * value_dim};
    place_keys(&b, (const float *)m[1].memory + key * s->head_dim,
               (const float *)m[2].memory + key * value_dim);
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
        b.sink = sink_of(m[8], head);
        b.dsink = t->dsinks == NULL ? NULL : t->dsinks + sequence * s->query_heads + head;
        for (b.first = 0; b.first < s->length; b.first += t->rows) {
            const int64_t row = (sequence * s->length + b.first) * s->query_heads + head;
            b.queries = smaller(t->rows, s->length - b.first);
            b.q = (const float *)m[0].memory + row * s->head_dim;
            b.out = (const float *)m[3].memory + row * value_dim;
            b.dout = (const float *)m[4].memory + row * value_dim;
            b.dq = (float *)m[5].memory + row * s->head_dim;
            add_queries(&b);
        }
    }
}

/* -- the operation ----------------------------------------------------------------------------- */

static grail_status make_kernels(gradient_tiles *t)
{
    const int64_t rows = t->rows;
    CHECK(onednn_tiles_new(rows, rows, t->width, true, &t->kernel[SCORES]));
    CHECK(onednn_tiles_new(rows, rows, t->value_width, true, &t->kernel[SLOPES]));
    CHECK(onednn_tiles_new(rows, t->value_width, rows, false, &t->kernel[VALUE_SUMS]));
    CHECK(onednn_tiles_new(rows, t->width, rows, false, &t->kernel[KEY_SUMS]));
    return onednn_tiles_new(t->width, rows, rows, false, &t->kernel[QUERY_SUMS]);
}

static grail_status run(gradient_tiles *t)
{
    size_t bytes = 0;
    CHECK(make_kernels(t));
    (void)scratch_of(t, NULL, &bytes);
    CHECK(tasks_run(t->shape->sequences * t->shape->kv_heads, bytes / sizeof(float), add_head, t));
    for (int i = 0; i < TILE_PRODUCTS; i++) {
        CHECK(onednn_tiles_status(t->kernel[i]));
    }
    return GRAIL_OK;
}

grail_status cpu_bf16_attention_gradient(const operation *o)
{
    grail_status status = GRAIL_OK;
    const attention_shape *s = o->with.attention;
    gradient_tiles t = {.operation = o, .shape = s};
    /* There are no empty tiles, and none of biases. */
    if (matrix_count(o->m[0]) == 0 || matrix_count(o->m[2]) == 0 || matrix_exists(o->m[10])) {
        return cpu_attention_gradient(o);
    }
    t.rows = attention_tile_rows(s->length);
    t.width = attention_tile_width(s->head_dim);
    t.value_width = attention_tile_width(attention_value_dim(s));
    t.blocks = (s->length + t.rows - 1) / t.rows;
    if (matrix_exists(o->m[9])) {
        TRY(memory_new(&t.dsinks, (size_t)(s->sequences * s->query_heads), sizeof(double)));
    }
    TRY(pairs_has(PAIR_TILES) ? attention_gradient_in_pairs(o, t.dsinks) : run(&t));
    if (matrix_exists(o->m[9])) {
        attention_add_sinks(s, t.dsinks, o->m[9].memory);
    }
out:
    for (int i = 0; i < TILE_PRODUCTS; i++) {
        onednn_tiles_free(t.kernel[i]);
    }
    memory_free(t.dsinks);
    return status;
}
