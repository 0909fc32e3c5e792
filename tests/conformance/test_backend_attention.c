/* Attention against the full matrix of weights. */
#include "conformance/conformance.h"

/* What scores have added; a zeroed one is nothing. */
typedef struct score_terms {
    const float *sinks; /* [query_heads] */
    const float *biases;
    int64_t positions; /* that biases are of */
    bool by_distance;
    int64_t windows; /* that have biases of their own; 0 counts as 1 */
} score_terms;

static int64_t windows_of(const score_terms *t)
{
    return t->windows == 0 ? 1 : t->windows;
}

/* Heads count through those of a window. */
static double bias_of(const score_terms *t, int64_t head, int64_t query, int64_t key)
{
    const int64_t p = t->positions;
    return t->biases == NULL ? 0.0
           : t->by_distance  ? (double)t->biases[head * (2 * p - 1) + p - 1 + key - query]
                             : (double)t->biases[(head * p + query) * p + key];
}

static void naive_head(const attention_shape *s, int64_t sequence, int64_t head, const float *q,
                       const float *k, const float *v, const score_terms *terms, double *expected)
{
    const float *sinks = terms->sinks;
    const int64_t first = sequence % windows_of(terms) * s->query_heads;
    const int64_t value_dim = attention_value_dim(s);
    const int64_t kv_head = head / (s->query_heads / s->kv_heads);
    OWNED(double) *weights = doubles(attention_keys(s), 0.0);
    for (int64_t i = 0; i < s->length; i++) {
        const int64_t row = sequence * s->length + i;
        const int64_t at = (row * s->query_heads + head) * s->head_dim;
        const int64_t own = s->earlier + i;
        const int64_t end = s->bidirectional ? attention_keys(s) : own + 1;
        double largest = sinks == NULL ? -INFINITY : (double)sinks[head];
        for (int64_t j = 0; j < end; j++) {
            const float *key =
                k + ((sequence * attention_room(s) + j) * s->kv_heads + kv_head) * s->head_dim;
            const bool visible = s->window == 0 || (j > own - s->window && j < own + s->window);
            double score = visible ? 0.0 : -INFINITY;
            for (int64_t d = 0; visible && d < s->head_dim; d++) {
                score += s->scale * (double)q[at + d] * (double)key[d];
            }
            weights[j] = visible && s->cap > 0.0 ? s->cap * tanh(score / s->cap)
                                                 : score + bias_of(terms, first + head, own, j);
            largest = fmax(largest, weights[j]);
        }
        double total = sinks == NULL ? 0.0 : exp((double)sinks[head] - largest);
        for (int64_t j = 0; j < end; j++) {
            weights[j] = exp(weights[j] - largest);
            total += weights[j];
        }
        for (int64_t d = 0; d < value_dim; d++) {
            double *to = expected + (row * s->query_heads + head) * value_dim + d;
            *to = 0.0;
            for (int64_t j = 0; j < end; j++) {
                const int64_t value =
                    ((sequence * attention_room(s) + j) * s->kv_heads + kv_head) * value_dim + d;
                *to += weights[j] / total * (double)v[value];
            }
        }
    }
}

static double largest_size(int64_t count, const float *values)
{
    double largest = 0.0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)values[i]));
    }
    return largest;
}

/* The error of an output when operands are rounded by at most u: that of the weights, and of the
 * values where they are not `exact` operands. Then the scores are off, too, by at most d <=
 * (2 u + u^2) scale |q|.|k|, and the weights by e^2d - 1. */
static double rounding_of_attention(const backend *b, const attention_shape *s, bool exact,
                                    const float *q, const float *k, const float *v)
{
    const double u = unit_of_operands(b);
    const int64_t rows = s->sequences * s->length;
    const int64_t keys = s->sequences * attention_room(s);
    const double values = largest_size(keys * s->kv_heads * attention_value_dim(s), v);
    const double scores = s->scale * (double)s->head_dim *
                          largest_size(rows * s->query_heads * s->head_dim, q) *
                          largest_size(keys * s->kv_heads * s->head_dim, k);
    return exact ? u * values : (2.0 * u + expm1(2.0 * (2.0 * u + u * u) * scores)) * values;
}

