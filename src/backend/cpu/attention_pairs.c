/* Attention with products of bf16 and f32 sums over squares of pairs (pairs.h), where the processor
 * has matrix units. A task orders keys and values of one head, which stay in the second-level
 * cache, and walks over strips of 32 queries of the heads that read them: the scores of a strip
 * with a block of keys, their softmax (attention.c says how it goes on over blocks), whose weights
 * are rounded as they are formed, and the sums of values. Squares that no query of a strip sees are
 * skipped. */
#include "backend/cpu/attention.h"
#include "backend/cpu/exponentials.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/pairs.h"
#include "backend/cpu/reductions.h"
#include "backend/cpu/rounding.h"
#include "backend/cpu/special.h"
#include "backend/cpu/tasks.h"
#include "backend/finite.h"
#include "base/clones.h"
#include "base/parallel.h"

#include <math.h>
#include <stdatomic.h>

/* Keys whose scores are formed at once, and words of a row of a half. */
enum { MOST_KEYS = 1024, SCORES = MOST_KEYS + 16, ROW_WORDS = PAIR_SIDE / 2 };

typedef struct attention_job {
    const operation *operation;
    const attention_shape *shape;
    int64_t key_squares;        /* of a sequence */
    int64_t width, value_width; /* squares of a head's features */
    int64_t parts, strips;      /* of the queries of a sequence, and strips of each part */
    _Atomic bool infinite;      /* an output is */
} attention_job;

/* What a task has, in its worker's memory. */
typedef struct attention_scratch {
    uint32_t *keys;    /* on the right, of 32 keys each: [key_squares, width] */
    uint32_t *values;  /* on the right, of 32 features each: [value_width, key_squares] */
    uint32_t *queries; /* on the left: [width] */
    uint32_t *weights; /* on the left: [MOST_KEYS / 32] */
    float *scaled;     /* queries with their scale: [32, head_dim] */
    float *scores;     /* [32, MOST_KEYS] */
    float *sums;       /* of values: [32, 32 value_width] */
} attention_scratch;

/* 32 queries of one head, or fewer. Pointers are to the first row of the sequence, at the head's
 * first feature. */
typedef struct strip {
    const attention_shape *shape;
    const attention_scratch *scratch;
    int64_t first, queries;
    float largest[PAIR_SIDE], total[PAIR_SIDE]; /* running maximum, and sum of exp(score - it) */
} strip;

/* Weights of one query: words[squares of 32] <- exp(scores - largest), rounded. The sum of those
 * that are not. */
CPU_CLONES static float weigh(int64_t squares, const float *scores, float largest, uint32_t *words)
{
    float lanes[PAIR_SIDE] = {0.0F};
    for (int64_t k = 0; k < squares; k++) {
        uint16_t halves[PAIR_SIDE];
        for (int i = 0; i < PAIR_SIDE; i++) {
            const float weight = exp_f32(scores[k * PAIR_SIDE + i] - largest);
            lanes[i] += weight;
            halves[i] = bf16_rounded(weight);
        }
        memcpy(words + k * PAIR_SQUARE, halves, sizeof halves);
    }
    float sum = 0.0F;
    for (int i = 0; i < PAIR_SIDE; i++) {
        sum += lanes[i];
    }
    return sum;
}

#ifdef HAS_EXPONENTIALS
/* The same in the processor's own instructions: a third of the time. */
__attribute__((target("avx512f,avx512bf16"))) static float
weigh_by_unit(int64_t squares, const float *scores, float largest, uint32_t *words)
{
    const __m512 shift = _mm512_set1_ps(largest);
    __m512 sums = _mm512_setzero_ps();
    for (int64_t k = 0; k < squares; k++, scores += PAIR_SIDE) {
        const __m512 a = exponentials(_mm512_sub_ps(_mm512_loadu_ps(scores), shift));
        const __m512 b = exponentials(_mm512_sub_ps(_mm512_loadu_ps(scores + ROW_WORDS), shift));
        sums = _mm512_add_ps(sums, _mm512_add_ps(a, b));
        _mm512_storeu_si512(words + k * PAIR_SQUARE, (__m512i)_mm512_cvtne2ps_pbh(b, a));
    }
    return _mm512_reduce_add_ps(sums);
}

