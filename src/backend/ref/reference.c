/* The oracle: every slot as its formula, in f64, with plain loops and no dependency. */
#include "backend/ref/reference.h"

#include <math.h>
#include <string.h>

grail_status ref_linear(const operation *o)
{
    const matrix y = o->m[3];
    const double *bias = o->m[2].memory;
    double *out = y.memory;
    ref_product_of(false, true, 1.0, o->m[0], o->m[1], 0.0, y);
    for (int64_t i = 0; bias != NULL && i < matrix_count(y); i++) {
        out[i] += bias[i % y.columns];
    }
    return GRAIL_OK;
}

grail_status ref_rms_norm(const operation *o)
{
    const double *weight = o->m[1].memory;
    const int64_t group = o->m[1].columns;
    for (int64_t start = 0; start < matrix_count(o->m[0]); start += group) {
        const double *in = (const double *)o->m[0].memory + start;
        double *out = (double *)o->m[2].memory + start;
        const double mean = host_dot(group, in, in) / (double)group;
        const double factor = 1.0 / sqrt(mean + o->with.epsilon);
        for (int64_t i = 0; i < group; i++) {
            out[i] = weight[i] * in[i] * factor;
        }
    }
    return GRAIL_OK;
}

grail_status ref_rope(const operation *o)
{
    const rope_shape *s = o->with.rope;
    const matrix x = o->m[0];
    const int64_t half = s->turned / 2;
    for (int64_t row = 0; row < x.rows; row++) {
        for (int64_t head = 0; head < x.columns / s->head_dim; head++) {
            double *first = (double *)x.memory + row * x.columns + head * s->head_dim;
            double *second = first + (s->neighbours ? 1 : half);
            const int64_t step = s->neighbours ? 2 : 1;
            for (int64_t k = 0; k < half; k++) {
                const double turn = rope_angle(s, row % s->length, k);
                const double angle = s->backward ? -turn : turn;
                const double a = first[step * k];
                const double b = second[step * k];
                first[step * k] = s->factor * (a * cos(angle) - b * sin(angle));
                second[step * k] = s->factor * (b * cos(angle) + a * sin(angle));
            }
        }
    }
    return GRAIL_OK;
}

/* The element of B that is spread over Y[row, column]. */
static double *spread_element(matrix b, matrix y, int64_t row, int64_t column)
{
    return (double *)host_row(b, row / (y.rows / b.rows)) + (b.columns == 1 ? 0 : column);
}

#define ELEMENTWISE(name, sign)                                                                    \
    grail_status ref_##name(const operation *o)                                                    \
    {                                                                                              \
        const matrix y = o->m[2];                                                                  \
        for (int64_t r = 0; r < y.rows; r++) {                                                     \
            const double *a = host_row(o->m[0], r);                                                \
            double *out = host_row(y, r);                                                          \
            for (int64_t i = 0; i < y.columns; i++) {                                              \
                const double b = *spread_element(o->m[1], y, r, i);                                \
                out[i] = a[i] sign b;                                                              \
            }                                                                                      \
        }                                                                                          \
        return GRAIL_OK;                                                                           \
    }

ELEMENTWISE(multiply, *)
ELEMENTWISE(add, +)
ELEMENTWISE(subtract, -)

grail_status ref_spread_gradient(const operation *o)
{
    const matrix dy = o->m[0];
    const matrix a = o->m[1];
    for (int64_t r = 0; r < o->m[2].rows; r++) {
        memset(host_row(o->m[2], r), 0, (size_t)o->m[2].columns * sizeof(double));
    }
    for (int64_t r = 0; r < dy.rows; r++) {
        const double *gradient = host_row(dy, r);
        const double *factor = a.memory == NULL ? NULL : host_row(a, r);
        for (int64_t i = 0; i < dy.columns; i++) {
            *spread_element(o->m[2], dy, r, i) += gradient[i] * (factor == NULL ? 1.0 : factor[i]);
        }
    }
    return GRAIL_OK;
}

grail_status ref_cross_entropy(const operation *o)
{
    const matrix logits = o->m[0];
    const int64_t first = o->with.begin;
    for (int64_t i = 0; i < logits.rows; i++) {
        const double *row = host_row(logits, i);
        entropy_sums s = first == 0 ? (entropy_sums){-HUGE_VAL, 0.0, 0.0} : o->with.entropy[i];
        double largest = s.largest;
        for (int64_t t = 0; t < logits.columns; t++) {
            largest = fmax(largest, row[t]);
        }
        s.total *= exp(s.largest - largest);
        s.largest = largest;
        for (int64_t t = 0; t < logits.columns; t++) {
            s.total += exp(row[t] - largest);
            s.target = first + t == o->with.target[i] ? row[t] : s.target;
        }
        o->with.entropy[i] = s;
    }
    return GRAIL_OK;
}

grail_status ref_gram(const operation *o)
{
    const matrix x = o->m[0];
    double *g = o->m[1].memory;
    for (int64_t r = 0; r < x.rows; r++) {
        const double *row = host_row(x, r);
        for (int64_t i = 0; i < x.columns; i++) {
            for (int64_t j = 0; j <= i; j++) {
                g[i * x.columns + j] += row[i] * row[j];
            }
        }
    }
    return GRAIL_OK;
}

grail_status ref_cross(const operation *o)
{
    ref_product_of(true, false, 1.0, o->m[0], o->m[1], 1.0, o->m[2]);
    return GRAIL_OK;
}

grail_status ref_column_sums(const operation *o)
{
    const matrix x = o->m[0];
    const double *weights = o->m[1].memory;
    double *sum = o->m[2].memory;
    double *square = o->m[3].memory;
    for (int64_t r = 0; r < x.rows; r++) {
        const double *row = host_row(x, r);
        const double weight = weights == NULL ? 1.0 : weights[r];
        for (int64_t i = 0; sum != NULL && i < x.columns; i++) {
            sum[i] += weight * row[i];
        }
        for (int64_t i = 0; square != NULL && i < x.columns; i++) {
            square[i] += weight * row[i] * row[i];
        }
    }
    return GRAIL_OK;
}

const backend_kind backend_ref = {
    .name = "ref",
    .precision = "f64",
    .summary = "plain loops in f64, slow, for checking",
    .type = GRAIL_DTYPE_F64,
    .near_bytes = 1 << 14, /* so that few images run at once, as large ones do elsewhere */
    HOST_MEMORY,
    .slots =
        {
#define OPERATION(name, ...) [SLOT_##name] = ref_##name,
#define HOST_OPERATION(name, ...) [SLOT_##name] = host_##name,
#include "backend/operation_list.h"
        },
};
