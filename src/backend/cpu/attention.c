/* Attention, one task per sequence, head and block of queries. A task walks over
 * blocks of keys, keeps the running maximum and sum of each query's softmax (Milakov and
 * Gimelshein 2018) and rescales its output when the maximum moves, so the memory of a task does
 * not grow with the length. Blocks that causality or the window hides from every query of the task
 * are skipped; without causality a query sees every key. A NaN or infinity in V may also reach
 * queries of the same block that do not see its row. */
#include "backend/cpu/attention.h"
#include "backend/cpu/blas.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/reductions.h"
#include "backend/cpu/special.h"
#include "backend/cpu/tasks.h"
#include "base/clones.h"

#include <math.h>

enum { LANES = 32, KEY_LANES = 16, FEW_KEYS = 128 };

typedef struct attention_job {
    const operation *operation;
    const attention_products *products;
} attention_job;

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

CPU_CLONES static void cap_row(int64_t count, float cap, float *scores)
{
    const float inverse = 1.0F / cap;
    for (int64_t i = 0; i < count; i++) {
        scores[i] = cap * tanh_f32(scores[i] * inverse);
    }
}

void attention_cap(int64_t count, float cap, float *scores)
{
    cap_row(count, cap, scores);
}

CPU_CLONES static void add_row(int64_t count, const float *restrict x, float *restrict scores)
{
    for (int64_t i = 0; i < count; i++) {
        scores[i] += x[i];
    }
}

void attention_add_biases(const head_biases *b, int64_t query, int64_t k0, int64_t count,
                          float *scores)
{
    if (b->first != NULL) {
        add_row(count, b->first + query * b->step + k0, scores);
    }
}

/* Turns the scores of one query over keys k0 .. k0 + keys - 1 into weights relative to its running
 * maximum; hidden keys get 0. */
static void weigh_row(query_block *b, int64_t query, int64_t k0, int64_t keys, bool accumulate)
{
    const int64_t row_of_out = b->first + query;
    const key_range seen = visible_keys(b->shape, row_of_out, k0, keys);
    const int64_t count = seen.end - seen.begin;
    float *row = b->scores + query * b->products->keys;
    memset(row, 0, (size_t)seen.begin * sizeof *row);
    memset(row + seen.end, 0, (size_t)(keys - seen.end) * sizeof *row);
    if (count == 0) {
        return;
    }
    if (b->shape->cap > 0.0) {
        attention_cap(count, (float)b->shape->cap, row + seen.begin);
    }
    attention_add_biases(&b->biases, row_of_out, k0 + seen.begin, count, row + seen.begin);
    const float largest = row_maximum(count, row + seen.begin, b->largest[query]);
    const float correction = exp_f32(b->largest[query] - largest);
    const float sum = exponentiate(count, row + seen.begin, largest);
    /* A total of 0 means that no key was seen yet. */
    if (accumulate && b->total[query] > 0.0F && correction != 1.0F) {
        scale_row(attention_value_dim(b->shape), correction, b->out + row_of_out * b->out_stride);
    }
    b->total[query] = b->total[query] * correction + sum;
    b->largest[query] = largest;
}

static void begin_block(query_block *b)
{
    for (int64_t query = 0; query < b->queries; query++) {
        b->largest[query] = b->sink;
        b->total[query] = isfinite(b->sink) ? 1.0F : 0.0F;
    }
    b->products->begin(b);
}

static void attend_keys(query_block *b, int64_t k0, int64_t keys, bool accumulate)
{
    b->products->score(b, k0, keys);
    for (int64_t query = 0; query < b->queries; query++) {
        weigh_row(b, query, k0, keys, accumulate);
    }
    b->products->mix(b, k0, keys, accumulate);
}

static void end_block(query_block *b)
{
    for (int64_t query = 0; query < b->queries; query++) {
        scale_row(attention_value_dim(b->shape), 1.0F / b->total[query],
                  b->out + (b->first + query) * b->out_stride);
    }
}

/* Rows of keys or values that are read next, of all heads. */
static void fetch_rows(const float *from, int64_t stride, int64_t first, int64_t count)
{
    enum { LINE = 64 / sizeof(float) };
    const float *end = from + (first + count) * stride;
    for (const float *line = from + first * stride; line < end; line += LINE) {
        __builtin_prefetch(line, 0, 2);
    }
}

/* Blocks of several heads of one sequence, with the same queries: they go through its keys
 * together, which come into the cache once. */
