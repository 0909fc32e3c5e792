/* What attention in f32 and of bf16 and its gradient share: which keys a query sees, the size of
 * blocks, and the walk over them. */
#ifndef GRAIL_BACKEND_CPU_ATTENTION_H
#define GRAIL_BACKEND_CPU_ATTENTION_H

#include "backend/kind.h"

#include <math.h>

/* Queries and keys whose scores are computed at once in f32, and most queries ever. */
enum { QUERIES = 192, KEYS = 384, MOST_QUERIES = 256 };
/* So few queries of a sequence read its keys and values as they are, in f32. */
enum { FEW_QUERIES = 4 };

/** First key that a query sees, row `query` of its sequence. */
static inline int64_t first_visible(const attention_shape *s, int64_t query)
{
    const int64_t position = s->earlier + query;
    return s->window > 0 && position >= s->window ? position - s->window + 1 : 0;
}

/** One past the last key that it sees. */
static inline int64_t end_visible(const attention_shape *s, int64_t query)
{
    const int64_t position = s->earlier + query;
    const bool to_end = s->window == 0 || s->length - query <= s->window;
    const int64_t behind = to_end ? attention_keys(s) : position + s->window;
    return s->bidirectional ? behind : position + 1;
}

typedef struct key_range {
    int64_t begin, end;
} key_range;

/** Those of `keys` keys from k0 that it sees, counted from k0. */
static inline key_range visible_keys(const attention_shape *s, int64_t query, int64_t k0,
                                     int64_t keys)
{
    const int64_t visible = first_visible(s, query);
    const int64_t begin = visible > k0 ? (visible - k0 < keys ? visible - k0 : keys) : 0;
    const int64_t seen = end_visible(s, query) - k0;
    const int64_t end = seen < keys ? seen : keys;
    return (key_range){begin, end > begin ? end : begin};
}

/** Those of a head in operand `biases`, of its query and key 0 on, and from query to query; NULL:
 * there are none. */
typedef struct head_biases {
    const float *first;
    int64_t step;
} head_biases;

static inline head_biases biases_of(const attention_shape *s, matrix biases, int64_t sequence,
                                    int64_t head)
{
    const float *all = biases.memory;
    const bias_places at = attention_bias_places(s, biases);
    const int64_t begin = sequence % at.windows * at.window + head * at.head + at.first;
    return (head_biases){matrix_exists(biases) ? all + begin : NULL, at.step};
}

typedef struct attention_products attention_products;

/* `queries` rows of one head from row `first`. Pointers are to the first row of the sequence, at
 * the head's first feature. */
typedef struct query_block {
    const attention_shape *shape;
    const attention_products *products;
    int64_t worker;  /* of tasks.h */
    int64_t kv_lane; /* sequence * kv_heads + head of the keys and values */
    int64_t first;
    int64_t queries;
    const float *q;
    const float *k;
    const float *v;
    float *out;
    int64_t q_stride, k_stride, v_stride, out_stride;
    float sink; /* of the head; -infinity where it has none */
    head_biases biases;
    float *scores;               /* [queries, products->keys] */
    float *scratch;              /* [products->scratch] */
    float largest[MOST_QUERIES]; /* running maximum of the scores */
    float total[MOST_QUERIES];   /* running sum of exp(score - largest) */
} query_block;

/* How the products are made of a block of queries with keys k0 .. k0 + count - 1, of which k0 is a
 * multiple of `alignment`. */
struct attention_products {
    int64_t queries, keys; /* at once, at most MOST_QUERIES of the first */
    int64_t alignment;     /* of the first key of a block */
    int64_t scratch;       /* floats that a block needs beside the scores */
    void *context;
    void (*begin)(query_block *b);                            /* before the first keys */
    void (*score)(query_block *b, int64_t k0, int64_t count); /* scores = scale Q K^T */
    /* out = scores V, or with `accumulate` out += scores V */
    void (*mix)(query_block *b, int64_t k0, int64_t count, bool accumulate);
};

/** The head's sink in operand `sinks`; -infinity where heads have none. */
static inline float sink_of(matrix sinks, int64_t head)
{
    return matrix_exists(sinks) ? ((const float *)sinks.memory)[head] : -INFINITY;
}

/** Adds what a query's scores of keys k0 .. k0 + count - 1 have. */
void attention_add_biases(const head_biases *b, int64_t query, int64_t k0, int64_t count,
                          float *scores);

/** scores <- cap tanh(scores / cap) */
void attention_cap(int64_t count, float cap, float *scores);

/** Attention of an operation, with these products. */
grail_status attention_run(const operation *o, const attention_products *products) GRAIL_MUST_CHECK;

/** The same of bf16 in squares of pairs, and its gradient, where no matrix is empty. The sinks'
 * sums go to dsinks[sequences, query_heads], which may be NULL. */
grail_status attention_in_pairs(const operation *o) GRAIL_MUST_CHECK;
grail_status attention_gradient_in_pairs(const operation *o, double *dsinks) GRAIL_MUST_CHECK;

/** Rows of each tile of bf16 where `length` rows are spread evenly over the fewest tiles, and its
 * columns for so many features. */
int64_t attention_tile_rows(int64_t length);
int64_t attention_tile_width(int64_t count);
/** tile[height, width] = scale values[rows, columns], rounded, and zeros around. */
void attention_round_tile(int64_t rows, int64_t columns, const float *values, int64_t stride,
                          float scale, int64_t height, int64_t width, uint16_t *tile);
/** out (+)= tile */
void attention_add_tile(int64_t rows, int64_t columns, const float *tile, int64_t width,
                        bool accumulate, float *out, int64_t stride);

/** dsinks[heads] += the sums over all sequences. */
void attention_add_sinks(const attention_shape *s, const double *of_sequences, float *dsinks);

#endif