/* max(start, scores of whole squares) */
__attribute__((target("avx512f"))) static float largest_by_unit(int64_t squares,
                                                                const float *scores, float start)
{
    __m512 a = _mm512_set1_ps(start);
    __m512 b = a;
    for (int64_t k = 0; k < squares; k++, scores += PAIR_SIDE) {
        a = _mm512_max_ps(_mm512_loadu_ps(scores), a);
        b = _mm512_max_ps(_mm512_loadu_ps(scores + ROW_WORDS), b);
    }
    return _mm512_reduce_max_ps(_mm512_max_ps(a, b));
}
#else
static float largest_by_unit(int64_t squares, const float *scores, float start)
{
    return row_maximum(PAIR_SIDE * squares, scores, start);
}

static float weigh_by_unit(int64_t squares, const float *scores, float largest, uint32_t *words)
{
    return weigh(squares, scores, largest, words);
}
#endif

/* to <- factor from; whether all is finite. */
CPU_CLONES static bool scale_row(int64_t count, float factor, const float *from, float *to)
{
    uint32_t largest = 0; /* of the bits without a sign */
    for (int64_t i = 0; i < count; i++) {
        const float value = factor * from[i];
        uint32_t bits = 0;
        memcpy(&bits, &value, sizeof bits);
        bits &= 0x7fffffffU;
        largest = bits > largest ? bits : largest;
        to[i] = value;
    }
    return largest < 0x7f800000U;
}

/* Makes weights of the scores of all queries over so many keys from k0, hidden ones 0. */
static void weigh_strip(strip *s, int64_t k0, int64_t keys, bool accumulate)
{
    const int64_t squares = pair_squares(keys);
    const int64_t width = PAIR_SIDE * pair_squares(attention_value_dim(s->shape));
    const bool by_unit = pairs_has(PAIR_VECTORS);
    for (int64_t i = 0; i < s->queries; i++) {
        const key_range seen = visible_keys(s->shape, s->first + i, k0, keys);
        float *scores = s->scratch->scores + i * SCORES;
        uint32_t *words = s->scratch->weights + i * ROW_WORDS;
        const int64_t count = seen.end - seen.begin;
        if (count > 0 && s->shape->cap > 0.0) {
            attention_cap(count, (float)s->shape->cap, scores + seen.begin);
        }
        for (int64_t j = 0; j < (count > 0 ? seen.begin : PAIR_SIDE * squares); j++) {
            scores[j] = -INFINITY;
        }
        for (int64_t j = seen.end; count > 0 && j < PAIR_SIDE * squares; j++) {
            scores[j] = -INFINITY;
        }
        const float before = s->largest[i];
        const float largest = by_unit ? largest_by_unit(squares, scores, before)
                                      : row_maximum(count, scores + seen.begin, before);
        const float correction = count > 0 ? exp_f32(before - largest) : 1.0F;
        const float shift = count > 0 ? largest : 0.0F;
        const float sum = by_unit ? weigh_by_unit(squares, scores, shift, words)
                                  : weigh(squares, scores, shift, words);
        if (accumulate && s->total[i] > 0.0F && correction != 1.0F) {
            float *sums = s->scratch->sums + i * width;
            (void)scale_row(width, correction, sums, sums);
        }
        s->total[i] = s->total[i] * correction + sum;
        s->largest[i] = largest;
    }
}

