/* Gradients of what works on each value alone, activations, soft caps and clamps: against finite
 * differences of the forward operation in f64. */
#include "conformance/slopes.h"

static void activate(const void *context, const matrix *inputs, matrix y)
{
    assert_ok(matrix_activate(*(const activation_kind *)context, inputs[0], y));
}

static void activate_back(const void *context, matrix x, matrix dy, matrix dx)
{
    assert_ok(matrix_activate_gradient(*(const activation_kind *)context, x, dy, dx));
}

static void cap_softly(const void *context, const matrix *inputs, matrix y)
{
    assert_ok(matrix_soft_cap(*(const double *)context, inputs[0], y));
}

/* From what the cap gave. */
static void cap_softly_back(const void *context, matrix x, matrix dy, matrix dx)
{
    assert_ok(matrix_soft_cap(*(const double *)context, x, x));
    assert_ok(matrix_soft_cap_gradient(*(const double *)context, x, dy, dx));
}

static void clamp_values(const void *context, const matrix *inputs, matrix y)
{
    assert_ok(matrix_clamp(context, inputs[0], y));
}

static void clamp_back(const void *context, matrix x, matrix dy, matrix dx)
{
    assert_ok(matrix_clamp_gradient(context, x, dy, dx));
}

/* Functions have kinks at halves up to 6, which values of 16 bits meet. */
static float beside_kinks(const backend *b, float x)
{
    const bool is_half = fabsf(x) <= 6.0F && 2.0F * x == rintf(2.0F * x);
    return is_half ? held(b, 1.0625F * x + 0.0625F) : x;
}

static void check_slopes(backend *b, slope_function f,
                         void (*back)(const void *context, matrix x, matrix dy, matrix dx),
                         const void *context, int64_t count, double spread, bool in_place)
{
    float *x = normals(count, 6, spread);
    float *dy = normals(count, 7, 1.0);
    for (int64_t i = 0; i < count; i++) {
        x[i] = beside_kinks(b, x[i]);
    }
    const slope_input inputs[SLOPE_INPUTS] = {{1, count, x}};
    slopes s = slopes_new(f, context, inputs, 1, count, dy);
    matrix bx = values_of(b, 1, count, x);
    matrix bdy = values_of(b, 1, count, dy);
    matrix apart = blank_values(b, 1, count);
    const matrix dx = in_place ? bdy : apart;
    back(context, bx, bdy, dx);
    assert_slopes("of each value", &s, 0, 0.0, dx, slope_tolerance(b, 16.0));
    slopes_free(&s);
    free_blocks(x, dy);
    free_matrices(&bx, &bdy, &apart);
}

BACKEND_TEST(test_gradients_are_the_slopes)
{
    static const activation_kind silu = ACTIVATION_SILU;
    static const double cap = 2.0;
    static const clamp_attributes bounds = {-0.5, 2.0, 1.0};
    for (int i = 0; i < ACTIVATION_KINDS; i++) {
        const activation_kind kind = (activation_kind)i;
        check_slopes(b, activate, activate_back, &kind, 0, 1.0, false);
        check_slopes(b, activate, activate_back, &kind, 101, 1.0, false);
        check_slopes(b, activate, activate_back, &kind, 101, 5.0, true);
        check_slopes(b, activate, activate_back, &kind, 97, 100.0, true);
    }
    check_slopes(b, activate, activate_back, &silu, 40007, 1.0, true);
    check_slopes(b, cap_softly, cap_softly_back, &cap, 101, 2.0, true);
    check_slopes(b, clamp_values, clamp_back, &bounds, 101, 2.0, true);
}

/* The slope far above 0: 1 for what grows, 0 for what is bounded. Far below it is 0. */
static double last_slope(int kind)
{
    return kind == ACTIVATION_RELU6 || kind == ACTIVATION_SIGMOID ||
                   kind == ACTIVATION_HARD_SIGMOID || kind == ACTIVATION_TANH ||
                   kind == ACTIVATION_ERF
               ? 0.0
               : 1.0;
}

BACKEND_TEST(test_activation_gradients_survive_extreme_inputs)
{
    static const float sizes[] = {-3e38F, -1e30F, -1e13F, -1000.0F, 1000.0F, 1e13F, 1e30F, 3e38F};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    float x[COUNT];
    float dy[COUNT];
    for (int i = 0; i < COUNT; i++) {
        dy[i] = 3.0F;
        x[i] = fmaxf(-largest_value(b), fminf(sizes[i], largest_value(b)));
    }
    matrix bx = values_of(b, 1, COUNT, x);
    matrix bdy = values_of(b, 1, COUNT, dy);
    matrix dx = blank_values(b, 1, COUNT);
    for (int kind = 0; kind < ACTIVATION_KINDS; kind++) {
        double expected[COUNT];
        for (int i = 0; i < COUNT; i++) {
            expected[i] = x[i] < 0.0F ? 0.0 : 3.0 * last_slope(kind);
        }
        assert_ok(matrix_activate_gradient((activation_kind)kind, bx, bdy, dx));
        assert_matrix_near("activation", dx, expected, 1e-6);
    }
    free_matrices(&bx, &bdy, &dx);
}

BACKEND_TEST(test_relu_is_flat_at_zero)
{
    static const float x[] = {0.0F, -0.0F, 1e-7F, -1e-7F};
    static const float dy[] = {5.0F, 6.0F, 7.0F, 8.0F};
    static const double expected[] = {0.0, 0.0, 7.0, 0.0};
    matrix bx = values_of(b, 1, 4, x);
    matrix g = values_of(b, 1, 4, dy);
    assert_ok(matrix_activate_gradient(ACTIVATION_RELU, bx, g, g));
    assert_matrix_near("relu", g, expected, 0.0);
    free_matrices(&bx, &g);
}
