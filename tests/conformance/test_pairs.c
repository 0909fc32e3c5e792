/* Products of bf16 in squares: every unit of the processor as the plain loops, and these as f64. */
#include "backend/cpu/attention.h"
#include "backend/cpu/linear_pairs.h"
#include "backend/cpu/pairs.h"
#include "backend/cpu/rounding.h"
#include "conformance/conformance.h"

#include <string.h>

static uint32_t *squares_of(int64_t count)
{
    uint32_t *out = NULL;
    assert_ok(memory_new(&out, (size_t)(count * PAIR_SQUARE), sizeof *out));
    return out;
}

/* X[rows, columns] in squares, right and left, high and low. */
typedef struct ordered {
    int64_t down, across;
    uint32_t *right[2], *left[2]; /* owned */
} ordered;

static void ordered_fini(ordered *o)
{
    for (int i = 0; i < 2; i++) {
        free_blocks(o->right[i], o->left[i]);
    }
}

static ordered order_all(int64_t rows, int64_t columns, const float *x)
{
    ordered o = {.down = pair_squares(rows), .across = pair_squares(columns)};
    for (int i = 0; i < 2; i++) {
        o.right[i] = squares_of(o.down * o.across);
        o.left[i] = squares_of(o.down * o.across);
    }
    for (int64_t at = 0; at < o.down * o.across; at++) {
        const int64_t r = at % o.down * PAIR_SIDE;
        const int64_t c = at / o.down * PAIR_SIDE;
        const int64_t place = at * PAIR_SQUARE;
        const pair_places to = {.right = {o.right[0] + place, o.right[1] + place},
                                .left = {o.left[0] + place, o.left[1] + place}};
        pairs_order(x + r * columns + c, columns, rows - r < PAIR_SIDE ? rows - r : PAIR_SIDE,
                    columns - c < PAIR_SIDE ? columns - c : PAIR_SIDE, &to);
    }
    return o;
}

static float part_of(float x, int part)
{
    const float high = bf16_widened(bf16_rounded(x));
    return part == 0 ? high : bf16_widened(bf16_rounded(x - high));
}

/* *size is the sum of the absolute products. */
static double exact(int64_t rows, int64_t columns, const float *x, int64_t i, int64_t j,
                    const int parts[2], double *size)
{
    double sum = 0.0;
    for (int64_t r = 0; r < rows; r++) {
        const double product = (double)part_of(x[r * columns + i], parts[0]) *
                               (double)part_of(x[r * columns + j], parts[1]);
        sum += product;
        *size += fabs(product);
    }
    return sum;
}

/* C = 1 + high^T high + high^T low, or below the squares of the diagonal alone. */
static void check(pair_unit unit, bool lower, int64_t rows, int64_t columns)
{
    OWNED(float) *x = normals(rows * columns, 3, 1.0);
    ordered o = order_all(rows, columns, x);
    const int64_t side = o.across * PAIR_SIDE;
    float *c = NULL;
    assert_ok(memory_new(&c, (size_t)(side * side), sizeof *c));
    for (int64_t at = 0; at < side * side; at++) {
        c[at] = 1.0F;
    }
    const pair_product p = {.count = 2,
                            .left = {o.left[0], o.left[0]},
                            .right = {o.right[0], o.right[1]},
                            .step = o.down * PAIR_SQUARE,
                            .rows = o.down,
                            .height = o.across,
                            .width = o.across,
                            .lower = lower};
    if (pairs_multiply_on(unit, &p, c, side)) {
        for (int64_t at = 0; at < side * side; at++) {
            const int64_t i = at / side;
            const int64_t j = at % side;
            double size = 1.0;
            double sum = 1.0;
            if (i < columns && j < columns && (!lower || j / PAIR_SIDE <= i / PAIR_SIDE)) {
                sum += exact(rows, columns, x, i, j, (const int[]){0, 0}, &size);
                sum += exact(rows, columns, x, i, j, (const int[]){0, 1}, &size);
            }
            if (!(fabs((double)c[at] - sum) <= (double)(2 * rows + 2) * 0x1p-24 * size)) {
                fail_msg("unit %d, %lld x %lld: C[%lld, %lld] is %.9g, expected %.9g", (int)unit,
                         (long long)rows, (long long)columns, (long long)i, (long long)j,
                         (double)c[at], sum);
            }
        }
    }
    memory_free(c);
    ordered_fini(&o);
}