/* The sums of values that a strip sees, each row times its total. */
static void attend_strip(const attention_job *job, strip *s)
{
    const attention_scratch *room = s->scratch;
    const int64_t start = first_visible(s->shape, s->first) / PAIR_SIDE * PAIR_SIDE;
    const int64_t end = end_visible(s->shape, s->first + s->queries - 1);
    const int64_t width = job->width * PAIR_SQUARE;
    for (int64_t k0 = start; k0 < end; k0 += MOST_KEYS) {
        const int64_t keys = smaller(MOST_KEYS, end - k0);
        const int64_t first = k0 / PAIR_SIDE;
        pairs_multiply(&(pair_product){.count = 1,
                                       .left = {room->queries},
                                       .right = {room->keys + first * width},
                                       .step = width,
                                       .rows = job->width,
                                       .height = 1,
                                       .width = pair_squares(keys),
                                       .sets = true},
                       room->scores, SCORES);
        weigh_strip(s, k0, keys, k0 > start);
        pairs_multiply(&(pair_product){.count = 1,
                                       .left = {room->weights},
                                       .right = {room->values + first * PAIR_SQUARE},
                                       .step = job->key_squares * PAIR_SQUARE,
                                       .rows = pair_squares(keys),
                                       .height = 1,
                                       .width = job->value_width,
                                       .sets = k0 == start},
                       room->sums, PAIR_SIDE * job->value_width);
    }
}

/* Keys and values of a head: k and v are those of the first position. */
static void order_head(const attention_job *job, const float *k, const float *v,
                       const attention_scratch *room)
{
    const attention_shape *s = job->shape;
    const int64_t keys = attention_keys(s);
    const int64_t value_dim = attention_value_dim(s);
    for (int64_t j = 0; j < job->key_squares; j++) {
        const int64_t rows = smaller(PAIR_SIDE, keys - j * PAIR_SIDE);
        uint32_t *to = room->keys + j * job->width * PAIR_SQUARE;
        const int64_t stride = s->kv_heads * s->head_dim;
        pairs_order_rows(k + j * PAIR_SIDE * stride, stride, rows, s->head_dim, to, NULL);
        for (int64_t d = 0; d < job->width; d++) {
            pairs_turn(to + d * PAIR_SQUARE, to + d * PAIR_SQUARE);
        }
        for (int64_t d = 0; d < job->value_width; d++) {
            const int64_t at = j * PAIR_SIDE * s->kv_heads * value_dim + d * PAIR_SIDE;
            const pair_places places = {
                .right = {room->values + (d * job->key_squares + j) * PAIR_SQUARE}};
            pairs_order(v + at, s->kv_heads * value_dim, rows,
                        smaller(PAIR_SIDE, value_dim - d * PAIR_SIDE), &places);
        }
    }
}

static void begin_strip(const attention_job *job, const float *q, float sink, strip *s)
{
    const int64_t head_dim = job->shape->head_dim;
    const int64_t stride = job->shape->query_heads * head_dim;
    const int64_t ahead = PAIR_SIDE * stride; /* the next strip, had while this one is attended */
    const bool follows = s->first + 2 * PAIR_SIDE <= job->shape->length;
    for (int64_t i = 0; i < s->queries; i++) {
        const float *row = q + (s->first + i) * stride;
        for (int64_t j = 0; follows && j < head_dim; j += ROW_WORDS) {
            __builtin_prefetch(row + ahead + j, 0, 2);
        }
        (void)scale_row(head_dim, (float)job->shape->scale, row, s->scratch->scaled + i * head_dim);
    }
    for (int64_t i = 0; i < PAIR_SIDE; i++) {
        s->largest[i] = sink;
        s->total[i] = isfinite(sink) ? 1.0F : 0.0F;
    }
    pairs_order_rows(s->scratch->scaled, head_dim, s->queries, head_dim, s->scratch->queries, NULL);
}

/* Whether the strip's output is finite. */
static bool end_strip(const strip *s, int64_t width, float *out)
{
    const int64_t value_dim = attention_value_dim(s->shape);
    const int64_t stride = s->shape->query_heads * value_dim;
    bool finite = true;
    for (int64_t i = 0; i < s->queries; i++) {
        finite &= scale_row(value_dim, 1.0F / s->total[i], s->scratch->sums + i * width,
                            out + (s->first + i) * stride);
    }
    return finite;
}

