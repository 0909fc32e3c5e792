/* Gradients of what works on each value alone, activations, soft caps and clamps: against finite
 * differences of the forward operation in f64. */
#include "conformance/slopes.h"

static void activate(const void *context, const matrix *inputs, matrix y)
{
    assert_ok(matrix_activate(*(const activation_kind *)context, inputs[0], y));
}

static void check_activation(backend *b, activation_kind kind, int64_t count, double spread,
                             bool in_place)
{
    float *x = normals(count, 6, spread);
    float *dy = normals(count, 7, 1.0);
    const slope_input inputs[SLOPE_INPUTS] = {{1, count, x}};
    slopes s = slopes_new(activate, &kind, inputs, 1, count, dy);
    matrix bx = values_of(b, 1, count, x);
    matrix bdy = values_of(b, 1, count, dy);
    matrix apart = blank_values(b, 1, count);
    const matrix dx = in_place ? bdy : apart;
    assert_ok(matrix_activate_gradient(kind, bx, bdy, dx));
    assert_slopes("activation", &s, 0, 0.0, dx, slope_tolerance(b, 16.0));
    slopes_free(&s);
    free_blocks(x, dy);
    free_matrices(&bx, &bdy, &apart);
}

TEST(test_activation_gradients_are_the_slopes)
{
    FOR_EACH_BACKEND(b)
    {
        for (int i = 0; i < ACTIVATION_KINDS; i++) {
            const activation_kind kind = (activation_kind)i;
            check_activation(b, kind, 0, 1.0, false);
            check_activation(b, kind, 101, 1.0, false);
            check_activation(b, kind, 101, 5.0, true);
            check_activation(b, kind, 97, 100.0, true);
        }
        check_activation(b, ACTIVATION_SILU, 40007, 1.0, true);
    }
}

static void cap_softly(const void *context, const matrix *inputs, matrix y)
{
    assert_ok(matrix_soft_cap(*(const double *)context, inputs[0], y));
}

TEST(test_gradients_of_soft_caps_are_the_slopes)
{
    enum { COUNT = 101 };
    static const double cap = 2.0;
    FOR_EACH_BACKEND(b)
    {
        float *x = normals(COUNT, 6, 2.0);
        float *dy = normals(COUNT, 7, 1.0);
        const slope_input inputs[SLOPE_INPUTS] = {{1, COUNT, x}};
        slopes s = slopes_new(cap_softly, &cap, inputs, 1, COUNT, dy);
        matrix y = values_of(b, 1, COUNT, x);
        matrix dx = values_of(b, 1, COUNT, dy);
        assert_ok(matrix_soft_cap(cap, y, y));
        assert_ok(matrix_soft_cap_gradient(cap, y, dx, dx));
        assert_slopes("soft_cap", &s, 0, 0.0, dx, slope_tolerance(b, 16.0));
        slopes_free(&s);
        free_blocks(x, dy);
        free_matrices(&y, &dx);
    }
}

static void clamp_values(const void *context, const matrix *inputs, matrix y)
{
    assert_ok(matrix_clamp(context, inputs[0], y));
}

TEST(test_gradients_of_clamps_are_the_slopes)
{
    enum { COUNT = 101 };
    static const clamp_attributes bounds = {-0.5, 2.0, 1.0};
    FOR_EACH_BACKEND(b)
    {
        float *x = normals(COUNT, 6, 2.0);
        float *dy = normals(COUNT, 7, 1.0);
        const slope_input inputs[SLOPE_INPUTS] = {{1, COUNT, x}};
        slopes s = slopes_new(clamp_values, &bounds, inputs, 1, COUNT, dy);
        matrix bx = values_of(b, 1, COUNT, x);
        matrix dx = values_of(b, 1, COUNT, dy);
        assert_ok(matrix_clamp_gradient(&bounds, bx, dx, dx));
        assert_slopes("clamp", &s, 0, 0.0, dx, slope_tolerance(b, 16.0));
        slopes_free(&s);
        free_blocks(x, dy);
        free_matrices(&bx, &dx);
    }
}

/* The slope far above 0: 1 for what grows, 0 for what is bounded. Far below it is 0. */
static double last_slope(int kind)
{
    return kind == ACTIVATION_RELU6 || kind == ACTIVATION_SIGMOID || kind == ACTIVATION_HARD_SIGMOID
               ? 0.0
               : 1.0;
}

TEST(test_activation_gradients_survive_extreme_inputs)
{
    static const float x[] = {-3e38F, -1e30F, -1e13F, -1000.0F, 1000.0F, 1e13F, 1e30F, 3e38F};
    enum { COUNT = sizeof x / sizeof x[0] };
    float dy[COUNT];
    for (int i = 0; i < COUNT; i++) {
        dy[i] = 3.0F;
    }
    FOR_EACH_BACKEND(b)
    {
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
}

TEST(test_relu_is_flat_at_zero)
{
    static const float x[] = {0.0F, -0.0F, 1e-30F, -1e-30F};
    static const float dy[] = {5.0F, 6.0F, 7.0F, 8.0F};
    static const double expected[] = {0.0, 0.0, 7.0, 0.0};
    FOR_EACH_BACKEND(b)
    {
        matrix bx = values_of(b, 1, 4, x);
        matrix g = values_of(b, 1, 4, dy);
        assert_ok(matrix_activate_gradient(ACTIVATION_RELU, bx, g, g));
        assert_matrix_near("relu", g, expected, 0.0);
        free_matrices(&bx, &g);
    }
}
