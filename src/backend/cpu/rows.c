/* Kernels that work row by row in f32: rotary embedding, cross entropy, column sums. */
#include "backend/cpu/clones.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/reductions.h"
#include "backend/cpu/rounding.h"

#include "base/parallel.h"

#include <math.h>

typedef struct rotation {
    int64_t sequences;
    int64_t length;
    int64_t heads;
    int64_t head_dim;
    int64_t half; /* of what is turned */
    double factor;
    double turn; /* 1, or -1 to turn back */
    const double *frequency;
    float *x;
} rotation;

/* Rotates `count` pairs of one head; `second` holds their other halves. */
CPU_CLONES static void rotate_pairs(int64_t count, const float *cosine, const float *sine,
                                    float *restrict first, float *restrict second)
{
    for (int64_t k = 0; k < count; k++) {
        const float a = first[k];
        const float b = second[k];
        first[k] = a * cosine[k] - b * sine[k];
        second[k] = b * cosine[k] + a * sine[k];
    }
}

/* Pairs k0 .. k0 + count - 1 of all heads of all rows at one position. */
static void rotate_position(const rotation *r, int64_t position, int64_t k0, int64_t count,
                            const float *cosine, const float *sine)
{
    for (int64_t sequence = 0; sequence < r->sequences; sequence++) {
        float *row = r->x + (sequence * r->length + position) * r->heads * r->head_dim;
        for (int64_t head = 0; head < r->heads; head++) {
            float *first = row + head * r->head_dim + k0;
            rotate_pairs(count, cosine, sine, first, first + r->half);
        }
    }
}

/* Positions are the outer loop: a sine is computed once for all sequences and heads, and needs no
 * table that could fail to be allocated. Angles are f64, since position * frequency loses the
 * fraction of a turn in f32. */
static void rotate_positions(int64_t begin, int64_t end, void *context)
{
    enum { AT_ONCE = 64 };
    const rotation *r = context;
    float cosine[AT_ONCE];
    float sine[AT_ONCE];
    for (int64_t position = begin; position < end; position++) {
        for (int64_t k0 = 0; k0 < r->half; k0 += AT_ONCE) {
            const int64_t count = r->half - k0 < AT_ONCE ? r->half - k0 : AT_ONCE;
            for (int64_t k = 0; k < count; k++) {
                const double angle = r->turn * (double)position * r->frequency[k0 + k];
                cosine[k] = (float)(r->factor * cos(angle));
                sine[k] = (float)(r->factor * sin(angle));
            }
            rotate_position(r, position, k0, count, cosine, sine);
        }
    }
}

grail_status cpu_rope(const operation *o)
{
    const rope_shape *s = o->with.rope;
    rotation r = {.sequences = s->sequences,
                  .length = s->length,
                  .heads = o->m[0].columns / s->head_dim,
                  .head_dim = s->head_dim,
                  .half = s->turned / 2,
                  .factor = s->factor,
                  .turn = s->backward ? -1.0 : 1.0,
                  .frequency = s->frequency,
                  .x = o->m[0].memory};
    parallel_for(s->length, host_rows_grain(s->sequences * o->m[0].columns), rotate_positions, &r);
    return GRAIL_OK;
}

static void entropy_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const int64_t classes = o->m[0].columns;
    const int64_t first = o->with.begin;
    entropy_sums *sums = o->with.entropy;
    for (int64_t i = begin; i < end; i++) {
        const float *row = host_row(o->m[0], i);
        const int64_t target = o->with.target[i] - first;
        const entropy_sums before =
            first == 0 ? (entropy_sums){-(double)INFINITY, 0.0, 0.0} : sums[i];
        const float shift = row_maximum(classes, row, (float)before.largest);
        const double sum = row_exponentials(classes, row, shift);
        const double shrunk = before.total * exp(before.largest - (double)shift);
        const bool is_here = target >= 0 && target < classes;
        sums[i] = (entropy_sums){.largest = (double)shift,
                                 .total = shrunk + sum,
                                 .target = is_here ? (double)row[target] : before.target};
    }
}

grail_status cpu_cross_entropy(const operation *o)
{
    return host_over_rows(o, o->m[0], entropy_rows);
}

enum { SUM_COLUMNS = 512 }; /* that a thread adds up at once */

typedef struct sums {
    int64_t rows;
    const float *x;
    int64_t stride;
    double *sum;
    double *square;
    bool rounded; /* to bf16 */
} sums;

CPU_CLONES static void round_values(int64_t count, const float *x, float *out)
{
    for (int64_t j = 0; j < count; j++) {
        out[j] = bf16_widened(bf16_rounded(x[j]));
    }
}

CPU_CLONES static void add_values(int64_t count, const float *x, double *sum)
{
    for (int64_t j = 0; j < count; j++) {
        sum[j] += (double)x[j];
    }
}

CPU_CLONES static void add_squares(int64_t count, const float *x, double *square)
{
    for (int64_t j = 0; j < count; j++) {
        square[j] += (double)x[j] * (double)x[j];
    }
}

static void sum_columns(int64_t begin, int64_t end, void *context)
{
    const sums *s = context;
    float rounded[SUM_COLUMNS];
    for (int64_t first = begin; first < end; first += SUM_COLUMNS) {
        const int64_t count = end - first < SUM_COLUMNS ? end - first : SUM_COLUMNS;
        for (int64_t r = 0; r < s->rows; r++) {
            const float *x = s->x + r * s->stride + first;
            if (s->rounded) {
                round_values(count, x, rounded);
                x = rounded;
            }
            if (s->sum != NULL) {
                add_values(count, x, s->sum + first);
            }
            if (s->square != NULL) {
                add_squares(count, x, s->square + first);
            }
        }
    }
}

static grail_status add_rows(const operation *o, bool rounded)
{
    const matrix x = o->m[0];
    sums s = {x.rows, x.memory, x.stride, o->m[1].memory, o->m[2].memory, rounded};
    parallel_for(x.columns, SUM_COLUMNS, sum_columns, &s);
    return GRAIL_OK;
}

grail_status cpu_column_sums(const operation *o)
{
    return add_rows(o, false);
}

grail_status cpu_rounded_column_sums(const operation *o)
{
    return add_rows(o, true);
}
