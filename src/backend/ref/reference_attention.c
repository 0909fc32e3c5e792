/* Attention of the reference backend and its gradient, row by row. */
#include "backend/ref/reference.h"

#include <math.h>
#include <string.h>

static double capped(const attention_shape *s, double score)
{
    return s->cap > 0.0 ? s->cap * tanh(score / s->cap) : score;
}

/* What one head adds to its scores. */
typedef struct head_terms {
    double sink;          /* -infinity where it has none */
    const double *biases; /* of query and key 0; NULL: none */
    int64_t step;         /* from query to query */
} head_terms;

static head_terms terms_of(const attention_shape *s, matrix sinks, matrix biases, int64_t sequence,
                           int64_t head)
{
    const double *all = biases.memory;
    const bias_places at = attention_bias_places(s, biases);
    const int64_t begin = sequence % at.windows * at.window + head * at.head + at.first;
    return (head_terms){.sink =
                            matrix_exists(sinks) ? ((const double *)sinks.memory)[head] : -HUGE_VAL,
                        .biases = matrix_exists(biases) ? all + begin : NULL,
                        .step = at.step};
}

/* scores[j] = softmax_j(cap(scale q_i . k_j) + bias) over the keys first .. last of one head and
 * its sink; K has `stride` elements from row to row. Returns the sink's weight. */
static double attention_weights(const attention_shape *s, const head_terms *terms, int64_t i,
                                int64_t first, int64_t last, const double *q, const double *k,
                                int64_t stride, double *scores)
{
    const double *biases = terms->biases == NULL ? NULL : terms->biases + i * terms->step;
    const double sink = terms->sink;
    double largest = sink;
    for (int64_t j = first; j <= last; j++) {
        scores[j] = capped(s, s->scale * host_dot(s->head_dim, q, k + j * stride));
        scores[j] += biases == NULL ? 0.0 : biases[j];
        largest = fmax(largest, scores[j]);
    }
    const double own = exp(sink - largest);
    double total = own;
    for (int64_t j = first; j <= last; j++) {
        scores[j] = exp(scores[j] - largest);
        total += scores[j];
    }
    for (int64_t j = first; j <= last; j++) {
        scores[j] /= total;
    }
    return own / total;
}

/* First key that row `i` sees. */
static int64_t first_visible(const attention_shape *s, int64_t i)
{
    const int64_t own = s->earlier + i;
    return s->window > 0 && own >= s->window ? own - s->window + 1 : 0;
}

/* Last key that row `i` sees. */
static int64_t last_visible(const attention_shape *s, int64_t i)
{
    const bool to_end = s->window == 0 || s->length - i <= s->window;
    const int64_t last = to_end ? s->length - 1 : i + s->window - 1;
    return s->earlier + (s->bidirectional ? last : i);
}

/* Elements from row to row. */
typedef struct row_strides {
    int64_t query, key, value, out;
} row_strides;

static row_strides strides_of(const attention_shape *s)
{
    const int64_t value_dim = attention_value_dim(s);
    return (row_strides){.query = s->query_heads * s->head_dim,
                         .key = s->kv_heads * s->head_dim,
                         .value = s->kv_heads * value_dim,
                         .out = s->query_heads * value_dim};
}

/* All rows of one head of one sequence. q, k, v and out point at its first row and feature. */
static void attention_head(const attention_shape *s, const head_terms *terms, const double *q,
                           const double *k, const double *v, double *out, double *scores)
{
    const row_strides stride = strides_of(s);
    for (int64_t i = 0; i < s->length; i++) {
        const int64_t first = first_visible(s, i);
        const int64_t last = last_visible(s, i);
        (void)attention_weights(s, terms, i, first, last, q + i * stride.query, k, stride.key,
                                scores);
        for (int64_t d = 0; d < attention_value_dim(s); d++) {
            double sum = 0.0;
            for (int64_t j = first; j <= last; j++) {
                sum += scores[j] * v[j * stride.value + d];
            }
            out[i * stride.out + d] = sum;
        }
    }
}

/* One head of one sequence: offsets of its first row and feature. */
typedef struct head_place {
    int64_t query, key, value, out;
} head_place;

static head_place place_of_head(const attention_shape *s, int64_t sequence, int64_t head)
{
    const int64_t query = sequence * s->length * s->query_heads + head;
    const int64_t key =
        sequence * attention_room(s) * s->kv_heads + head / (s->query_heads / s->kv_heads);
    const int64_t value_dim = attention_value_dim(s);
    return (head_place){.query = query * s->head_dim,
                        .key = key * s->head_dim,
                        .value = key * value_dim,
                        .out = query * value_dim};
}

