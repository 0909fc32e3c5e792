/* Attention of the reference backend and its gradient, row by row. */
#include "backend/ref/reference.h"

#include <math.h>
#include <string.h>

static double capped(const attention_shape *s, double score)
{
    return s->cap > 0.0 ? s->cap * tanh(score / s->cap) : score;
}

/* scores[j] = softmax_j(cap(scale q . k_j)) over the keys first .. last of one head; K has `stride`
 * elements from row to row. */
static void attention_weights(const attention_shape *s, int64_t first, int64_t last,
                              const double *q, const double *k, int64_t stride, double *scores)
{
    double largest = -HUGE_VAL;
    for (int64_t j = first; j <= last; j++) {
        scores[j] = capped(s, s->scale * host_dot(s->head_dim, q, k + j * stride));
        largest = fmax(largest, scores[j]);
    }
    double total = 0.0;
    for (int64_t j = first; j <= last; j++) {
        scores[j] = exp(scores[j] - largest);
        total += scores[j];
    }
    for (int64_t j = first; j <= last; j++) {
        scores[j] /= total;
    }
}

/* First key that row `i` sees. */
static int64_t first_visible(const attention_shape *s, int64_t i)
{
    return s->window > 0 && i >= s->window ? i - s->window + 1 : 0;
}

/* Last key that row `i` sees. */
static int64_t last_visible(const attention_shape *s, int64_t i)
{
    return s->bidirectional ? s->length - 1 : i;
}

/* All rows of one head of one sequence. q, k, v and out point at its first row and feature. */
static void attention_head(const attention_shape *s, const double *q, const double *k,
                           const double *v, double *out, double *scores)
{
    const int64_t q_stride = s->query_heads * s->head_dim;
    const int64_t stride = s->kv_heads * s->head_dim;
    for (int64_t i = 0; i < s->length; i++) {
        const int64_t first = first_visible(s, i);
        const int64_t last = last_visible(s, i);
        attention_weights(s, first, last, q + i * q_stride, k, stride, scores);
        for (int64_t d = 0; d < s->head_dim; d++) {
            double sum = 0.0;
            for (int64_t j = first; j <= last; j++) {
                sum += scores[j] * v[j * stride + d];
            }
            out[i * q_stride + d] = sum;
        }
    }
}

/* One head of one sequence: offsets of its first row and feature. */
typedef struct head_place {
    int64_t query, key;
} head_place;

static head_place place_of_head(const attention_shape *s, int64_t sequence, int64_t head)
{
    const int64_t row = sequence * s->length;
    const int64_t kv_head = head / (s->query_heads / s->kv_heads);
    return (head_place){.query = (row * s->query_heads + head) * s->head_dim,
                        .key = (row * s->kv_heads + kv_head) * s->head_dim};
}

grail_status ref_attention(const operation *o)
{
    const attention_shape *s = o->with.attention;
    double *scores = NULL;
    CHECK(memory_new_unset(&scores, (size_t)s->length, sizeof *scores));
    for (int64_t sequence = 0; sequence < s->sequences; sequence++) {
        for (int64_t head = 0; head < s->query_heads; head++) {
            const head_place at = place_of_head(s, sequence, head);
            attention_head(s, (const double *)o->m[0].memory + at.query,
                           (const double *)o->m[1].memory + at.key,
                           (const double *)o->m[2].memory + at.key,
                           (double *)o->m[3].memory + at.query, scores);
        }
    }
    memory_free(scores);
    return GRAIL_OK;
}

/* What the gradient of one head reads and writes; all begin at its first row and feature. */
typedef struct head_gradient {
    const double *q, *k, *v, *out, *dout;
    double *dq, *dk, *dv;
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
    const int64_t q_stride = s->query_heads * s->head_dim;
    const int64_t stride = s->kv_heads * s->head_dim;
    const int64_t first = first_visible(s, i);
    const int64_t last = last_visible(s, i);
    const double *dout = h->dout + i * q_stride;
    double *dq = h->dq + i * q_stride;
    const double share = host_dot(s->head_dim, dout, h->out + i * q_stride);
    attention_weights(s, first, last, h->q + i * q_stride, h->k, stride, scores);
    for (int64_t j = first; j <= last; j++) {
        const double ds = s->scale * scores[j] *
                          (host_dot(s->head_dim, dout, h->v + j * stride) - share) *
                          slope_of_cap(s, h->q + i * q_stride, h->k + j * stride);
        for (int64_t d = 0; d < s->head_dim; d++) {
            h->dv[j * stride + d] += scores[j] * dout[d];
            h->dk[j * stride + d] += ds * h->q[i * q_stride + d];
            dq[d] += ds * h->k[j * stride + d];
        }
    }
}

static head_gradient gradient_of_head(const operation *o, head_place at)
{
    const matrix *m = o->m;
    return (head_gradient){.q = (const double *)m[0].memory + at.query,
                           .k = (const double *)m[1].memory + at.key,
                           .v = (const double *)m[2].memory + at.key,
                           .out = (const double *)m[3].memory + at.query,
                           .dout = (const double *)m[4].memory + at.query,
                           .dq = (double *)m[5].memory + at.query,
                           .dk = (double *)m[6].memory + at.key,
                           .dv = (double *)m[7].memory + at.key};
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
            const head_gradient h = gradient_of_head(o, place_of_head(s, sequence, head));
            for (int64_t i = 0; i < s->length; i++) {
                attention_row_gradient(s, &h, i, scores);
            }
        }
    }
out:
    memory_free(scores);
    return status;
}