TEST(every_unit_adds_products_of_parts)
{
    static const int64_t shapes[][2] = {{1, 1}, {2, 40}, {33, 33}, {64, 16}, {97, 70}, {31, 96}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int unit = 0; unit < PAIR_UNITS; unit++) {
            check((pair_unit)unit, false, shapes[i][0], shapes[i][1]);
            check((pair_unit)unit, true, shapes[i][0], shapes[i][1]);
        }
    }
}

/* A square of numbers that tell their place: on the right words lie by row, on the left by column,
 * and what is outside is 0. */
TEST(squares_hold_pairs_of_rows)
{
    enum { ROWS = 21, COLUMNS = 27, HALF = PAIR_SIDE / 2 };
    OWNED(float) *x = normals(ROWS * COLUMNS, 1, 1.0);
    ordered o = order_all(ROWS, COLUMNS, x);
    for (int at = 0; at < PAIR_SQUARE; at++) {
        const int half = at / (HALF * HALF);
        const int q = at / HALF % HALF;
        const int column = half * HALF + at % HALF;
        for (int part = 0; part < 2; part++) {
            uint32_t word = 0;
            for (int odd = 0; odd < 2; odd++) {
                const int row = 2 * q + odd;
                const float value =
                    row < ROWS && column < COLUMNS ? x[row * COLUMNS + column] : 0.0F;
                word |= (uint32_t)bf16_rounded(part_of(value, part)) << 16 * odd;
            }
            assert_int_equal(o.right[part][at], word);
            assert_int_equal(o.left[part][half * HALF * HALF + at % HALF * HALF + q], word);
        }
    }
    ordered_fini(&o);
}

/* Y = X W^T + bias of an instance on the host, with W in squares. */
typedef struct weighted {
    int64_t rows, in, out;
    matrix x, y;
    uint16_t *weight; /* row-major */
    void *squares;
    float *bias;
} weighted;

static weighted weighted_new(int64_t rows, int64_t in, int64_t out)
{
    weighted w = {.rows = rows, .in = in, .out = out, .bias = normals(out, 5, 1.0)};
    size_t bytes = 0;
    OWNED(float) *values = normals(out * in, 6, 1.0);
    OWNED(float) *x = normals(rows * in, 7, 1.0);
    w.x = values_of(backend_host(), rows, in, x);
    w.y = blank_values(backend_host(), rows, out);
    assert_ok(memory_new(&w.weight, (size_t)(out * in), sizeof w.weight[0]));
    for (int64_t i = 0; i < out * in; i++) {
        w.weight[i] = bf16_rounded(values[i]);
    }
    assert_ok(pairs_weight_bytes(out, in, &bytes));
    assert_ok(memory_new_unset((unsigned char **)&w.squares, bytes, 1));
    assert_ok(pairs_weight_order(out, in, w.weight, w.squares));
    return w;
}

static void weighted_fini(weighted *w)
{
    free_matrices(&w->x, &w->y);
    free_blocks(w->weight, w->bias);
    memory_free(w->squares);
}

static const int64_t products[][3] = {/* rows, in, out */
                                      {1, 1, 1},    {1, 32, 33},     {31, 33, 32}, {33, 70, 64},
                                      {7, 200, 65}, {700, 64, 96},   {600, 9, 7},  {40, 1500, 40},
                                      {3, 5, 2100}, {2050, 32, 2064}};