static void attend_blocks(query_block *blocks, int64_t count)
{
    const query_block *b = &blocks[0];
    const int64_t step = b->products->keys;
    const int64_t alignment = b->products->alignment;
    const int64_t start = first_visible(b->shape, b->first) / alignment * alignment;
    const int64_t end = end_visible(b->shape, b->first + b->queries - 1);
    for (int64_t i = 0; i < count; i++) {
        begin_block(&blocks[i]);
    }
    for (int64_t k0 = start; k0 < end; k0 += step) {
        const int64_t keys = end - k0 < step ? end - k0 : step;
        const int64_t next = end - k0 - keys < step ? end - k0 - keys : step;
        if (count == b->shape->query_heads) {
            fetch_rows(b->k, b->k_stride, k0 + keys, next);
            fetch_rows(b->v, b->v_stride, k0 + keys, next);
        }
        for (int64_t i = 0; i < count; i++) {
            attend_keys(&blocks[i], k0, keys, k0 > start);
        }
    }
    for (int64_t i = 0; i < count; i++) {
        end_block(&blocks[i]);
    }
}

static int64_t query_blocks(const attention_job *job)
{
    return (job->operation->with.attention->length + job->products->queries - 1) /
           job->products->queries;
}

static query_block block_of(const attention_job *job, int64_t sequence, int64_t head, int64_t first,
                            int64_t worker, float *scratch)
{
    const matrix *m = job->operation->m;
    const attention_shape *s = job->operation->with.attention;
    const int64_t at_once = job->products->queries;
    const int64_t kv_head = head / (s->query_heads / s->kv_heads);
    const int64_t query_head = sequence * s->length * s->query_heads + head;
    const int64_t key_head = sequence * attention_room(s) * s->kv_heads + kv_head;
    const int64_t value_dim = attention_value_dim(s);
    return (query_block){
        .shape = s,
        .products = job->products,
        .worker = worker,
        .kv_lane = sequence * s->kv_heads + kv_head,
        .first = first,
        .queries = s->length - first < at_once ? s->length - first : at_once,
        .q = (const float *)m[0].memory + query_head * s->head_dim,
        .k = (const float *)m[1].memory + key_head * s->head_dim,
        .v = (const float *)m[2].memory + key_head * value_dim,
        .out = (float *)m[3].memory + query_head * value_dim,
        .q_stride = s->query_heads * s->head_dim,
        .k_stride = s->kv_heads * s->head_dim,
        .v_stride = s->kv_heads * value_dim,
        .out_stride = s->query_heads * value_dim,
        .sink = sink_of(m[4], head),
        .biases = biases_of(s, m[5], sequence, head),
        .scores = scratch,
        .scratch = scratch + at_once * job->products->keys,
    };
}

/* Late blocks see the most keys and come first, which evens out the threads' finish. */
static void attend_task(int64_t task, int64_t worker, float *scratch, void *context)
{
    const attention_job *job = context;
    const attention_shape *s = job->operation->with.attention;
    const int64_t lanes = s->sequences * s->query_heads;
    const int64_t head = task % lanes % s->query_heads;
    const int64_t sequence = task % lanes / s->query_heads;
    const int64_t first = (query_blocks(job) - 1 - task / lanes) * job->products->queries;
    query_block b = block_of(job, sequence, head, first, worker, scratch);
    attend_blocks(&b, 1);
}

grail_status attention_run(const operation *o, const attention_products *products)
{
    const attention_shape *s = o->with.attention;
    attention_job job = {o, products};
    const int64_t count = s->sequences * s->query_heads * query_blocks(&job);
    return tasks_run(count, (size_t)(products->queries * products->keys + products->scratch),
                     attend_task, &job);
}

static void begin_f32(query_block *b)
{
    (void)b;
}

static void score_f32(query_block *b, int64_t k0, int64_t count)
{
    const float *q = b->q + b->first * b->q_stride;
    blas_sgemm(false, true, b->queries, count, b->shape->head_dim, (float)b->shape->scale, q,
               b->q_stride, b->k + k0 * b->k_stride, b->k_stride, 0.0F, b->scores, KEYS);
}

static void mix_f32(query_block *b, int64_t k0, int64_t count, bool accumulate)
{
    float *out = b->out + b->first * b->out_stride;
    blas_sgemm(false, false, b->queries, attention_value_dim(b->shape), count, 1.0F, b->scores,
               KEYS, b->v + k0 * b->v_stride, b->v_stride, accumulate ? 1.0F : 0.0F, out,
               b->out_stride);
}

