/* The gradient of attention with products of bf16 and f32 sums over squares of pairs (pairs.h),
 * where the processor has matrix units. Scores lie transposed, a row for each key, as in
 * attention_gradient_bf16.c, in strips of 32 queries: all scores of a strip are there at once, so
 * that each is formed once. The gradients of keys and values are sums over the strips of a block,
 * whose weights and slopes wait in squares. */
#include "backend/cpu/attention.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/pairs.h"
#include "backend/cpu/reductions.h"
#include "backend/cpu/rounding.h"
#include "backend/cpu/special.h"
#include "backend/cpu/tasks.h"
#include "base/clones.h"

#include <math.h>

/* Strips of a block, and words of a row of a half. */
enum { STRIPS = 8, ROW_WORDS = PAIR_SIDE / 2 };

typedef struct gradient_job {
    const operation *operation;
    const attention_shape *shape;
    int64_t squares;            /* of a sequence's positions */
    int64_t width, value_width; /* squares of a head's features */
    double *dsinks;             /* [sequences, query_heads], or NULL */
} gradient_job;

/* What a task has, in its worker's memory, by squares; those of a row follow each other. */
typedef struct gradient_room {
    uint32_t *keys, *values; /* on the left: [squares, width], [squares, value_width] */
    uint32_t *key_sums;      /* on the right, summed over keys: [width, squares] */
    /* a strip's, on the right: its queries and output gradients, summed over features */
    uint32_t *queries, *douts;
    uint32_t *query_sums, *dout_sums; /* a block's, summed over queries: [., STRIPS] */
    uint32_t *weights, *slopes;       /* a block's, transposed, on the left: [squares, STRIPS] */
    uint32_t *strip_slopes;           /* on the left: [squares] */
    float *scores, *products;         /* a strip's, transposed: [squares, 32, 32] */
    float *rows;                      /* of a strip: [32, 32 width] */
    float *dk, *dv;                   /* [32 squares, 32 width], [32 squares, 32 value_width] */
} gradient_room;

enum { ROOM_PARTS = 15 };

/* One head's queries. Pointers are to the first row of the sequence, at the head's first feature.
 */
typedef struct gradient_head {
    const gradient_job *job;
    gradient_room room;
    float sink;
    double *dsink; /* NULL where it is not wanted */
    const float *q, *out, *dout;
    float *dq;
} gradient_head;

/* 32 queries, or fewer; what is beside them is 0. */
typedef struct strip {
    int64_t first, queries;
    int64_t place;      /* in its block */
    int64_t start, end; /* squares of keys that any of them sees */
    float largest[PAIR_SIDE], total[PAIR_SIDE], inverse[PAIR_SIDE], projected[PAIR_SIDE];
} strip;

/* -- rows of keys, whose elements are those of 32 queries ----------------------------------------
 */

CPU_CLONES static void take_maxima(int64_t keys, const float *scores, float *largest)
{
    float most[PAIR_SIDE];
    memcpy(most, largest, sizeof most);
    for (int64_t j = 0; j < keys; j++, scores += PAIR_SIDE) {
        for (int i = 0; i < PAIR_SIDE; i++) {
            most[i] = scores[i] > most[i] ? scores[i] : most[i];
        }
    }
    memcpy(largest, most, sizeof most);
}

/* scores <- exp(scores - largest), which are added to the totals */
CPU_CLONES static void take_exponentials(int64_t keys, const float *largest, float *scores,
                                         float *total)
{
    float sums[PAIR_SIDE];
    memcpy(sums, total, sizeof sums);
    for (int64_t j = 0; j < keys; j++, scores += PAIR_SIDE) {
        for (int i = 0; i < PAIR_SIDE; i++) {
            const float e = exp_f32(scores[i] - largest[i]);
            sums[i] += e;
            scores[i] = e;
        }
    }
    memcpy(total, sums, sizeof sums);
}

