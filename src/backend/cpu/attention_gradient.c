/* The gradient of attention in f32, without a matrix of length x length: for each block of queries
 * the softmax's maximum and sum are found over all blocks of keys, and then the weights of each
 * block are formed again. One task per sequence and key/value head does all query heads that share
 * it, so that no two tasks add to the same dK and dV; with fewer of them than threads, threads stay
 * idle. Blocks that causality or the window hides from every query of the block are skipped. */
#include "backend/cpu/attention.h"
#include "backend/cpu/blas.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/reductions.h"
#include "backend/cpu/special.h"
#include "backend/cpu/tasks.h"
#include "base/clones.h"

#include <math.h>

/* A block of queries of one head, and in turn each block of keys that it sees. Pointers are to
 * position 0 of the sequence, at the head's first feature. */
typedef struct gradient_block {
    const attention_shape *shape;
    int64_t q_stride, k_stride, v_stride, out_stride;
    float sink; /* of the head; -infinity where it has none */
    head_biases biases;
    double *dsink; /* of the head in this sequence; NULL where it is not wanted */
    const float *q, *k, *v, *out, *dout;
    float *dq, *dk, *dv;
    int64_t first, queries;
    float *weights;           /* P[queries, KEYS]; the scores before */
    float *slopes;            /* dS[queries, KEYS] without the scale; dOUT V^T before */
    float largest[QUERIES];   /* of each query's scores */
    float inverse[QUERIES];   /* 1 / sum of exp(score - largest) */
    float projected[QUERIES]; /* dout . out */
} gradient_block;

static void make_scores(const gradient_block *b, int64_t k0, int64_t keys)
{
    blas_sgemm(false, true, b->queries, keys, b->shape->head_dim, (float)b->shape->scale,
               b->q + b->first * b->q_stride, b->q_stride, b->k + k0 * b->k_stride, b->k_stride,
               0.0F, b->weights, KEYS);
    for (int64_t query = 0; query < b->queries; query++) {
        float *scores = b->weights + query * KEYS;
        if (b->shape->cap > 0.0) {
            attention_cap(keys, (float)b->shape->cap, scores);
        }
        attention_add_biases(&b->biases, b->first + query, k0, keys, scores);
    }
}

/* slopes - projected is multiplied by 1 - (scores / cap)^2. */
CPU_CLONES static void slope_cap(int64_t count, float cap, float projected,
                                 const float *restrict scores, float *restrict slopes)
{
    const float inverse = 1.0F / cap;
    for (int64_t i = 0; i < count; i++) {
        const float share = scores[i] * inverse;
        slopes[i] = projected + (slopes[i] - projected) * (1.0F - share * share);
    }
}

/* weights <- P, slopes <- P (slopes - projected) */
CPU_CLONES static void slope_row(int64_t count, float largest, float inverse, float projected,
                                 float *restrict weights, float *restrict slopes)
{
    for (int64_t i = 0; i < count; i++) {
        const float weight = exp_f32(weights[i] - largest) * inverse;
        weights[i] = weight;
        slopes[i] = weight * (slopes[i] - projected);
    }
}

static void clear(float *row, int64_t begin, int64_t end)
{
    memset(row + begin, 0, (size_t)(end - begin) * sizeof *row);
}

/* From scores and dOUT V^T to P and dS, which is multiplied by the slope of the cap; both are 0
 * where a key is hidden. */
static void make_slopes(const gradient_block *b, int64_t k0, int64_t keys)
{
    for (int64_t query = 0; query < b->queries; query++) {
        const key_range seen = visible_keys(b->shape, b->first + query, k0, keys);
        float *weights = b->weights + query * KEYS;
        float *slopes = b->slopes + query * KEYS;
        clear(weights, 0, seen.begin);
        clear(slopes, 0, seen.begin);
        if (b->shape->cap > 0.0) {
            slope_cap(seen.end - seen.begin, (float)b->shape->cap, b->projected[query],
                      weights + seen.begin, slopes + seen.begin);
        }
        slope_row(seen.end - seen.begin, b->largest[query], b->inverse[query], b->projected[query],
                  weights + seen.begin, slopes + seen.begin);
        clear(weights, seen.end, keys);
        clear(slopes, seen.end, keys);
    }
}

/* Adds what the block of keys contributes; its scores are in place. */
static void add_keys(const gradient_block *b, int64_t k0, int64_t keys, bool is_first)
{
    const int64_t width = b->shape->head_dim;
    const int64_t value_dim = attention_value_dim(b->shape);
    const float scale = (float)b->shape->scale;
    const int64_t query = b->first * b->q_stride;
    const int64_t key = k0 * b->k_stride;
    const int64_t value = k0 * b->v_stride;
    const float *dout = b->dout + b->first * b->out_stride;
    blas_sgemm(false, true, b->queries, keys, value_dim, 1.0F, dout, b->out_stride, b->v + value,
               b->v_stride, 0.0F, b->slopes, KEYS);
    make_slopes(b, k0, keys);
    blas_sgemm(true, false, keys, value_dim, b->queries, 1.0F, b->weights, KEYS, dout,
               b->out_stride, 1.0F, b->dv + value, b->v_stride);
    blas_sgemm(true, false, keys, width, b->queries, scale, b->slopes, KEYS, b->q + query,
               b->q_stride, 1.0F, b->dk + key, b->k_stride);
    blas_sgemm(false, false, b->queries, width, keys, scale, b->slopes, KEYS, b->k + key,
               b->k_stride, is_first ? 0.0F : 1.0F, b->dq + query, b->q_stride);
}

