/* Attention in f32, one task per sequence, head and block of queries. A task walks over
 * blocks of keys, keeps the running maximum and sum of each query's softmax (Milakov and
 * Gimelshein 2018) and rescales its output when the maximum moves, so memory does not grow with
 * the length. Blocks that causality or the window hides from every query of the task are skipped;
 * without causality a query sees every key. A NaN or infinity in V may also reach queries of the
 * same block that do not see its row. */
#include "backend/cpu/attention.h"
#include "backend/cpu/blas.h"
#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/reductions.h"
#include "backend/cpu/special.h"
#include "backend/cpu/tasks.h"

#include <math.h>

enum { LANES = 32 };

typedef struct attention_job {
    const attention_shape *shape;
    const float *q;
    const float *k;
    const float *v;
    float *out;
} attention_job;

/* One task: `queries` rows from position `first`. Pointers are to position 0 of the sequence, at
 * the head's first feature. */
typedef struct query_block {
    const attention_shape *shape;
    int64_t first;
    int64_t queries;
    const float *q;
    const float *k;
    const float *v;
    float *out;
    int64_t q_stride;
    int64_t kv_stride;
    float *scores;          /* [queries, KEYS] */
    float largest[QUERIES]; /* running maximum of the scores */
    float total[QUERIES];   /* running sum of exp(score - largest) */
} query_block;

/* values <- exp(values - shift); returns their sum. */
CPU_CLONES static float exponentiate(int64_t count, float *values, float shift)
{
    float lanes[LANES] = {0.0F};
    const int64_t vectors_end = count / LANES * LANES;
    for (int64_t i = 0; i < vectors_end; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            values[i + lane] = exp_f32(values[i + lane] - shift);
            lanes[lane] += values[i + lane];
        }
    }
    for (int64_t i = vectors_end; i < count; i++) {
        values[i] = exp_f32(values[i] - shift);
        lanes[i - vectors_end] += values[i];
    }
    float sum = 0.0F;
    for (int lane = 0; lane < LANES; lane++) {
        sum += lanes[lane];
    }
    return sum;
}

CPU_CLONES static void scale_row(int64_t count, float factor, float *row)
{
    for (int64_t i = 0; i < count; i++) {
        row[i] *= factor;
    }
}

/* Turns the scores of one query over keys k0 .. k0 + keys - 1 into weights relative to its running
 * maximum; hidden keys get 0. */
static void weigh_row(query_block *b, int64_t query, int64_t k0, int64_t keys)
{
    const int64_t position = b->first + query;
    const key_range seen = visible_keys(b->shape, position, k0, keys);
    const int64_t count = seen.end - seen.begin;
    float *row = b->scores + query * KEYS;
    memset(row, 0, (size_t)seen.begin * sizeof *row);
    memset(row + seen.end, 0, (size_t)(keys - seen.end) * sizeof *row);
    if (count == 0) {
        return;
    }
    const float largest = row_maximum(count, row + seen.begin, b->largest[query]);
    const float correction = exp_f32(b->largest[query] - largest);
    const float sum = exponentiate(count, row + seen.begin, largest);
    /* A total of 0 means that nothing was written yet. */
    if (b->total[query] > 0.0F && correction != 1.0F) {
        scale_row(b->shape->head_dim, correction, b->out + position * b->q_stride);
    }
    b->total[query] = b->total[query] * correction + sum;
    b->largest[query] = largest;
}

static void attend_keys(query_block *b, int64_t k0, int64_t keys, bool is_first)
{
    const int64_t head_dim = b->shape->head_dim;
    const float *q = b->q + b->first * b->q_stride;
    float *out = b->out + b->first * b->q_stride;
    blas_sgemm(false, true, b->queries, keys, head_dim, (float)b->shape->scale, q, b->q_stride,
               b->k + k0 * b->kv_stride, b->kv_stride, 0.0F, b->scores, KEYS);
    for (int64_t query = 0; query < b->queries; query++) {
        weigh_row(b, query, k0, keys);
    }
    blas_sgemm(false, false, b->queries, head_dim, keys, 1.0F, b->scores, KEYS,
               b->v + k0 * b->kv_stride, b->kv_stride, is_first ? 0.0F : 1.0F, out, b->q_stride);
}

static void attend_block(query_block *b)
{
    const int64_t start = first_visible(b->shape, b->first);
    const int64_t end = end_visible(b->shape, b->first + b->queries - 1);
    for (int64_t query = 0; query < b->queries; query++) {
        b->largest[query] = -INFINITY;
        b->total[query] = 0.0F;
    }
    for (int64_t k0 = start; k0 < end; k0 += KEYS) {
        attend_keys(b, k0, end - k0 < KEYS ? end - k0 : KEYS, k0 == start);
    }
    for (int64_t query = 0; query < b->queries; query++) {
        scale_row(b->shape->head_dim, 1.0F / b->total[query],
                  b->out + (b->first + query) * b->q_stride);
    }
}

static int64_t query_blocks(const attention_shape *s)
{
    return (s->length + QUERIES - 1) / QUERIES;
}

/* Late blocks see the most keys and come first, which evens out the threads' finish. */
static void attend_task(int64_t task, float *scratch, void *context)
{
    const attention_job *job = context;
    const attention_shape *s = job->shape;
    const int64_t lanes = s->sequences * s->query_heads;
    const int64_t head = task % lanes % s->query_heads;
    const int64_t sequence = task % lanes / s->query_heads;
    const int64_t kv_head = head / (s->query_heads / s->kv_heads);
    const int64_t first = (query_blocks(s) - 1 - task / lanes) * QUERIES;
    const int64_t row = sequence * s->length;
    const int64_t query_offset = (row * s->query_heads + head) * s->head_dim;
    const int64_t kv_offset = (row * s->kv_heads + kv_head) * s->head_dim;
    query_block b = {
        .shape = s,
        .first = first,
        .queries = s->length - first < QUERIES ? s->length - first : QUERIES,
        .q = job->q + query_offset,
        .k = job->k + kv_offset,
        .v = job->v + kv_offset,
        .out = job->out + query_offset,
        .q_stride = s->query_heads * s->head_dim,
        .kv_stride = s->kv_heads * s->head_dim,
        .scores = scratch,
    };
    attend_block(&b);
}

grail_status cpu_attention(const attention_shape *shape, const void *q, const void *k,
                           const void *v, void *out)
{
    attention_job job = {shape, q, k, v, out};
    const int64_t count = shape->sequences * shape->query_heads * query_blocks(shape);
    return tasks_run(count, (size_t)QUERIES * KEYS, attend_task, &job);
}