grail_status ref_attention(const operation *o)
{
    const attention_shape *s = o->with.attention;
    double *scores = NULL;
    CHECK(memory_new_unset(&scores, (size_t)attention_keys(s), sizeof *scores));
    for (int64_t sequence = 0; sequence < s->sequences; sequence++) {
        for (int64_t head = 0; head < s->query_heads; head++) {
            const head_place at = place_of_head(s, sequence, head);
            const head_terms terms = terms_of(s, o->m[4], o->m[5], sequence, head);
            attention_head(s, &terms, (const double *)o->m[0].memory + at.query,
                           (const double *)o->m[1].memory + at.key,
                           (const double *)o->m[2].memory + at.value,
                           (double *)o->m[3].memory + at.out, scores);
        }
    }
    memory_free(scores);
    return GRAIL_OK;
}

/* What the gradient of one head reads and writes; all begin at its first row and feature. */
typedef struct head_gradient {
    const double *q, *k, *v, *out, *dout;
    double *dq, *dk, *dv;
    head_terms terms;
    double *dsink; /* of this head; NULL where it is not wanted */
} head_gradient;

/* What a capped score changes by when the score does. */
static double slope_of_cap(const attention_shape *s, const double *q, const double *k)
{
    const double share = s->cap > 0.0 ? tanh(s->scale * host_dot(s->head_dim, q, k) / s->cap) : 0.0;
    return 1.0 - share * share;
}

/* Row i of one head: with P = scores, D = dout_i . out_i, dS_j = P_j (dout_i . v_j - D) times the
 * slope of the cap. */
static void attention_row_gradient(const attention_shape *s, const head_gradient *h, int64_t i,
                                   double *scores)
{
    const row_strides stride = strides_of(s);
    const int64_t value_dim = attention_value_dim(s);
    const int64_t first = first_visible(s, i);
    const int64_t last = last_visible(s, i);
    const double *q = h->q + i * stride.query;
    const double *dout = h->dout + i * stride.out;
    const double share = host_dot(value_dim, dout, h->out + i * stride.out);
    const double own = attention_weights(s, &h->terms, i, first, last, q, h->k, stride.key, scores);
    if (h->dsink != NULL) {
        *h->dsink -= own * share;
    }
    for (int64_t j = first; j <= last; j++) {
        const double *k = h->k + j * stride.key;
        const double ds = s->scale * scores[j] *
                          (host_dot(value_dim, dout, h->v + j * stride.value) - share) *
                          slope_of_cap(s, q, k);
        for (int64_t d = 0; d < value_dim; d++) {
            h->dv[j * stride.value + d] += scores[j] * dout[d];
        }
        for (int64_t d = 0; d < s->head_dim; d++) {
            h->dk[j * stride.key + d] += ds * q[d];
            h->dq[i * stride.query + d] += ds * k[d];
        }
    }
}

grail_status ref_attention_gradient(const operation *o)
{
    grail_status status = GRAIL_OK;
    const attention_shape *s = o->with.attention;
    double *scores = NULL;
    TRY(memory_new_unset(&scores, (size_t)s->length, sizeof *scores));
    for (int i = 5; i < 8; i++) { /* dQ, dK, dV */
        memset(o->m[i].memory, 0, (size_t)matrix_count(o->m[i]) * sizeof(double));
    }
    for (int64_t sequence = 0; sequence < s->sequences; sequence++) {
        for (int64_t head = 0; head < s->query_heads; head++) {
            const matrix *m = o->m;
            const head_place at = place_of_head(o->with.attention, sequence, head);
            const head_gradient h =
                (head_gradient){.q = (const double *)m[0].memory + at.query,
                                .k = (const double *)m[1].memory + at.key,
                                .v = (const double *)m[2].memory + at.value,
                                .out = (const double *)m[3].memory + at.out,
                                .dout = (const double *)m[4].memory + at.out,
                                .dq = (double *)m[5].memory + at.query,
                                .dk = (double *)m[6].memory + at.key,
                                .dv = (double *)m[7].memory + at.value,
                                .terms = terms_of(s, m[8], m[10], sequence, head),
                                .dsink = matrix_exists(m[9]) ? (double *)m[9].memory + head : NULL};
            for (int64_t i = 0; i < s->length; i++) {
                attention_row_gradient(s, &h, i, scores);
            }
        }
    }
out:
    memory_free(scores);
    return status;
}