/* products <- (products - projected) (1 - (scores / cap)^2) */
CPU_CLONES static void slope_caps(int64_t keys, float cap, const float *projected,
                                  const float *scores, float *products)
{
    const float inverse = 1.0F / cap;
    for (int64_t at = 0; at < keys * PAIR_SIDE; at++) {
        const float share = scores[at] * inverse;
        products[at] = (products[at] - projected[at % PAIR_SIDE]) * (1.0F - share * share);
    }
}

/* A square of P and of dS = P (products - projected), rounded. */
CPU_CLONES static void round_square(const strip *s, const float *exponentials,
                                    const float *products, uint32_t *weights, uint32_t *slopes)
{
    for (int j = 0; j < PAIR_SIDE; j++) {
        uint16_t p[PAIR_SIDE];
        uint16_t ds[PAIR_SIDE];
        for (int i = 0; i < PAIR_SIDE; i++) {
            const float weight = exponentials[j * PAIR_SIDE + i] * s->inverse[i];
            p[i] = bf16_rounded(weight);
            ds[i] = bf16_rounded(weight * (products[j * PAIR_SIDE + i] - s->projected[i]));
        }
        memcpy(weights + j * ROW_WORDS, p, sizeof p);
        memcpy(slopes + j * ROW_WORDS, ds, sizeof ds);
    }
}

/* Scores of keys that a query does not see <- -infinity, in the squares where there are some. */
static void hide_keys(const attention_shape *shape, const strip *s, float *scores)
{
    const int64_t last = s->first + s->queries - 1;
    for (int64_t k = s->start; k < s->end; k++, scores += PAIR_SIDE * PAIR_SIDE) {
        const key_range first = visible_keys(shape, s->first, k * PAIR_SIDE, PAIR_SIDE);
        const key_range final = visible_keys(shape, last, k * PAIR_SIDE, PAIR_SIDE);
        const bool all = final.begin == 0 && first.end == PAIR_SIDE && final.end == PAIR_SIDE;
        for (int64_t i = 0; !all && i < PAIR_SIDE; i++) {
            const key_range seen =
                visible_keys(shape, smaller(s->first + i, last), k * PAIR_SIDE, PAIR_SIDE);
            for (int64_t j = 0; j < PAIR_SIDE; j++) {
                const bool hidden = j < seen.begin || j >= seen.end;
                scores[j * PAIR_SIDE + i] = hidden ? -INFINITY : scores[j * PAIR_SIDE + i];
            }
        }
    }
}

/* -- strips ------------------------------------------------------------------------------------ */

/* A strip on the right: along its features, and along its rows as one of a block's. */
static void place_strip(const float *x, int64_t stride, const strip *s, int64_t columns,
                        uint32_t *right, uint32_t *sums)
{
    pairs_order_rows(x, stride, s->queries, columns, right, NULL);
    for (int64_t d = 0; d < pair_squares(columns); d++) {
        uint32_t *square = right + d * PAIR_SQUARE;
        pairs_join_rows(square, sums + (d * STRIPS + s->place) * PAIR_SQUARE);
        pairs_turn(square, square);
    }
}

static void begin_strip(const gradient_head *h, strip *s)
{
    const attention_shape *shape = h->job->shape;
    const int64_t value_dim = attention_value_dim(shape);
    const int64_t stride = shape->query_heads * shape->head_dim;
    const int64_t out_stride = shape->query_heads * value_dim;
    const float *dout = h->dout + s->first * out_stride;
    const float *out = h->out + s->first * out_stride;
    const float *q = h->q + s->first * stride;
    for (int64_t i = 0; i < s->queries; i++) {
        for (int64_t d = 0; d < shape->head_dim; d++) {
            h->room.rows[i * shape->head_dim + d] = (float)shape->scale * q[i * stride + d];
        }
    }
    place_strip(h->room.rows, shape->head_dim, s, shape->head_dim, h->room.queries,
                h->room.query_sums);
    place_strip(dout, out_stride, s, value_dim, h->room.douts, h->room.dout_sums);
    for (int64_t i = 0; i < PAIR_SIDE; i++) {
        s->largest[i] = h->sink;
        s->projected[i] =
            i < s->queries ? (float)row_dot(value_dim, dout + i * out_stride, out + i * out_stride)
                           : 0.0F;
    }
    s->start = first_visible(shape, s->first) / PAIR_SIDE;
    s->end = pair_squares(smaller(shape->length, end_visible(shape, s->first + s->queries - 1)));
}