/* The scores of few queries, whose keys are not worth to be ordered for a product. */
CPU_CLONES static void score_row(int64_t count, int64_t width, float scale, const float *q,
                                 const float *keys, int64_t stride, float *scores)
{
    const int64_t vectors_end = width / KEY_LANES * KEY_LANES;
    for (int64_t j = 0; j < count; j++) {
        const float *key = keys + j * stride;
        float lanes[KEY_LANES] = {0.0F};
        float halves[KEY_LANES / 2];
        float quarters[KEY_LANES / 4];
        for (int64_t d = 0; d < vectors_end; d += KEY_LANES) {
            for (int lane = 0; lane < KEY_LANES; lane++) {
                lanes[lane] += q[d + lane] * key[d + lane];
            }
        }
        for (int64_t d = vectors_end; d < width; d++) {
            lanes[d - vectors_end] += q[d] * key[d];
        }
        for (int lane = 0; lane < KEY_LANES / 2; lane++) {
            halves[lane] = lanes[lane] + lanes[lane + KEY_LANES / 2];
        }
        for (int lane = 0; lane < KEY_LANES / 4; lane++) {
            quarters[lane] = halves[lane] + halves[lane + KEY_LANES / 4];
        }
        scores[j] = scale * ((quarters[0] + quarters[2]) + (quarters[1] + quarters[3]));
    }
}

/* The rows of several keys are added in one pass over `out`, which would wait for itself else. */
CPU_CLONES static void mix_row(int64_t count, int64_t width, const float *weights, const float *v,
                               int64_t stride, float *restrict out)
{
    enum { AT_ONCE = 4 };
    const int64_t blocks_end = count / AT_ONCE * AT_ONCE;
    for (int64_t j = 0; j < blocks_end; j += AT_ONCE) {
        const float *w = weights + j;
        const float *a = v + j * stride;
        const float *b = a + stride;
        const float *c = b + stride;
        const float *e = c + stride;
        for (int64_t d = 0; d < width; d++) {
            out[d] = (((out[d] + w[0] * a[d]) + w[1] * b[d]) + w[2] * c[d]) + w[3] * e[d];
        }
    }
    for (int64_t j = blocks_end; j < count; j++) {
        for (int64_t d = 0; d < width; d++) {
            out[d] += weights[j] * v[j * stride + d];
        }
    }
}

static void score_few(query_block *b, int64_t k0, int64_t count)
{
    for (int64_t query = 0; query < b->queries; query++) {
        score_row(count, b->shape->head_dim, (float)b->shape->scale,
                  b->q + (b->first + query) * b->q_stride, b->k + k0 * b->k_stride, b->k_stride,
                  b->scores + query * FEW_KEYS);
    }
}

static void mix_few(query_block *b, int64_t k0, int64_t count, bool accumulate)
{
    const int64_t width = attention_value_dim(b->shape);
    for (int64_t query = 0; query < b->queries; query++) {
        float *out = b->out + (b->first + query) * b->out_stride;
        if (!accumulate) {
            memset(out, 0, (size_t)width * sizeof *out);
        }
        mix_row(count, width, b->scores + query * FEW_KEYS, b->v + k0 * b->v_stride, b->v_stride,
                out);
    }
}

/* Heads that go through the keys of a sequence together; of few sequences, which all threads are to
 * share, those that read the same ones. */
static int64_t heads_together(const attention_shape *s)
{
    enum { MANY = 16 };
    return s->sequences >= MANY ? s->query_heads : s->query_heads / s->kv_heads;
}

/* A multiple that leaves the scratch memory of the next thread aligned, too. */
static size_t floats_of_blocks(int64_t heads)
{
    enum { ALIGNED = 64 };
    return ((size_t)heads * sizeof(query_block) / ALIGNED + 1) * ALIGNED / sizeof(float);
}

/* Few queries of one sequence. The blocks of its heads lie in the scratch memory, in front of what
 * they need. */
static void attend_few(int64_t task, int64_t worker, float *scratch, void *context)
{
    const attention_job *job = context;
    const attention_shape *s = job->operation->with.attention;
    const int64_t heads = heads_together(s);
    const int64_t parts = s->query_heads / heads;
    query_block *blocks = (query_block *)(void *)scratch;
    float *scores = scratch + floats_of_blocks(heads);
    for (int64_t i = 0; i < heads; i++) {
        const int64_t head = task % parts * heads + i;
        blocks[i] = block_of(job, task / parts, head, 0, worker, scores);
    }
    attend_blocks(blocks, heads);
}

grail_status cpu_attention(const operation *o)
{
    static const attention_products products = {.queries = QUERIES,
                                                .keys = KEYS,
                                                .alignment = 1,
                                                .begin = begin_f32,
                                                .score = score_f32,
                                                .mix = mix_f32};
    static const attention_products few = {.queries = FEW_QUERIES,
                                           .keys = FEW_KEYS,
                                           .alignment = 1,
                                           .begin = begin_f32,
                                           .score = score_few,
                                           .mix = mix_few};
    const attention_shape *s = o->with.attention;
    if (s->length > FEW_QUERIES || s->kv_heads == 0) {
        return attention_run(o, &products);
    }
    attention_job job = {o, &few};
    const int64_t heads = heads_together(s);
    return tasks_run(s->sequences * (s->query_heads / heads),
                     floats_of_blocks(heads) + FEW_QUERIES * FEW_KEYS, attend_few, &job);
}
