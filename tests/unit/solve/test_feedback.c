/* Rounding with error feedback, against removal of the columns one by one from the inverse. */
#include "oracle.h"

#include "solve/feedback.h"

#include <string.h>

enum { SAMPLES = 600, WIDTH = 256, LARGEST = 320, OUTPUTS = 8 };

/* Inputs of which neighbours have much in common, weights, and what becomes of them. */
typedef struct lab {
    int64_t width;
    float x[SAMPLES * LARGEST];
    float weights[OUTPUTS * LARGEST];
    float rounded[OUTPUTS * LARGEST];
    unsigned char stored[OUTPUTS * LARGEST * 2];
} lab;

static lab *lab_of(int64_t width)
{
    static lab l;
    l.width = width;
    support_fill_normal(l.x, SAMPLES * width, 1);
    support_fill_normal(l.weights, OUTPUTS * width, 2);
    for (int64_t i = 0; i < SAMPLES; i++) {
        for (int64_t k = 1; k < width; k++) {
            l.x[i * width + k] += 1.5F * l.x[i * width + k - 1];
            l.x[i * width + k] *= 0.6F;
        }
    }
    memcpy(l.rounded, l.weights, sizeof l.weights);
    return &l;
}

static void gram_of(const lab *l, double *gram)
{
    memset(gram, 0, (size_t)(l->width * l->width) * sizeof gram[0]);
    for (int64_t i = 0; i < SAMPLES; i++) {
        const float *x = l->x + i * l->width;
        for (int64_t a = 0; a < l->width; a++) {
            for (int64_t b = 0; b < l->width; b++) {
                gram[a * l->width + b] += (double)x[a] * (double)x[b];
            }
        }
    }
}

static grail_status round_on(backend *b, grail_dtype dtype, lab *l)
{
    grail_status status = GRAIL_OK;
    static double gram[LARGEST * LARGEST];
    feedback f = {0};
    gram_of(l, gram);
    OWNED(matrix) m = {0};
    TRY(matrix_new_zero(b, GRAIL_DTYPE_F64, l->width, l->width, &m));
    TRY(matrix_upload(m, gram));
    TRY(feedback_init(&m, &f));
    TRY(feedback_round(&f, dtype, OUTPUTS, l->rounded, l->stored));
out:
    feedback_fini(&f);
    return status;
}

static double error_of(const lab *l, const float *weights)
{
    double error = 0.0;
    for (int64_t i = 0; i < SAMPLES; i++) {
        for (int64_t o = 0; o < OUTPUTS; o++) {
            double y = 0.0;
            for (int64_t k = 0; k < l->width; k++) {
                y += (double)l->x[i * l->width + k] *
                     (double)(weights[o * l->width + k] - l->weights[o * l->width + k]);
            }
            error += y * y;
        }
    }
    return error;
}

TEST(outputs_are_nearer_than_without_it)
{
    static const grail_dtype types[] = {GRAIL_DTYPE_Q4_0,    GRAIL_DTYPE_Q5_0,   GRAIL_DTYPE_Q8_0,
                                        GRAIL_DTYPE_Q4_K,    GRAIL_DTYPE_Q6_K,   GRAIL_DTYPE_W4_G32,
                                        GRAIL_DTYPE_W4_G128, GRAIL_DTYPE_W8_G128};
    static float plain[OUTPUTS * WIDTH];
    static float read[OUTPUTS * WIDTH];
    static unsigned char stored[OUTPUTS * WIDTH * 2];
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        lab *l = lab_of(WIDTH);
        const int64_t blocks = OUTPUTS * WIDTH / dtype_block(types[i]);
        assert_ok(blocks_from_f32(types[i], l->weights, blocks, stored));
        blocks_to_f32(types[i], stored, blocks, plain);
        assert_ok(round_on(on_cpu, types[i], l));
        blocks_to_f32(types[i], l->stored, blocks, read);
        assert_memory_equal(read, l->rounded, sizeof read);
        assert_true(error_of(l, l->rounded) < 0.5 * error_of(l, plain));
    }
}

/* Column j leaves an inverse of so many columns, the last of them. */
static void leave(double *inverse, int64_t n, int64_t j)
{
    for (int64_t a = 0; a < j; a++) {
        const double share = inverse[a * n + j] / inverse[j * n + j];
        for (int64_t b = 0; b < j; b++) {
            inverse[a * n + b] -= share * inverse[j * n + b];
        }
    }
}

/* What rounding column j costs when those behind it have left the inverse: 1 / inverse[j, j]. */
static void costs_of(const double *whole, int64_t n, float *costs)
{
    static double inverse[LARGEST * LARGEST];
    double most = 0.0;
    memcpy(inverse, whole, (size_t)(n * n) * sizeof inverse[0]);
    for (int64_t j = n - 1; j >= 0; j--) {
        most = 1.0 / inverse[j * n + j] > most ? 1.0 / inverse[j * n + j] : most;
        leave(inverse, n, j);
    }
    for (int64_t j = 0; j < n; j++) {
        costs[j] = (float)(1.0 / inverse[j * n + j] / most);
    }
}

/* The columns before column j are moved by -e_j inv[j, k] / inv[j, j]; then j leaves the inverse,
 * from the last column on. */