/* Exponentials of scores, and what slopes are made of. */
static void make_scores(const gradient_head *h, strip *s)
{
    const gradient_job *job = h->job;
    const int64_t keys = (s->end - s->start) * PAIR_SIDE;
    const float cap = (float)job->shape->cap;
    pair_product p = {.count = 1,
                      .left = {h->room.keys + s->start * job->width * PAIR_SQUARE},
                      .right = {h->room.queries},
                      .step = job->width * PAIR_SQUARE,
                      .rows = job->width,
                      .height = s->end - s->start,
                      .width = 1,
                      .sets = true};
    pairs_multiply(&p, h->room.scores, PAIR_SIDE);
    p.left[0] = h->room.values + s->start * job->value_width * PAIR_SQUARE;
    p.right[0] = h->room.douts;
    p.step = job->value_width * PAIR_SQUARE;
    p.rows = job->value_width;
    pairs_multiply(&p, h->room.products, PAIR_SIDE);
    if (cap > 0.0F) {
        attention_cap(keys * PAIR_SIDE, cap, h->room.scores);
        slope_caps(keys, cap, s->projected, h->room.scores, h->room.products);
    }
    hide_keys(job->shape, s, h->room.scores);
    take_maxima(keys, h->room.scores, s->largest);
    for (int64_t i = 0; i < PAIR_SIDE; i++) {
        s->total[i] = isfinite(h->sink) ? expf(h->sink - s->largest[i]) : 0.0F;
    }
    take_exponentials(keys, s->largest, h->room.scores, s->total);
}

/* The sum of the sink's slopes, and what else belongs to a query. */
static void finish_sums(const gradient_head *h, strip *s)
{
    for (int64_t i = 0; i < PAIR_SIDE; i++) {
        s->inverse[i] = 1.0F / s->total[i];
        if (h->dsink != NULL && i < s->queries) {
            const double own = exp((double)h->sink - (double)s->largest[i]) / (double)s->total[i];
            *h->dsink -= own * (double)s->projected[i];
        }
        s->projected[i] = h->job->shape->cap > 0.0 ? 0.0F : s->projected[i];
    }
}

/* Squares of weights and slopes, 0 for the block's other keys; and the gradient of the queries. */
static void end_strip(const gradient_head *h, const strip *s, int64_t start, int64_t end)
{
    const gradient_job *job = h->job;
    const gradient_room *room = &h->room;
    const int64_t head_dim = job->shape->head_dim;
    const int64_t width = PAIR_SIDE * job->width;
    for (int64_t k = start; k < end; k++) {
        uint32_t *weights = room->weights + (k * STRIPS + s->place) * PAIR_SQUARE;
        uint32_t *slopes = room->slopes + (k * STRIPS + s->place) * PAIR_SQUARE;
        const int64_t at = (k - s->start) * PAIR_SIDE * PAIR_SIDE;
        if (k < s->start || k >= s->end) {
            memset(weights, 0, PAIR_SQUARE * sizeof weights[0]);
            memset(slopes, 0, PAIR_SQUARE * sizeof slopes[0]);
            continue;
        }
        uint32_t *own = room->strip_slopes + (k - s->start) * PAIR_SQUARE;
        round_square(s, room->scores + at, room->products + at, weights, slopes);
        pairs_join_rows(slopes, own);
        pairs_turn(own, own);
    }
    pairs_multiply(&(pair_product){.count = 1,
                                   .left = {room->strip_slopes},
                                   .right = {room->key_sums + s->start * PAIR_SQUARE},
                                   .step = job->squares * PAIR_SQUARE,
                                   .rows = s->end - s->start,
                                   .height = 1,
                                   .width = job->width,
                                   .sets = true},
                   room->rows, width);
    for (int64_t i = 0; i < s->queries; i++) {
        float *dq = h->dq + (s->first + i) * job->shape->query_heads * head_dim;
        for (int64_t d = 0; d < head_dim; d++) {
            dq[d] = (float)job->shape->scale * room->rows[i * width + d];
        }
    }
}