static int64_t room_floats(const attention_job *job, attention_scratch *room, float *memory)
{
    const int64_t words[] = {job->key_squares * job->width * PAIR_SQUARE,
                             job->key_squares * job->value_width * PAIR_SQUARE,
                             job->width * PAIR_SQUARE,
                             MOST_KEYS / PAIR_SIDE * PAIR_SQUARE,
                             PAIR_SIDE * job->shape->head_dim,
                             PAIR_SIDE * SCORES,
                             PAIR_SIDE * PAIR_SIDE * job->value_width};
    uint32_t **ordered[] = {&room->keys, &room->values, &room->queries, &room->weights};
    float **plain[] = {&room->scaled, &room->scores, &room->sums};
    int64_t all = 0;
    for (int i = 0; i < 7; i++) {
        if (memory != NULL && i < 4) {
            *ordered[i] = (uint32_t *)(memory + all);
        } else if (memory != NULL) {
            *plain[i - 4] = memory + all;
        }
        all += (words[i] + ROW_WORDS - 1) / ROW_WORDS * ROW_WORDS;
    }
    return all;
}

static void attend_part(int64_t task, int64_t worker, float *scratch, void *context)
{
    (void)worker;
    attention_job *job = context;
    const attention_shape *s = job->shape;
    const matrix *m = job->operation->m;
    const int64_t value_dim = attention_value_dim(s);
    const int64_t lane = task / job->parts;
    const int64_t sequence = lane / s->kv_heads;
    const int64_t kv_head = lane % s->kv_heads;
    const int64_t group = s->query_heads / s->kv_heads;
    const int64_t key_head = sequence * attention_room(s) * s->kv_heads + kv_head;
    const int64_t begin = task % job->parts * job->strips * PAIR_SIDE;
    const int64_t end = smaller(s->length, begin + job->strips * PAIR_SIDE);
    attention_scratch room = {0};
    (void)room_floats(job, &room, scratch);
    order_head(job, (const float *)m[1].memory + key_head * s->head_dim,
               (const float *)m[2].memory + key_head * value_dim, &room);
    bool finite = true;
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
        const int64_t query_head = sequence * s->length * s->query_heads + head;
        for (int64_t first = begin; first < end; first += PAIR_SIDE) {
            strip now = {.shape = s,
                         .scratch = &room,
                         .first = first,
                         .queries = smaller(PAIR_SIDE, end - first)};
            begin_strip(job, (const float *)m[0].memory + query_head * s->head_dim,
                        sink_of(m[4], head), &now);
            attend_strip(job, &now);
            finite &= end_strip(&now, PAIR_SIDE * job->value_width,
                                (float *)m[3].memory + query_head * value_dim);
        }
    }
    if (!finite) {
        atomic_store(&job->infinite, true);
    }
}

grail_status attention_in_pairs(const operation *o)
{
    enum { TASKS_PER_THREAD = 4 };
    const attention_shape *s = o->with.attention;
    attention_job job = {.operation = o,
                         .shape = s,
                         .key_squares = pair_squares(attention_keys(s)),
                         .width = pair_squares(s->head_dim),
                         .value_width = pair_squares(attention_value_dim(s))};
    attention_scratch room = {0};
    const int64_t lanes = s->sequences * s->kv_heads;
    const int64_t threads = parallel_threads();
    const int64_t wanted = threads > 1 ? (TASKS_PER_THREAD * threads + lanes - 1) / lanes : 1;
    const int64_t strips = pair_squares(s->length);
    job.strips = (strips + wanted - 1) / wanted;
    job.parts = (strips + job.strips - 1) / job.strips;
    CHECK(tasks_run(lanes * job.parts, (size_t)room_floats(&job, &room, NULL), attend_part, &job));
    if (!job.infinite) {
        finite_found(o->m[3]);
    }
    return GRAIL_OK;
}
