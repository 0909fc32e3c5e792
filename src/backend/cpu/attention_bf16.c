/* Attention with products of bf16 and f32 sums; scores, their softmax and what is added up over
 * blocks of keys are f32. Keys and values are rounded and ordered once, in tiles of zero-padded
 * blocks, which takes half of their memory in f32 until the end of the call; queries with their
 * scale and the weights of the softmax for every tile. Few queries go through f32. */
#include "backend/cpu/attention.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/pairs.h"
#include "backend/cpu/rounding.h"
#include "backend/cpu/tasks.h"
#include "base/clones.h"

/* Most queries and keys of a tile. */
enum { MOST_ROWS = MOST_QUERIES };

typedef struct bf16_attention {
    const attention_shape *shape;
    int64_t queries, keys;
    int64_t width, value_width; /* of tiles */
    int64_t key_blocks;         /* of a sequence */
    tile_kernel *score;         /* [queries, width] [width, keys] */
    tile_kernel *mix;           /* [queries, keys] [keys, value_width] */
    const float *k;
    const float *v;
    char *ordered_k; /* [sequences, kv_heads, key_blocks] tiles; owned */
    char *ordered_v;
} bf16_attention;

static int64_t blocks_of(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

/* A multiple of what the library orders at once, which would pad a tile otherwise and write into
 * the padding whenever the tile is used. */
int64_t attention_tile_width(int64_t count)
{
    const int64_t multiple = count > 32 ? 64 : 32;
    return blocks_of(count, multiple) * multiple;
}

int64_t attention_tile_rows(int64_t length)
{
    return attention_tile_width(blocks_of(length, blocks_of(length, MOST_ROWS)));
}

/* tile[height, width] = scale values[rows, columns], rounded, and zeros around. */
CPU_CLONES static void round_tile(int64_t rows, int64_t columns, const float *values,
                                  int64_t stride, float scale, int64_t height, int64_t width,
                                  uint16_t *tile)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *from = values + r * stride;
        uint16_t *to = tile + r * width;
        for (int64_t c = 0; c < columns; c++) {
            to[c] = bf16_rounded(scale * from[c]);
        }
        memset(to + columns, 0, (size_t)(width - columns) * sizeof *to);
    }
    memset(tile + rows * width, 0, (size_t)((height - rows) * width) * sizeof *tile);
}

void attention_round_tile(int64_t rows, int64_t columns, const float *values, int64_t stride,
                          float scale, int64_t height, int64_t width, uint16_t *tile)
{
    round_tile(rows, columns, values, stride, scale, height, width, tile);
}

static void order_keys(int64_t task, int64_t worker, float *scratch, void *context)
{
    bf16_attention *a = context;
    const attention_shape *s = a->shape;
    const int64_t lane = task / a->key_blocks;
    const int64_t first = task % a->key_blocks * a->keys;
    const int64_t left = attention_keys(s) - first;
    const int64_t rows = left < a->keys ? left : a->keys;
    const int64_t value_dim = attention_value_dim(s);
    const int64_t head =
        (lane / s->kv_heads * attention_room(s) + first) * s->kv_heads + lane % s->kv_heads;
    uint16_t *tile = (uint16_t *)scratch;
    char *to_k = a->ordered_k + (size_t)task * onednn_tile_bytes(a->score);
    char *to_v = a->ordered_v + (size_t)task * onednn_tile_bytes(a->mix);
    round_tile(rows, s->head_dim, a->k + head * s->head_dim, s->kv_heads * s->head_dim, 1.0F,
               a->keys, a->width, tile);
    onednn_tile_order(a->score, worker, tile, to_k);
    round_tile(rows, value_dim, a->v + head * value_dim, s->kv_heads * value_dim, 1.0F, a->keys,
               a->value_width, tile);
    onednn_tile_order(a->mix, worker, tile, to_v);
}

/* The scratch memory of a block: a tile of rounded queries, one of rounded weights and one of
 * outputs in f32. */
static uint16_t *query_tile(const query_block *b)
{
    return (uint16_t *)b->scratch;
}

static uint16_t *weight_tile(const query_block *b, const bf16_attention *a)
{
    return query_tile(b) + a->queries * a->width;
}

static float *output_tile(const query_block *b, const bf16_attention *a)
{
    return b->scratch + a->queries * (a->width + a->keys) / 2;
}

