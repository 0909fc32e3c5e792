/* How a drift behind a norm of rows becomes one in front of it: the damping that is chosen, against
 * plain loops, and what is made with it. */
#include "support/support.h"

#include "backend/operations.h"
#include "pipeline/network/drift_scale.h"
#include "support/matrices.h"

#include <math.h>
#include <string.h>

enum { ROWS = 40, WIDTH = 12, DAMPINGS = 8 };

static const double dampings[DAMPINGS] = {1e-6, 1e-5, 1e-4, 1e-3,
                                          1e-2, 1e-1, 1.0,  (double)INFINITY};
static const double epsilon = 1e-6;

typedef struct rows_behind {
    float gains[WIDTH];
    float y[ROWS * WIDTH], drift[ROWS * WIDTH], stream[ROWS * WIDTH];
} rows_behind;

/* Gains that fall by `ratio` from one channel to the next. */
static rows_behind rows_with(double ratio, double drift)
{
    rows_behind r;
    support_fill_normal(r.y, ROWS * WIDTH, 1);
    support_fill_normal(r.drift, ROWS * WIDTH, 2);
    support_fill_normal(r.stream, ROWS * WIDTH, 3);
    for (int k = 0; k < WIDTH; k++) {
        r.gains[k] = (float)(20.0 * pow(ratio, k));
    }
    for (int i = 0; i < ROWS * WIDTH; i++) {
        r.drift[i] = (float)(drift * (double)r.drift[i]);
        r.y[i] *= (float)(1 + i / WIDTH % 5);
    }
    return r;
}

static double factor(const rows_behind *r, double damping, int k)
{
    double mean = 0.0;
    for (int i = 0; i < WIDTH; i++) {
        mean += (double)r->gains[i] * (double)r->gains[i] / WIDTH;
    }
    const double gain = (double)r->gains[k];
    return isinf(damping) ? 0.0 : gain / (gain * gain + damping * mean);
}

static double length(const double *row)
{
    double sum = 0.0;
    for (int k = 0; k < WIDTH; k++) {
        sum += row[k] * row[k];
    }
    return sqrt(sum / WIDTH + epsilon);
}

static double plain_error(const rows_behind *r, double damping)
{
    double sum = 0.0;
    for (int t = 0; t < ROWS; t++) {
        double y[WIDTH];
        double moved[WIDTH];
        double stream = 0.0;
        double error = 0.0;
        for (int k = 0; k < WIDTH; k++) {
            y[k] = (double)r->y[t * WIDTH + k];
            stream += (double)r->stream[t * WIDTH + k] * (double)r->stream[t * WIDTH + k];
        }
        for (int k = 0; k < WIDTH; k++) {
            moved[k] = y[k] + factor(r, damping, k) * (double)r->drift[t * WIDTH + k] * length(y);
        }
        for (int k = 0; k < WIDTH; k++) {
            const double gain = (double)r->gains[k];
            const double goal = gain * y[k] / length(y) + (double)r->drift[t * WIDTH + k];
            error += pow(gain * moved[k] / length(moved) - goal, 2.0);
        }
        sum += error / stream;
    }
    return sum;
}

static double best_damping(const rows_behind *r)
{
    int best = 0;
    for (int i = 1; i < DAMPINGS; i++) {
        best = plain_error(r, dampings[i]) < plain_error(r, dampings[best]) ? i : best;
    }
    return dampings[best];
}

/* The damping that the rows choose. */
static double choose(backend *b, const rows_behind *r)
{
    drift_scale s = {.damping = -1.0, .width = WIDTH};
    node norm = {.norm.epsilon = epsilon};
    s.norm = &norm;
    assert_ok(memory_new(&s.gains, WIDTH, sizeof s.gains[0]));
    memcpy(s.gains, r->gains, sizeof r->gains);
    OPENED(matrix_pool, pool, matrix_pool_create(b, &pool));
    OWNED(matrix) y = support_rows(b, ROWS, WIDTH, WIDTH, r->y);
    OWNED(matrix) drift = support_rows(b, ROWS, WIDTH, WIDTH, r->drift);
    OWNED(matrix) stream = support_rows(b, ROWS, WIDTH, WIDTH, r->stream);
    assert_true(drift_scale_is_open(&s));
    assert_ok(drift_scale_choose(&s, pool, y, drift, stream));
    assert_false(drift_scale_is_open(&s));
    assert_ok(drift_scale_apply(&s, y, drift));
    float made[ROWS * WIDTH];
    assert_ok(matrix_download_f32(drift, made));
    for (int i = 0; i < ROWS * WIDTH; i++) {
        double row[WIDTH];
        for (int k = 0; k < WIDTH; k++) {
            row[k] = (double)r->y[i / WIDTH * WIDTH + k];
        }
        const double expected = factor(r, s.damping, i % WIDTH) * (double)r->drift[i] * length(row);
        assert_near((double)made[i], expected, 1e-4 * fabs(expected) + 1e-9);
    }
    const double damping = s.damping;
    drift_scale_fini(&s);
    return damping;
}

TEST(the_damping_is_the_best_of_those_tried)
{
    backend *const instances[] = {on_ref, on_cpu};
    static const double ratios[] = {1.0, 0.7, 0.3};
    static const double sizes[] = {0.01, 1.0, 10.0};
    double least = (double)INFINITY;
    double most = 0.0;
    for (int i = 0; i < 18; i++) {
        const rows_behind r = rows_with(ratios[i / 2 % 3], sizes[i / 6]);
        const double damping = choose(instances[i % 2], &r);
        assert_true(plain_error(&r, damping) <= 1.001 * plain_error(&r, best_damping(&r)) + 1e-9);
        least = fmin(least, damping);
        most = fmax(most, damping);
    }
    assert_true(least < most);
}

/* Even gains need none; a small gain may not make a target of many times the row's length. */
TEST(small_gains_are_not_asked_for_much)
{
    const rows_behind even = rows_with(1.0, 0.1);
    const rows_behind uneven = rows_with(0.3, 1.0);
    assert_true(choose(on_cpu, &even) <= 1e-4);
    const double damping = choose(on_cpu, &uneven);
    assert_true(fabs(factor(&uneven, damping, WIDTH - 1)) < 0.01 / (double)uneven.gains[WIDTH - 1]);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
