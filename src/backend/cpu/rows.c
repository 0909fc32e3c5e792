/* Kernels that work row by row in f32: rotary embedding, cross entropy, column sums. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/reductions.h"
#include "backend/cpu/rounding.h"
#include "base/clones.h"

#include "base/parallel.h"

#include <math.h>

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
static void rotate_position(const rope_shape *s, matrix x, int64_t position, int64_t k0,
                            int64_t count, const float *cosine, const float *sine)
{
    for (int64_t sequence = 0; sequence < s->sequences; sequence++) {
        float *row = host_row(x, sequence * s->length + position);
        for (int64_t head = 0; head < x.columns; head += s->head_dim) {
            float *first = row + head + k0;
            rotate_pairs(count, cosine, sine, first, first + s->turned / 2);
        }
    }
}

/* Positions are the outer loop: a sine is computed once for all sequences and heads, and needs no
 * table that could fail to be allocated. Angles are f64, since position * frequency loses the
 * fraction of a turn in f32. */
static void rotate_positions(int64_t begin, int64_t end, void *context)
{
    enum { AT_ONCE = 64 };
    const operation *o = context;
    const rope_shape *s = o->with.rope;
    const int64_t half = s->turned / 2;
    const double turn = s->backward ? -1.0 : 1.0;
    float cosine[AT_ONCE];
    float sine[AT_ONCE];
    for (int64_t position = begin; position < end; position++) {
        for (int64_t k0 = 0; k0 < half; k0 += AT_ONCE) {
            const int64_t count = smaller(half - k0, AT_ONCE);
            for (int64_t k = 0; k < count; k++) {
                const double angle = turn * (double)(s->first + position) * s->frequency[k0 + k];
                cosine[k] = (float)(s->factor * cos(angle));
                sine[k] = (float)(s->factor * sin(angle));
            }
            rotate_position(s, o->m[0], position, k0, count, cosine, sine);
        }
    }
}

grail_status cpu_rope(const operation *o)
{
    const rope_shape *s = o->with.rope;
    parallel_for(s->length, host_rows_grain(s->sequences * o->m[0].columns), rotate_positions,
                 (void *)(uintptr_t)o);
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
    matrix x;
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

static void sum_columns(int64_t begin, int64_t end, void *context)
{
    const sums *s = context;
    float rounded[SUM_COLUMNS];
    for (int64_t first = begin; first < end; first += SUM_COLUMNS) {
        const int64_t count = smaller(end - first, SUM_COLUMNS);
        for (int64_t r = 0; r < s->x.rows; r++) {
            const float *x = host_element(s->x, r, first);
            if (s->rounded) {
                round_values(count, x, rounded);
                x = rounded;
            }
            if (s->sum != NULL) {
                accumulate_row(count, x, s->sum + first);
            }
            if (s->square != NULL) {
                accumulate_products(count, x, x, s->square + first);
            }
        }
    }
}

static grail_status add_rows(const operation *o, bool rounded)
{
    sums s = {o->m[0], o->m[1].memory, o->m[2].memory, rounded};
    parallel_for(s.x.columns, SUM_COLUMNS, sum_columns, &s);
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
