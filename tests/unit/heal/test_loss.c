/* Losses: their values by plain loops, their gradients by finite differences in f64, and the bounds
 * on what short and long rows count. */
#include "heal/loss.h"

#include "support/matrices.h"

#include <math.h>

enum { ROWS = 5, WIDTH = 4, COUNT = ROWS * WIDTH };

typedef grail_status (*loss_function)(matrix y, matrix target, double scale, matrix gradient,
                                      matrix sum);

/* Row 3 is much shorter than the others, row 1 much longer. */
static void fill(double *y, double *target)
{
    for (int i = 0; i < COUNT; i++) {
        static const double sizes[ROWS] = {1.0, 200.0, 1.0, 1e-3, 1.0};
        y[i] = sin(1.7 * i + 0.3) + 0.2 * cos(5.0 * i);
        target[i] = sizes[i / WIDTH] * cos(0.8 * i + 0.1 * i * i);
    }
}

/* By the definition: short rows count as a hundredth of the median's length, long ones as 16 times
 * it. */
static double plain_distance(const double *y, const double *target)
{
    double squares[ROWS] = {0.0};
    double sorted[ROWS];
    double sum = 0.0;
    for (int i = 0; i < COUNT; i++) {
        squares[i / WIDTH] += target[i] * target[i];
    }
    for (int r = 0; r < ROWS; r++) {
        sorted[r] = squares[r];
        for (int k = r; k > 0 && sorted[k] < sorted[k - 1]; k--) {
            const double other = sorted[k];
            sorted[k] = sorted[k - 1];
            sorted[k - 1] = other;
        }
    }
    for (int i = 0; i < COUNT; i++) {
        const double off = y[i] - target[i];
        const double usual = sorted[ROWS / 2];
        sum += off * off / fmin(fmax(squares[i / WIDTH], 1e-4 * usual), 256.0 * usual);
    }
    return sum;
}

static double plain_divergence(const double *y, const double *target)
{
    double sum = 0.0;
    for (int r = 0; r < ROWS; r++) {
        double p = 0.0;
        double q = 0.0;
        for (int k = 0; k < WIDTH; k++) {
            p += exp(target[r * WIDTH + k]);
            q += exp(y[r * WIDTH + k]);
        }
        for (int k = 0; k < WIDTH; k++) {
            const int i = r * WIDTH + k;
            sum += exp(target[i]) / p * (target[i] - log(p) - y[i] + log(q));
        }
    }
    return sum;
}

/* The number of a sum, which is freed. */
static double taken(matrix *sum)
{
    double value = 0.0;
    assert_ok(matrix_download(*sum, &value));
    matrix_free(sum);
    return value;
}

static double loss_of(loss_function loss, const double *y, const double *target, double scale,
                      double *gradient)
{
    matrix sum = support_matrix(on_ref, 1, 1, &(double){0.5}); /* sums are added to */
    OWNED(matrix) a = support_matrix(on_ref, ROWS, WIDTH, y);
    OWNED(matrix) b = support_matrix(on_ref, ROWS, WIDTH, target);
    OWNED(matrix) d = {0};
    if (gradient != NULL) {
        assert_ok(matrix_new(on_ref, GRAIL_DTYPE_F64, ROWS, WIDTH, &d));
    }
    assert_ok(loss(a, b, scale, d, sum));
    if (gradient != NULL) {
        assert_ok(matrix_download(d, gradient));
    }
    return taken(&sum) - 0.5;
}

TEST(values_are_those_of_the_definition)
{
    double y[COUNT];
    double target[COUNT];
    fill(y, target);
    const double distance = plain_distance(y, target);
    assert_near(loss_of(distance_add, y, target, 0.0, NULL), distance, 1e-9 * distance);
    assert_near(loss_of(divergence_add, y, target, 0.0, NULL), plain_divergence(y, target), 1e-12);
    assert_near(loss_of(distance_add, target, target, 0.0, NULL), 0.0, 1e-15);
    assert_near(loss_of(divergence_add, target, target, 0.0, NULL), 0.0, 1e-15);
}

static void assert_gradient(loss_function loss)
{
    const double step = 1e-5;
    const double scale = 0.7;
    double y[COUNT];
    double target[COUNT];
    double gradient[COUNT];
    fill(y, target);
    (void)loss_of(loss, y, target, scale, gradient);
    for (int i = 0; i < COUNT; i++) {
        const double at = y[i];
        y[i] = at + step;
        const double above = loss_of(loss, y, target, 0.0, NULL);
        y[i] = at - step;
        const double below = loss_of(loss, y, target, 0.0, NULL);
        y[i] = at;
        const double expected = scale * (above - below) / (2.0 * step);
        assert_near(gradient[i], expected, 1e-7 * fmax(1.0, fabs(expected)));
    }
}

TEST(gradients_are_those_of_finite_differences)
{
    assert_gradient(distance_add);
    assert_gradient(divergence_add);
}

/* The gradient may take the place of the values. */
TEST(the_gradient_may_be_made_in_place)
{
    static const loss_function losses[] = {distance_add, divergence_add};
    double y[COUNT];
    double target[COUNT];
    double gradient[COUNT];
    fill(y, target);
    for (int k = 0; k < 2; k++) {
        matrix sum = support_matrix(on_ref, 1, 1, &(double){0.0});
        OWNED(matrix) a = support_matrix(on_ref, ROWS, WIDTH, y);
        OWNED(matrix) b = support_matrix(on_ref, ROWS, WIDTH, target);
        const double expected = loss_of(losses[k], y, target, 2.0, gradient);
        assert_ok(losses[k](a, b, 2.0, a, sum));
        assert_near(taken(&sum), expected, 1e-12 * expected);
        double *made = support_values(a);
        assert_memory_equal(made, gradient, sizeof gradient);
        memory_free(made);
        assert_ok(losses[k](a, b, 2.0, a, no_matrix)); /* a step asks for no sum */
    }
}

TEST(rows_without_a_target_have_a_bound)
{
    double y[COUNT];
    double target[COUNT];
    double gradient[COUNT];
    fill(y, target);
    for (int i = 3 * WIDTH; i < 4 * WIDTH; i++) {
        target[i] = 0.0;
    }
    const double some = plain_distance(y, target);
    assert_true(isfinite(some));
    assert_near(loss_of(distance_add, y, target, 1.0, gradient), some, 1e-9 * some);
    for (int i = 0; i < COUNT; i++) {
        target[i] = 0.0;
    }
    assert_true(loss_of(distance_add, y, target, 1.0, gradient) == 0.0); /* nothing to be like */
    for (int i = 0; i < COUNT; i++) {
        assert_true(gradient[i] == 0.0);
    }
}

/* Rows that one of the two lacks are refused before anything is written. */
TEST(other_shapes_are_refused)
{
    static const loss_function losses[] = {distance_add, divergence_add};
    static const int64_t rows[] = {1, ROWS - 1, ROWS + 1, 40 * ROWS};
    double values[40 * COUNT] = {0.0};
    OWNED(matrix) y = support_matrix(on_ref, ROWS, WIDTH, values);
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            matrix sum = support_matrix(on_ref, 1, 1, &(double){0.0});
            OWNED(matrix) other = support_matrix(on_ref, rows[i], WIDTH, values);
            const char *text = "the shapes of its matrices disagree";
            assert_fails(losses[k](y, other, 0.0, no_matrix, sum), GRAIL_ERROR_INTERNAL, text);
            assert_fails(losses[k](y, y, 1.0, other, sum), GRAIL_ERROR_INTERNAL, text);
            assert_true(taken(&sum) == 0.0);
        }
    }
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