static void round_row_by_elimination(double *inverse, int64_t n, double *w, float *rounded)
{
    enum { BLOCK = 32 };
    static float costs[LARGEST];
    block_grid grid = {0};
    unsigned char block[64];
    costs_of(inverse, n, costs);
    for (int64_t j = n - 1; j >= 0; j--) {
        const int at = (int)(j % BLOCK);
        float current[BLOCK];
        for (int64_t k = 0; at == BLOCK - 1 && k < BLOCK; k++) {
            current[k] = (float)w[j - at + k];
        }
        if (at == BLOCK - 1) {
            assert_ok(block_fit_factors(GRAIL_DTYPE_Q4_0, current, costs + j - at, block));
            block_read_grid(GRAIL_DTYPE_Q4_0, block, &grid);
        }
        const int q = block_nearest(&grid, at, (float)w[j]);
        rounded[j] = grid.step[at] * (float)q + grid.least[at];
        const double error = (w[j] - (double)rounded[j]) / inverse[j * n + j];
        for (int64_t k = 0; k < j; k++) {
            w[k] -= error * inverse[j * n + k];
        }
        leave(inverse, n, j);
    }
}

static void damped_inverse_of(const lab *l, double *inverse)
{
    static double gram[LARGEST * LARGEST];
    const int64_t n = l->width;
    double mean = 0.0;
    gram_of(l, gram);
    for (int64_t k = 0; k < n; k++) {
        mean += gram[k * n + k] / (double)n;
    }
    memset(inverse, 0, (size_t)(n * n) * sizeof inverse[0]);
    for (int64_t k = 0; k < n; k++) {
        gram[k * n + k] += 0.01 * mean;
        inverse[k * n + k] = 1.0;
    }
    oracle_divide(n, gram, n, inverse);
}

TEST(it_is_what_elimination_gives)
{
    static double inverse[LARGEST * LARGEST]; /* a whole panel, and a part of one */
    static float expected[LARGEST];
    double w[LARGEST];
    int same = 0;
    lab *l = lab_of(LARGEST);
    assert_ok(round_on(on_ref, GRAIL_DTYPE_Q4_0, l));
    for (int64_t o = 0; o < OUTPUTS; o++) {
        damped_inverse_of(l, inverse);
        oracle_widen(LARGEST, l->weights + o * LARGEST, w);
        round_row_by_elimination(inverse, LARGEST, w, expected);
        bool equal = true;
        for (int64_t k = 0; k < LARGEST; k++) {
            equal = equal && expected[k] == l->rounded[o * LARGEST + k];
        }
        same += equal ? 1 : 0;
    }
    assert_true(same >= OUTPUTS - 1); /* a value may lie halfway between two numbers */
}

static double weighted_error_of(grail_dtype dtype, const unsigned char *block, const float *values,
                                const float *weights)
{
    double error = 0.0;
    block_grid grid;
    block_read_grid(dtype, block, &grid);
    for (int j = 0; j < (int)dtype_block(dtype); j++) {
        const float nearest =
            grid.step[j] * (float)block_nearest(&grid, j, values[j]) + grid.least[j];
        const double e = (double)(nearest - values[j]);
        error += (double)weights[j] * e * e;
    }
    return error;
}

TEST(factors_cost_no_more_than_the_usual_ones)
{
    static const grail_dtype types[] = {GRAIL_DTYPE_Q4_0, GRAIL_DTYPE_Q8_0, GRAIL_DTYPE_Q4_K,
                                        GRAIL_DTYPE_Q6_K, GRAIL_DTYPE_W4_G128};
    const lab *l = lab_of(WIDTH);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        double usual = 0.0;
        double fitted = 0.0;
        for (int64_t o = 0; o < OUTPUTS; o++) {
            float weights[WIDTH];
            unsigned char block[2][LARGEST_BLOCK];
            const float *values = l->weights + o * WIDTH;
            for (int64_t j = 0; j < WIDTH; j++) {
                weights[j] = 0.01F + l->x[o * WIDTH + j] * l->x[o * WIDTH + j];
            }
            assert_ok(blocks_from_f32(types[i], values, 1, block[0]));
            assert_ok(block_fit_factors(types[i], values, weights, block[1]));
            const double without = weighted_error_of(types[i], block[0], values, weights);
            const double with = weighted_error_of(types[i], block[1], values, weights);
            assert_true(with <= without * 1.000001);
            usual += without;
            fitted += with;
        }
        assert_true(fitted < (types[i] == GRAIL_DTYPE_Q8_0 ? 1.0 : 0.9) * usual);
    }
}

TEST(what_cannot_be_rounded_is_refused)
{
    feedback f = {.columns = 40};
    lab *l = lab_of(64);
    assert_fails(feedback_round(&f, GRAIL_DTYPE_Q4_0, 1, l->rounded, l->stored), GRAIL_ERROR_SHAPE,
                 "rows of 40 weights do not fill blocks of Q4_0");
    l->rounded[3 * 64 + 5] = 3e38F;
    assert_fails(round_on(on_cpu, GRAIL_DTYPE_Q4_0, l), GRAIL_ERROR_NUMERIC,
                 "row 3 has values that are too large for Q4_0");
    memset(l->x, 0, sizeof l->x);
    assert_int_equal(round_on(on_cpu, GRAIL_DTYPE_Q4_0, l), GRAIL_ERROR_NUMERIC);
}

static grail_status round_once(void *context)
{
    return round_on(on_cpu, GRAIL_DTYPE_Q4_0, context);
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(round_once, lab_of(64));
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