/* Y is X W^T + bias of these values, within `unit` of the sizes of its terms; some of its rows. */
static void assert_is_product(const weighted *w, const float *x, const float *weight,
                              const float *bias, double unit)
{
    const float *y = w->y.memory;
    for (int64_t i = 0; i < w->rows; i += 1 + w->rows / 40) {
        for (int64_t j = 0; j < w->out; j++) {
            double sum = bias == NULL ? 0.0 : (double)bias[j];
            double size = fabs(sum);
            for (int64_t k = 0; k < w->in; k++) {
                const double product = (double)x[i * w->in + k] * (double)weight[j * w->in + k];
                sum += product;
                size += fabs(product);
            }
            if (!(fabs((double)y[i * w->out + j] - sum) <= unit * size)) {
                fail_msg("%lld x %lld x %lld: Y[%lld, %lld] is %.9g, expected %.9g",
                         (long long)w->rows, (long long)w->in, (long long)w->out, (long long)i,
                         (long long)j, (double)y[i * w->out + j], sum);
            }
        }
    }
}

TEST(a_product_by_a_weight_in_squares_is_that_by_rows)
{
    for (size_t at = 0; at < sizeof products / sizeof products[0]; at++) {
        weighted w = weighted_new(products[at][0], products[at][1], products[at][2]);
        OWNED(float) *x = normals(w.rows * w.in, 7, 1.0);
        OWNED(float) *weight = normals(w.out * w.in, 6, 1.0);
        const float *bias = at % 2 == 0 ? w.bias : NULL;
        bool finite = false;
        assert_ok(pairs_linear(w.x, w.squares, NULL, bias, false, w.y, &finite));
        assert_true(finite);
        for (int64_t i = 0; i < w.rows * w.in; i++) {
            x[i] = bf16_widened(bf16_rounded(x[i]));
        }
        for (int64_t i = 0; i < w.out * w.in; i++) {
            weight[i] = bf16_widened(w.weight[i]);
        }
        assert_is_product(&w, x, weight, bias, (double)(w.in + 2) * 0x1p-24);
        weighted_fini(&w);
    }
}

/* Each part of a value is off by 2^-8 of what it stands for at most, so both by 2^-16 of the value,
 * as large as what low by low leaves out. */
TEST(a_product_of_two_parts_each_keeps_16_bits)
{
    for (size_t at = 0; at < sizeof products / sizeof products[0]; at++) {
        weighted w = weighted_new(products[at][0], products[at][1], products[at][2]);
        OWNED(float) *values = normals(w.out * w.in, 6, 1.0);
        matrix weight = values_of(backend_host(), w.out, w.in, values);
        unsigned char *parts = NULL;
        size_t bytes = 0;
        bool finite = false;
        assert_ok(pairs_weight_bytes(w.out, w.in, &bytes));
        assert_ok(memory_new_unset(&parts, 2, bytes));
        pairs_weight_split(weight, parts, parts + bytes);
        assert_ok(pairs_linear(w.x, parts, parts + bytes, w.bias, false, w.y, &finite));
        assert_true(finite);
        assert_is_product(&w, w.x.memory, values, w.bias,
                          3.0 * 0x1p-16 + (double)(3 * w.in + 2) * 0x1p-24);
        memory_free(parts);
        matrix_free(&weight);
        weighted_fini(&w);
    }
}

TEST(a_row_has_the_same_bits_whatever_is_beside_it)
{
    weighted w = weighted_new(1100, 100, 48);
    OWNED(float) *alone = normals(48, 1, 1.0);
    matrix one = {0};
    bool finite = false;
    assert_ok(pairs_linear(w.x, w.squares, NULL, w.bias, false, w.y, &finite));
    for (int64_t i = 0; i < w.rows; i += 99) {
        one = blank_values(backend_host(), 1, w.out);
        assert_ok(
            pairs_linear(matrix_rows(w.x, i, 1), w.squares, NULL, w.bias, false, one, &finite));
        assert_ok(matrix_download_f32(one, alone));
        assert_memory_equal(alone, (const float *)w.y.memory + i * w.out,
                            (size_t)w.out * sizeof alone[0]);
        matrix_free(&one);
    }
    weighted_fini(&w);
}

TEST(a_weight_in_squares_comes_back)
{
    for (size_t at = 0; at < sizeof products / sizeof products[0]; at++) {
        weighted w = weighted_new(1, products[at][1], products[at][2]);
        uint16_t *back = NULL;
        assert_ok(memory_new(&back, (size_t)(w.in * w.out), sizeof back[0]));
        assert_ok(pairs_weight_restore(w.out, w.in, w.squares, back));
        assert_memory_equal(back, w.weight, (size_t)(w.in * w.out) * sizeof back[0]);
        memory_free(back);
        weighted_fini(&w);
    }
}

