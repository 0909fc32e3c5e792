/* Products of bf16 in squares: every unit of the processor as the plain loops, and these as f64. */
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

int main(void)
{
    return support_run_tests();
}