static void begin(query_block *b)
{
    const bf16_attention *a = b->products->context;
    round_tile(b->queries, b->shape->head_dim, b->q + b->first * b->q_stride, b->q_stride,
               (float)b->shape->scale, a->queries, a->width, query_tile(b));
}

static size_t tile_of(const query_block *b, const bf16_attention *a, int64_t k0)
{
    return (size_t)(b->kv_lane * a->key_blocks + k0 / a->keys);
}

static void score(query_block *b, int64_t k0, int64_t count)
{
    (void)count;
    const bf16_attention *a = b->products->context;
    onednn_tile_multiply(a->score, b->worker, query_tile(b),
                         a->ordered_k + tile_of(b, a, k0) * onednn_tile_bytes(a->score), b->scores);
}

/* out (+)= tile */
CPU_CLONES static void add_tile(int64_t rows, int64_t columns, const float *tile, int64_t width,
                                bool accumulate, float *out, int64_t stride)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *from = tile + r * width;
        float *to = out + r * stride;
        for (int64_t c = 0; accumulate && c < columns; c++) {
            to[c] += from[c];
        }
        if (!accumulate) {
            memcpy(to, from, (size_t)columns * sizeof *to);
        }
    }
}

void attention_add_tile(int64_t rows, int64_t columns, const float *tile, int64_t width,
                        bool accumulate, float *out, int64_t stride)
{
    add_tile(rows, columns, tile, width, accumulate, out, stride);
}

static void mix(query_block *b, int64_t k0, int64_t count, bool accumulate)
{
    const bf16_attention *a = b->products->context;
    round_tile(b->queries, count, b->scores, a->keys, 1.0F, a->queries, a->keys, weight_tile(b, a));
    onednn_tile_multiply(a->mix, b->worker, weight_tile(b, a),
                         a->ordered_v + tile_of(b, a, k0) * onednn_tile_bytes(a->mix),
                         output_tile(b, a));
    add_tile(b->queries, attention_value_dim(b->shape), output_tile(b, a), a->value_width,
             accumulate, b->out + b->first * b->out_stride, b->out_stride);
}

grail_status cpu_bf16_attention(const operation *o)
{
    grail_status status = GRAIL_OK;
    bf16_attention a = {0};
    if (matrix_count(o->m[0]) == 0) { /* the library knows no empty tiles */
        return GRAIL_OK;
    }
    if (o->with.attention->length <= FEW_QUERIES) { /* to order the keys would take longer */
        return cpu_attention(o);
    }
    if (pairs_has(PAIR_TILES) && !matrix_exists(o->m[5])) { /* whose scores lie in rows */
        return attention_in_pairs(o);
    }
    a = (bf16_attention){.shape = o->with.attention, .k = o->m[1].memory, .v = o->m[2].memory};
    a.queries = attention_tile_rows(o->with.attention->length);
    a.keys = attention_tile_rows(attention_keys(o->with.attention));
    a.width = attention_tile_width(o->with.attention->head_dim);
    a.value_width = attention_tile_width(attention_value_dim(o->with.attention));
    a.key_blocks = blocks_of(attention_keys(o->with.attention), a.keys);
    const size_t tiles =
        (size_t)(o->with.attention->sequences * o->with.attention->kv_heads * a.key_blocks);
    TRY(onednn_tiles_new(a.queries, a.keys, a.width, true, &a.score));
    TRY(onednn_tiles_new(a.queries, a.value_width, a.keys, false, &a.mix));
    TRY(memory_new_unset(&a.ordered_k, tiles, onednn_tile_bytes(a.score)));
    TRY(memory_new_unset(&a.ordered_v, tiles, onednn_tile_bytes(a.mix)));
    const int64_t widest = a.width > a.value_width ? a.width : a.value_width;
    TRY(tasks_run((int64_t)tiles, (size_t)(a.keys * widest / 2), order_keys, &a));
    const attention_products products = {.queries = a.queries,
                                         .keys = a.keys,
                                         .alignment = a.keys,
                                         .scratch = a.queries * (a.width + a.keys) / 2 +
                                                    a.queries * a.value_width,
                                         .context = &a,
                                         .begin = begin,
                                         .score = score,
                                         .mix = mix};
    TRY(attention_run(o, &products));
    TRY(onednn_tiles_status(a.score));
    TRY(onednn_tiles_status(a.mix));
out:
    onednn_tiles_free(a.score);
    onednn_tiles_free(a.mix);
    memory_free(a.ordered_k);
    memory_free(a.ordered_v);
    return status;
}