/* Wherever it lies: in the last row or column, in a part that is streamed or not. */
TEST(what_is_not_finite_is_found)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t at = 0; at < sizeof products / sizeof products[0]; at++) {
        weighted w = weighted_new(products[at][0], products[at][1], products[at][2]);
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            bool finite = true;
            float *last = (float *)w.x.memory + w.rows * w.in - 1;
            const float before = *last;
            *last = bad[i];
            assert_ok(pairs_linear(w.x, w.squares, NULL, NULL, false, w.y, &finite));
            assert_false(finite);
            *last = before;
            w.bias[w.out - 1] = bad[i];
            assert_ok(pairs_linear(w.x, w.squares, NULL, w.bias, false, w.y, &finite));
            assert_false(finite);
        }
        weighted_fini(&w);
    }
}

/* Whatever unit multiplies: near the same in f32, of operands that bf16 holds. */
static void check_attention(const attention_shape *s)
{
    const int64_t queries = s->sequences * s->length;
    const int64_t keys = s->sequences * attention_room(s);
    const int64_t value_dim = attention_value_dim(s);
    const int64_t columns[] = {s->query_heads * s->head_dim, s->kv_heads * s->head_dim,
                               s->kv_heads * value_dim, s->query_heads * value_dim};
    matrix m[5] = {{0}};
    for (int i = 0; i < 3; i++) {
        const int64_t rows = i == 0 ? queries : keys;
        OWNED(float) *values = normals(rows * columns[i], (uint64_t)i + 1, 1.0);
        for (int64_t at = 0; at < rows * columns[i]; at++) {
            values[at] = bf16_widened(bf16_rounded(values[at]));
        }
        m[i] = values_of(backend_host(), rows, columns[i], values);
    }
    m[3] = blank_values(backend_host(), queries, columns[3]);
    matrix expected = blank_values(backend_host(), queries, columns[3]);
    operation o = {.slot = SLOT_attention, .m = {m[0], m[1], m[2], m[3]}, .with.attention = s};
    assert_ok(attention_in_pairs(&o));
    assert_ok(matrix_attention(s, m[0], m[1], m[2], expected, no_matrix, no_matrix));
    OWNED(double) *is = results_of(m[3]);
    OWNED(double) *should = results_of(expected);
    assert_all_near(backend_host(), "attention", queries * columns[3], is, should, NULL, 0x1p-6);
    free_matrices(&m[0], &m[1], &m[2], &m[3], &expected);
}

TEST(attention_in_squares_is_that_in_f32)
{
    static const attention_shape shapes[] = {
        {.sequences = 1, .length = 1, .query_heads = 1, .kv_heads = 1, .head_dim = 1},
        {.sequences = 2, .length = 70, .query_heads = 4, .kv_heads = 2, .head_dim = 24},
        {.sequences = 3,
         .length = 33,
         .query_heads = 2,
         .kv_heads = 2,
         .head_dim = 64,
         .value_dim = 40,
         .bidirectional = true},
        {.sequences = 1,
         .length = 200,
         .query_heads = 2,
         .kv_heads = 1,
         .head_dim = 40,
         .window = 50,
         .cap = 3.0},
        {.sequences = 1,
         .length = 90,
         .query_heads = 2,
         .kv_heads = 1,
         .head_dim = 32,
         .window = 20,
         .bidirectional = true},
        {.sequences = 2,
         .length = 3,
         .query_heads = 2,
         .kv_heads = 1,
         .head_dim = 16,
         .earlier = 60,
         .room = 80},
        {.sequences = 1,
         .length = 40,
         .query_heads = 1,
         .kv_heads = 1,
         .head_dim = 8,
         .earlier = 2000},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        attention_shape s = shapes[i];
        s.scale = 1.0 / sqrt((double)s.head_dim);
        check_attention(&s);
    }
}

int main(void)
{
    return support_run_tests();
}