/* -- blocks and heads -------------------------------------------------------------------------- */

/* Adds what a block's queries give to keys from square `start` on. */
static void add_sums(const gradient_room *room, int64_t strips, int64_t start, int64_t end,
                     int64_t width, int64_t value_width)
{
    pair_product p = {.count = 1,
                      .left = {room->weights + start * STRIPS * PAIR_SQUARE},
                      .right = {room->dout_sums},
                      .step = STRIPS * PAIR_SQUARE,
                      .rows = strips,
                      .height = end - start,
                      .width = value_width};
    const int64_t first = start * PAIR_SIDE * PAIR_SIDE;
    pairs_multiply(&p, room->dv + first * value_width, PAIR_SIDE * value_width);
    p.left[0] = room->slopes + start * STRIPS * PAIR_SQUARE;
    p.right[0] = room->query_sums;
    p.width = width;
    pairs_multiply(&p, room->dk + first * width, PAIR_SIDE * width);
}

/* Queries from `first` on, as many as a block has. */
static void add_block(const gradient_head *h, int64_t first)
{
    const gradient_job *job = h->job;
    const int64_t length = job->shape->length;
    const int64_t stop = smaller(length, first + STRIPS * PAIR_SIDE);
    const int64_t start = first_visible(job->shape, first) / PAIR_SIDE;
    const int64_t end = pair_squares(smaller(length, end_visible(job->shape, stop - 1)));
    for (int64_t at = first; at < stop; at += PAIR_SIDE) {
        strip s = {.first = at,
                   .queries = smaller(PAIR_SIDE, stop - at),
                   .place = (at - first) / PAIR_SIDE};
        begin_strip(h, &s);
        make_scores(h, &s);
        finish_sums(h, &s);
        end_strip(h, &s, start, end);
    }
    add_sums(&h->room, pair_squares(stop - first), start, end, job->width, job->value_width);
}

/* Orders the keys and values of a head, and clears their gradients. */
static void begin_keys(const gradient_job *job, const float *k, const float *v,
                       const gradient_room *room)
{
    const attention_shape *s = job->shape;
    const int64_t value_dim = attention_value_dim(s);
    const int64_t floats = job->squares * PAIR_SIDE * PAIR_SIDE;
    for (int64_t j = 0; j < job->squares; j++) {
        const int64_t at = j * PAIR_SIDE * s->kv_heads;
        const int64_t rows = smaller(PAIR_SIDE, s->length - j * PAIR_SIDE);
        uint32_t *keys = room->keys + j * job->width * PAIR_SQUARE;
        pairs_order_rows(k + at * s->head_dim, s->kv_heads * s->head_dim, rows, s->head_dim, keys,
                         NULL);
        pairs_order_rows(v + at * value_dim, s->kv_heads * value_dim, rows, value_dim,
                         room->values + j * job->value_width * PAIR_SQUARE, NULL);
        for (int64_t d = 0; d < job->width; d++) {
            pairs_join_rows(keys + d * PAIR_SQUARE,
                            room->key_sums + (d * job->squares + j) * PAIR_SQUARE);
        }
    }
    memset(room->dk, 0, (size_t)(floats * job->width) * sizeof room->dk[0]);
    memset(room->dv, 0, (size_t)(floats * job->value_width) * sizeof room->dv[0]);
}