/* Keys are gone through backwards, since the scores of the last ones are in place. */
static void add_queries(gradient_block *b)
{
    const int64_t start = first_visible(b->shape, b->first);
    const int64_t end = end_visible(b->shape, b->first + b->queries - 1);
    const int64_t last = start + (end - start - 1) / KEYS * KEYS;
    /* Leaves the scores of the last block of keys in place. */
    double total[QUERIES];
    for (int64_t query = 0; query < b->queries; query++) {
        const int64_t at = (b->first + query) * b->out_stride;
        total[query] = isfinite(b->sink) ? 1.0 : 0.0;
        b->largest[query] = b->sink;
        b->projected[query] =
            (float)row_dot(attention_value_dim(b->shape), b->dout + at, b->out + at);
    }
    for (int64_t k0 = start; k0 < end; k0 += KEYS) {
        make_scores(b, k0, smaller(KEYS, end - k0));
        /* Takes the scores of keys k0 .. k0 + keys - 1 into each query's maximum and sum. */
        const int64_t keys = smaller(KEYS, end - k0);
        for (int64_t query = 0; query < b->queries; query++) {
            const key_range seen = visible_keys(b->shape, b->first + query, k0, keys);
            const int64_t count = seen.end - seen.begin;
            const float *row = b->weights + query * KEYS + seen.begin;
            if (count > 0) {
                const float before = b->largest[query];
                const float largest = row_maximum(count, row, before);
                total[query] *= (double)exp_f32(before - largest);
                total[query] += row_exponentials(count, row, largest);
                b->largest[query] = largest;
            }
        }
    }
    for (int64_t query = 0; query < b->queries; query++) {
        b->inverse[query] = (float)(1.0 / total[query]);
        if (b->dsink != NULL) {
            const double own = exp((double)b->sink - (double)b->largest[query]) / total[query];
            *b->dsink -= own * (double)b->projected[query];
        }
    }
    for (int64_t k0 = last; k0 >= start; k0 -= KEYS) {
        const int64_t keys = smaller(KEYS, end - k0);
        if (k0 < last) {
            make_scores(b, k0, keys);
        }
        add_keys(b, k0, keys, k0 == last);
    }
}

typedef struct gradient_job {
    const operation *operation;
    double *dsinks; /* [sequences, query_heads]; NULL where they are not wanted */
} gradient_job;

/* The block at position 0 of a query head and its key/value head. */
static gradient_block block_of_head(const gradient_job *job, int64_t sequence, int64_t head,
                                    int64_t kv_head, float *scratch)
{
    const attention_shape *s = job->operation->with.attention;
    const matrix *m = job->operation->m;
    const int64_t value_dim = attention_value_dim(s);
    const int64_t query = sequence * s->length * s->query_heads + head;
    const int64_t key = sequence * s->length * s->kv_heads + kv_head;
    return (gradient_block){
        .shape = s,
        .q_stride = s->query_heads * s->head_dim,
        .k_stride = s->kv_heads * s->head_dim,
        .v_stride = s->kv_heads * value_dim,
        .out_stride = s->query_heads * value_dim,
        .sink = sink_of(m[8], head),
        .biases = biases_of(s, m[10], sequence, head),
        .dsink = job->dsinks == NULL ? NULL : job->dsinks + sequence * s->query_heads + head,
        .q = (const float *)m[0].memory + query * s->head_dim,
        .k = (const float *)m[1].memory + key * s->head_dim,
        .v = (const float *)m[2].memory + key * value_dim,
        .out = (const float *)m[3].memory + query * value_dim,
        .dout = (const float *)m[4].memory + query * value_dim,
        .dq = (float *)m[5].memory + query * s->head_dim,
        .dk = (float *)m[6].memory + key * s->head_dim,
        .dv = (float *)m[7].memory + key * value_dim,
        .weights = scratch,
        .slopes = scratch + (size_t)QUERIES * KEYS};
}

static void add_head(int64_t task, int64_t worker, float *scratch, void *context)
{
    (void)worker;
    const gradient_job *job = context;
    const attention_shape *s = job->operation->with.attention;
    const int64_t sequence = task / s->kv_heads;
    const int64_t kv_head = task % s->kv_heads;
    const int64_t group = s->query_heads / s->kv_heads;
    for (int64_t i = 0; i < group; i++) {
        gradient_block b = block_of_head(job, sequence, kv_head * group + i, kv_head, scratch);
        if (i == 0) {
            for (int64_t j = 0; j < b.shape->length; j++) {
                clear(b.dk + j * b.k_stride, 0, b.shape->head_dim);
                clear(b.dv + j * b.v_stride, 0, attention_value_dim(b.shape));
            }
        }
        for (; b.first < s->length; b.first += QUERIES) {
            b.queries = smaller(QUERIES, s->length - b.first);
            add_queries(&b);
        }
    }
}

void attention_add_sinks(const attention_shape *s, const double *of_sequences, float *dsinks)
{
    for (int64_t head = 0; head < s->query_heads; head++) {
        double sum = 0.0;
        for (int64_t sequence = 0; sequence < s->sequences; sequence++) {
            sum += of_sequences[sequence * s->query_heads + head];
        }
        dsinks[head] += (float)sum;
    }
}

grail_status cpu_attention_gradient(const operation *o)
{
    grail_status status = GRAIL_OK;
    const attention_shape *s = o->with.attention;
    const matrix dsinks = o->m[9];
    gradient_job job = {.operation = o};
    if (matrix_exists(dsinks)) {
        TRY(memory_new(&job.dsinks, (size_t)(s->sequences * s->query_heads), sizeof(double)));
    }
    TRY(tasks_run(s->sequences * s->kv_heads, (size_t)2 * QUERIES * KEYS, add_head, &job));
    if (matrix_exists(dsinks)) {
        attention_add_sinks(s, job.dsinks, dsinks.memory);
    }
out:
    memory_free(job.dsinks);
    return status;
}