static void check_attention(backend *b, attention_shape s, bool exact, const float *q,
                            const float *k, const float *v, const score_terms *terms,
                            double tolerance)
{
    static const score_terms none = {0};
    const score_terms *t = terms == NULL ? &none : terms;
    const int64_t rows = s.sequences * s.length;
    const int64_t keys = s.sequences * attention_room(&s);
    const int64_t width = s.query_heads * attention_value_dim(&s);
    double *expected = doubles(rows * width, 0.0);
    for (int64_t i = 0; i < s.sequences * s.query_heads; i++) {
        naive_head(&s, i / s.query_heads, i % s.query_heads, q, k, v, t, expected);
    }
    matrix bq = values_of(b, rows, s.query_heads * s.head_dim, q);
    matrix bk = values_of(b, keys, s.kv_heads * s.head_dim, k);
    matrix bv = values_of(b, keys, s.kv_heads * attention_value_dim(&s), v);
    matrix out = blank_values(b, rows, width);
    matrix bs = t->sinks == NULL ? no_matrix : values_of(b, 1, s.query_heads, t->sinks);
    matrix bb = t->biases == NULL ? no_matrix
                : t->by_distance  ? values_of(b, s.query_heads, 2 * t->positions - 1, t->biases)
                                  : values_of(b, windows_of(t) * s.query_heads * t->positions,
                                              t->positions, t->biases);
    assert_ok(matrix_attention(&s, bq, bk, bv, out, bs, bb));
    assert_matrix_near("attention", out, expected,
                       tolerance * rounding(b) + rounding_of_attention(b, &s, exact, q, k, v));
    memory_free(expected);
    free_matrices(&bq, &bk, &bv, &out, &bs, &bb);
}

static float *operands(const backend *b, int64_t count, uint64_t seed)
{
    float *values = normals(count, seed, 1.0);
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)as_operand(b, values[i]);
    }
    return values;
}

/* The operands are exact, and the scale is a power of two. `spread` is about the standard
 * deviation of the scores. */
static void check_terms(backend *b, attention_shape s, const score_terms *terms, double spread)
{
    const int64_t queries = s.sequences * s.length * s.query_heads * s.head_dim;
    const int64_t keys = s.sequences * attention_room(&s) * s.kv_heads;
    s.scale = exp2(round(log2(spread / sqrt((double)s.head_dim))));
    float *q = operands(b, queries, 1);
    float *k = operands(b, keys * s.head_dim, 2);
    float *v = operands(b, keys * attention_value_dim(&s), 3);
    check_attention(b, s, true, q, k, v, terms, 100.0 * (1.0 + spread));
    free_blocks(v, k, q);
}

static void check_sinks(backend *b, attention_shape s, const float *sinks, double spread)
{
    check_terms(b, s, &(score_terms){.sinks = sinks}, spread);
}

/* Biases that values hold exactly, and such as hide a key. */
static void check_biases(backend *b, attention_shape s, int64_t positions, bool by_distance,
                         int64_t windows)
{
    const int64_t each = by_distance ? 2 * positions - 1 : positions * positions;
    const int64_t count = windows * s.query_heads * each;
    OWNED(float) *biases = operands(b, count, 4);
    for (int64_t i = 2; i < count && !by_distance; i += 5) {
        biases[i] = -32768.0F;
    }
    check_terms(b, s,
                &(score_terms){.biases = biases,
                               .positions = positions,
                               .by_distance = by_distance,
                               .windows = windows},
                1.0);
}

static void check_random(backend *b, attention_shape s, double spread)
{
    check_terms(b, s, NULL, spread);
}

/* Their scores are small, or else those of bf16 would say nothing. */
TEST(test_operands_may_have_any_digits)
{
    const attention_shape s = {2, 300, 3, 3, 5, 0, false, 0.07, 0.0, 0, 0, 0};
    const int64_t count = s.sequences * s.length * s.query_heads * s.head_dim;
    float *q = normals(count, 5, 1.0);
    float *k = normals(count, 6, 1.0);
    float *v = normals(count, 7, 1.0);
    FOR_EACH_BACKEND(b)
    {
        check_attention(b, s, false, q, k, v, NULL, 200.0);
    }
    free_blocks(v, k, q);
}