static void write_rows(int64_t rows, int64_t columns, const float *from, int64_t width, float *to,
                       int64_t stride)
{
    for (int64_t r = 0; r < rows; r++) {
        memcpy(to + r * stride, from + r * width, (size_t)columns * sizeof to[0]);
    }
}

/* Words of all, which are placed where there is memory. */
static int64_t room_words(const gradient_job *job, gradient_room *room, uint32_t *memory)
{
    const int64_t all = job->squares * PAIR_SQUARE;
    const int64_t w = job->width;
    const int64_t vw = job->value_width;
    const int64_t words[ROOM_PARTS] = {all * w,
                                       all * vw,
                                       all * w,
                                       w * PAIR_SQUARE,
                                       vw * PAIR_SQUARE,
                                       STRIPS * w * PAIR_SQUARE,
                                       STRIPS * vw * PAIR_SQUARE,
                                       STRIPS * all,
                                       STRIPS * all,
                                       all,
                                       2 * all,
                                       2 * all,
                                       2 * w * PAIR_SQUARE,
                                       2 * all * w,
                                       2 * all * vw};
    uint32_t *at[ROOM_PARTS] = {NULL};
    int64_t used = 0;
    for (int i = 0; i < ROOM_PARTS; i++) {
        at[i] = memory == NULL ? NULL : memory + used;
        used += words[i];
    }
    *room = (gradient_room){at[0],           at[1],           at[2],           at[3],
                            at[4],           at[5],           at[6],           at[7],
                            at[8],           at[9],           (float *)at[10], (float *)at[11],
                            (float *)at[12], (float *)at[13], (float *)at[14]};
    return used;
}

static void add_head(int64_t task, int64_t worker, float *scratch, void *context)
{
    (void)worker;
    const gradient_job *job = context;
    const attention_shape *s = job->shape;
    const matrix *m = job->operation->m;
    const int64_t value_dim = attention_value_dim(s);
    const int64_t sequence = task / s->kv_heads;
    const int64_t kv_head = task % s->kv_heads;
    const int64_t group = s->query_heads / s->kv_heads;
    const int64_t key = sequence * s->length * s->kv_heads + kv_head;
    gradient_head h = {.job = job};
    (void)room_words(job, &h.room, (uint32_t *)scratch);
    begin_keys(job, (const float *)m[1].memory + key * s->head_dim,
               (const float *)m[2].memory + key * value_dim, &h.room);
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
        const int64_t row = sequence * s->length * s->query_heads + head;
        h.sink = sink_of(m[8], head);
        h.dsink = job->dsinks == NULL ? NULL : job->dsinks + sequence * s->query_heads + head;
        h.q = (const float *)m[0].memory + row * s->head_dim;
        h.out = (const float *)m[3].memory + row * value_dim;
        h.dout = (const float *)m[4].memory + row * value_dim;
        h.dq = (float *)m[5].memory + row * s->head_dim;
        for (int64_t first = 0; first < s->length; first += STRIPS * PAIR_SIDE) {
            add_block(&h, first);
        }
    }
    write_rows(s->length, s->head_dim, h.room.dk, PAIR_SIDE * job->width,
               (float *)m[6].memory + key * s->head_dim, s->kv_heads * s->head_dim);
    write_rows(s->length, value_dim, h.room.dv, PAIR_SIDE * job->value_width,
               (float *)m[7].memory + key * value_dim, s->kv_heads * value_dim);
}

grail_status attention_gradient_in_pairs(const operation *o, double *dsinks)
{
    const attention_shape *s = o->with.attention;
    gradient_room none;
    gradient_job job = {.operation = o,
                        .shape = s,
                        .squares = pair_squares(s->length),
                        .width = pair_squares(s->head_dim),
                        .value_width = pair_squares(attention_value_dim(s)),
                        .dsinks = dsinks};
    return tasks_run(s->sequences * s->kv_heads, (size_t)room_words(&job, &none, NULL), add_head,
                     &job);
}
