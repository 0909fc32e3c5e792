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

/* The same of pairs side by side. */
CPU_CLONES static void rotate_neighbours(int64_t count, const float *cosine, const float *sine,
                                         float *pairs)
{
    for (int64_t k = 0; k < count; k++) {
        const float a = pairs[2 * k];
        const float b = pairs[2 * k + 1];
        pairs[2 * k] = a * cosine[k] - b * sine[k];
        pairs[2 * k + 1] = b * cosine[k] + a * sine[k];
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
            if (s->neighbours) {
                rotate_neighbours(count, cosine, sine, first + k0);
            } else {
                rotate_pairs(count, cosine, sine, first, first + s->turned / 2);
            }
        }
    }
}

/* Pairs whose angles are kept at once, and positions that are turned to from one of which cosines
 * and sines are computed: by rotations in f64, whose rounding is far below that of f32, and from a
 * multiple of TURNS, so that a position has the same bits wherever a pass begins. Angles are f64,
 * since position * frequency loses the fraction of a turn in f32. */
enum { AT_ONCE = 64, TURNS = 32 };

typedef struct turning {
    double cosine[AT_ONCE], sine[AT_ONCE];
    double step_cosine[AT_ONCE], step_sine[AT_ONCE]; /* of one position */
} turning;

CPU_CLONES static void turn_on(int64_t count, turning *t)
{
    for (int64_t k = 0; k < count; k++) {
        const double cosine = t->cosine[k];
        t->cosine[k] = cosine * t->step_cosine[k] - t->sine[k] * t->step_sine[k];
        t->sine[k] = t->sine[k] * t->step_cosine[k] + cosine * t->step_sine[k];
    }
}

static void turn_to(const double *frequency, int64_t count, int64_t position, turning *t)
{
    const int64_t start = position / TURNS * TURNS;
    for (int64_t k = 0; k < count; k++) {
        t->cosine[k] = cos((double)start * frequency[k]);
        t->sine[k] = sin((double)start * frequency[k]);
        t->step_cosine[k] = cos(frequency[k]);
        t->step_sine[k] = sin(frequency[k]);
    }
    for (int64_t at = start; at < position; at++) {
        turn_on(count, t);
    }
}

static void look_up(const rope_shape *s, int64_t row, int64_t k0, int64_t count, turning *t)
{
    for (int64_t k = 0; k < count; k++) {
        t->cosine[k] = cos(rope_angle(s, row, k0 + k));
        t->sine[k] = sin(rope_angle(s, row, k0 + k));
    }
}

/* Positions are an outer loop: a sine is there once for all sequences and heads, and needs no table
 * that could fail to be allocated. */
static void rotate_positions(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const rope_shape *s = o->with.rope;
    const int64_t half = s->turned / 2;
    const double turn = s->backward ? -s->factor : s->factor;
    for (int64_t k0 = 0; k0 < half; k0 += AT_ONCE) {
        const int64_t count = smaller(half - k0, AT_ONCE);
        turning t;
        for (int64_t position = begin; position < end; position++) {
            float cosine[AT_ONCE];
            float sine[AT_ONCE];
            if (s->angles != NULL) {
                look_up(s, position, k0, count, &t);
            } else if (position == begin || (s->first + position) % TURNS == 0) {
                turn_to(s->frequency + k0, count, s->first + position, &t);
            } else {
                turn_on(count, &t);
            }
            for (int64_t k = 0; k < count; k++) {
                cosine[k] = (float)(s->factor * t.cosine[k]);
                sine[k] = (float)(turn * t.sine[k]);
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
    const double *weights; /* of rows; NULL where each counts once */
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

CPU_CLONES static void add_weighted(int64_t count, const float *x, double weight, double *sum)
{
    for (int64_t j = 0; j < count; j++) {
        sum[j] += weight * (double)x[j];
    }
}

CPU_CLONES static void add_weighted_squares(int64_t count, const float *x, double weight,
                                            double *square)
{
    for (int64_t j = 0; j < count; j++) {
        square[j] += weight * (double)x[j] * (double)x[j];
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
            const double weight = s->weights == NULL ? 1.0 : s->weights[r];
            if (s->rounded) {
                round_values(count, x, rounded);
                x = rounded;
            }
            if (s->sum != NULL) {
                add_weighted(count, x, weight, s->sum + first);
            }
            if (s->square != NULL) {
                add_weighted_squares(count, x, weight, s->square + first);
            }
        }
    }
}

static grail_status add_rows(const operation *o, bool rounded)
{
    sums s = {o->m[0], o->m[1].memory, o->m[2].memory, o->m[3].memory, rounded};
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