BACKEND_TEST(test_attention_is_the_causal_softmax)
{
    static const attention_shape shapes[] = {
        {0, 5, 2, 2, 4, 0, false, 0, 0.0, 0, 0, 0},
        {1, 0, 2, 2, 4, 0, false, 0, 0.0, 0, 0, 0},
        {1, 5, 0, 0, 4, 0, false, 0, 0.0, 0, 0, 0},
        {1, 257, 2, 1, 80, 0, false, 0, 0.0, 0, 0, 0},
        {1, 1, 1, 1, 1, 0, false, 0, 0.0, 0, 0, 0},
        {3, 7, 2, 2, 5, 0, false, 0, 0.0, 0, 0, 0},
        {2, 129, 3, 3, 17, 0, false, 0, 0.0, 0, 0, 0},
        {1, 127, 1, 1, 64, 0, false, 0, 0.0, 0, 0, 0},
        {1, 128, 2, 1, 8, 0, false, 0, 0.0, 0, 0, 0},
        {1, 513, 2, 2, 33, 0, false, 0, 0.0, 0, 0, 0},
        {1, 1000, 2, 1, 8, 0, false, 0, 0.0, 0, 0, 0},
        {1, 1031, 1, 1, 128, 0, false, 0, 0.0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_random(b, shapes[i], 1.0);
    }
}

BACKEND_TEST(test_a_row_may_see_those_behind_it)
{
    static const attention_shape shapes[] = {
        {0, 5, 2, 2, 4, 0, true, 0, 0.0, 0, 0, 0},   {1, 0, 2, 2, 4, 0, true, 0, 0.0, 0, 0, 0},
        {1, 1, 1, 1, 1, 0, true, 0, 0.0, 0, 0, 0},   {3, 7, 2, 2, 5, 0, true, 0, 0.0, 0, 0, 0},
        {5, 50, 3, 3, 64, 0, true, 0, 0.0, 0, 0, 0}, {2, 197, 2, 1, 12, 0, true, 0, 0.0, 0, 0, 0},
        {1, 385, 1, 1, 9, 0, true, 0, 0.0, 0, 0, 0}, {1, 800, 2, 1, 8, 0, true, 0, 0.0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_random(b, shapes[i], 1.0);
        check_random(b, shapes[i], 30.0);
    }
}

BACKEND_TEST(test_query_heads_read_their_groups_keys)
{
    check_random(b, (attention_shape){2, 19, 6, 2, 8, 0, false, 0, 0.0, 0, 0, 0}, 1.0);
    check_random(b, (attention_shape){1, 140, 9, 3, 4, 0, false, 0, 0.0, 0, 0, 0}, 1.0);
    check_random(b, (attention_shape){1, 30, 8, 1, 16, 0, false, 0, 0.0, 0, 0, 0}, 1.0);
}

BACKEND_TEST(test_a_window_hides_distant_keys)
{
    static const int64_t windows[] = {1, 2, 63, 128, 129, 300, 512, 699, 700, 5000};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        check_random(b, (attention_shape){2, 700, 2, 1, 6, windows[i], false, 0, 0.0, 0, 0, 0},
                     1.0);
        check_random(b, (attention_shape){2, 700, 2, 1, 6, windows[i], true, 0, 0.0, 0, 0, 0}, 1.0);
    }
}

/* One row or several behind others, in matrices of keys with room for more or none. */
BACKEND_TEST(test_rows_go_on_with_earlier_keys)
{
    static const attention_shape shapes[] = {
        {1, 1, 2, 1, 8, 0, false, 0, 0.0, 0, 40, 0},
        {3, 1, 6, 2, 8, 0, false, 0, 0.0, 4, 700, 901},
        {2, 5, 2, 2, 5, 0, false, 0, 0.0, 0, 3, 8},
        {2, 7, 3, 3, 17, 4, false, 0, 0.0, 0, 30, 64},
        {1, 200, 2, 1, 6, 0, false, 0, 2.0, 0, 1, 0},
        {2, 1, 2, 1, 6, 63, false, 0, 0.0, 0, 500, 501},
        {2, 70, 2, 2, 6, 9, true, 0, 0.0, 0, 20, 100},
        {4, 3, 2, 2, 5, 0, true, 0, 0.0, 0, 0, 9},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_random(b, shapes[i], 1.0);
    }
}

/* Causal, within a window, both ways, and of more keys than are taken at once. */
BACKEND_TEST(test_scores_are_capped_softly)
{
    check_random(b, (attention_shape){2, 129, 4, 2, 8, 0, false, 0, 2.0, 0, 0, 0}, 2.0);
    check_random(b, (attention_shape){1, 700, 2, 1, 6, 63, false, 0, 0.5, 0, 0, 0}, 2.0);
    check_random(b, (attention_shape){3, 40, 2, 2, 5, 0, true, 0, 50.0, 0, 0, 0}, 1.0);
}

BACKEND_TEST(test_large_scores_neither_overflow_nor_vanish)
{
    check_random(b, (attention_shape){1, 1100, 2, 2, 8, 0, false, 0, 0.0, 0, 0, 0}, 60.0);
}

/* Scores that grow with the position move the running maximum at every block of keys, by more than
 * exp can bridge in f32; falling ones never move it. */
TEST(test_the_running_maximum_may_move_or_stay)
{
    enum { LENGTH = 1300 };
    float q[LENGTH];
    float k[LENGTH];
    FOR_EACH_BACKEND(b)
    {
        static const double steps[] = {0.01, 0.5, -0.01, -0.5};
        for (size_t step = 0; step < sizeof steps / sizeof steps[0]; step++) {
            for (int i = 0; i < LENGTH; i++) {
                q[i] = 1.0F;
                k[i] = (float)as_operand(b, (float)(steps[step] * i));
            }
            OWNED(float) *v = operands(b, LENGTH, 4);
            check_attention(b, (attention_shape){1, LENGTH, 1, 1, 1, 0, false, 1.0, 0.0, 0, 0, 0},
                            true, q, k, v, NULL, 1000.0);
        }
    }
}

/* Below, among and far above the scores, over several blocks of keys. */
BACKEND_TEST(test_sinks_take_a_part_of_the_weights)
{
    static const float sinks[] = {-3.0F, 0.25F, 40.0F, -200.0F};
    check_sinks(b, (attention_shape){2, 19, 4, 2, 8, 0, false, 0, 0.0, 0, 0, 0}, sinks, 1.0);
    check_sinks(b, (attention_shape){1, 900, 4, 4, 6, 0, false, 0, 0.0, 0, 0, 0}, sinks, 2.0);
    check_sinks(b, (attention_shape){1, 700, 4, 1, 6, 63, false, 0, 0.0, 0, 0, 0}, sinks, 1.0);
    check_sinks(b, (attention_shape){3, 40, 4, 2, 5, 0, true, 0, 2.0, 0, 0, 0}, sinks, 1.0);
}

/* More positions than there are rows, behind earlier keys, of shared keys, with windows, of more
 * keys than are taken at once. */
BACKEND_TEST(test_scores_have_biases)
{
    static const struct {
        attention_shape shape;
        int64_t positions;
    } cases[] = {
        {{2, 9, 4, 2, 8, 0, true, 0, 0.0, 0, 0, 0}, 9},
        {{3, 19, 3, 3, 5, 0, true, 0, 0.0, 7, 0, 0}, 30},
        {{1, 1, 2, 2, 4, 0, true, 0, 0.0, 0, 0, 0}, 1},
        {{2, 7, 3, 3, 17, 4, false, 0, 0.0, 0, 30, 64}, 40},
        {{2, 3, 6, 2, 8, 0, false, 0, 0.0, 0, 500, 510}, 503},
        {{1, 700, 2, 1, 6, 63, true, 0, 0.0, 0, 0, 0}, 701},
        {{1, 900, 2, 2, 6, 0, false, 0, 0.0, 0, 0, 0}, 900},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_biases(b, cases[i].shape, cases[i].positions, false, 1);
        check_biases(b, cases[i].shape, cases[i].positions, true, 1);
    }
    check_biases(b, (attention_shape){12, 16, 4, 2, 8, 0, true, 0, 0.0, 0, 0, 0}, 16, false, 4);
    check_biases(b, (attention_shape){6, 900, 2, 2, 6, 0, true, 0, 0.0, 0, 0, 0}, 900, false, 3);
}

BACKEND_TEST(test_values_may_be_wider_or_narrower_than_keys)
{
    static const float sinks[] = {0.5F, -1.0F, 2.0F, 0.0F};
    check_random(b, (attention_shape){2, 300, 4, 2, 12, 0, false, 0, 0.0, 5, 0, 0}, 1.0);
    check_random(b, (attention_shape){1, 700, 2, 1, 6, 63, false, 0, 0.0, 40, 0, 0}, 1.0);
    check_sinks(b, (attention_shape){2, 500, 4, 4, 48, 0, false, 0, 0.0, 32, 0, 0}, sinks, 1.0);
    check_random(b, (attention_shape){1, 30, 2, 2, 3, 0, true, 0, 0.0, 1, 0, 0}, 1.0);
}

typedef struct small_attention {
    matrix q, out;
} small_attention;

static grail_status attend_small(void *context)
{
    const small_attention *a = context;
    const attention_shape s = {1, 2, 1, 1, 1, 0, false, 1.0, 0.0, 0, 0, 0};
    return matrix_attention(&s, a->q, a->q, a->q, a->out, no_matrix, no_matrix);
}

BACKEND_TEST(test_attention_reports_lack_of_memory)
{
    static const float zeros[2] = {0.0F};
    small_attention a = {values_of(b, 2, 1, zeros), blank_values(b, 2, 1)};
    support_fail_each_allocation(attend_small, &a);
    free_matrices(&a.q, &a.out);
}
