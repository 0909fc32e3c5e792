/* Windows that move over images, and their gradients, on every backend: what torch makes of them
 * (make_window_golden.py). */
#include "conformance/image_shapes.h"

#include "graph/node.h"

#include <stdio.h>
#include <string.h>

/* A golden case. Weight, bias and dweight are missing where there is no weight. */
typedef struct golden_window {
    char kind[24];
    conv_shape shape;
    int64_t columns; /* of the weight */
    double *x, *y, *dy, *dx, *weight, *bias, *dweight;
} golden_window;

/* The same on one backend. Gradients of parameters are added to, here to 0. */
typedef struct window_case {
    const golden_window *golden;
    matrix x, weight, bias, y, dy, dx, dweight;
} window_case;

static double *read_values(FILE *f, int64_t count)
{
    double *values = doubles(count, 0.0);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(fscanf(f, "%lf", &values[i]), 1);
    }
    return values;
}

static int64_t read_integer(FILE *f)
{
    long long value = 0;
    assert_int_equal(fscanf(f, "%lld", &value), 1);
    return value;
}

static window_axis read_axis(FILE *f)
{
    window_axis a = {0};
    int64_t *const numbers[] = {&a.kernel, &a.stride, &a.dilation, &a.before, &a.behind};
    for (int i = 0; i < 5; i++) {
        *numbers[i] = read_integer(f);
    }
    return a;
}

/* False behind the last case. */
static bool read_case(FILE *f, golden_window *g)
{
    conv_shape *s = &g->shape;
    int64_t *const numbers[] = {&s->samples,   &s->in.height,   &s->in.width,     &s->out.height,
                                &s->out.width, &s->channels_in, &s->channels_out, &s->groups};
    *g = (golden_window){0};
    if (fscanf(f, "%23s", g->kind) != 1) {
        return false;
    }
    for (int i = 0; i < 8; i++) {
        *numbers[i] = read_integer(f);
    }
    s->window.height = read_axis(f);
    s->window.width = read_axis(f);
    s->window.rounds_up = strstr(g->kind, "_UP") != NULL;
    g->columns = read_by_each(s) * taps_of(s);
    const int64_t outputs = positions_of(s) * s->channels_out;
    g->x = read_values(f, inputs_of(s));
    g->y = read_values(f, outputs);
    g->dy = read_values(f, outputs);
    g->dx = read_values(f, inputs_of(s));
    if (g->kind[0] == 'C' || g->kind[0] == 'D') {
        g->weight = read_values(f, s->channels_out * g->columns);
        g->bias = read_values(f, s->channels_out);
        g->dweight = read_values(f, s->channels_out * g->columns);
    }
    return true;
}

/* Values of the backend's type; a missing matrix of missing values. */
static matrix values_from(backend *b, int64_t rows, int64_t columns, const double *values)
{
    return values == NULL ? no_matrix : matrix_of(b, backend_type(b), rows, columns, values);
}

static window_case case_on(backend *b, const golden_window *g)
{
    const conv_shape *s = &g->shape;
    const int64_t inputs = s->samples * s->in.height * s->in.width;
    double *zeros = doubles(s->channels_out * g->columns, 0.0);
    const window_case c = {
        .golden = g,
        .x = values_from(b, inputs, s->channels_in, g->x),
        .weight = values_from(b, s->channels_out, g->columns, g->weight),
        .bias = values_from(b, 1, s->channels_out, g->bias),
        .y = blank_values(b, positions_of(s), s->channels_out),
        .dy = values_from(b, positions_of(s), s->channels_out, g->dy),
        .dx = blank_values(b, inputs, s->channels_in),
        .dweight = values_from(b, s->channels_out, g->columns, g->weight == NULL ? NULL : zeros)};
    memory_free(zeros);
    return c;
}

static void run_window(const window_case *c)
{
    const conv_shape *s = &c->golden->shape;
    const char kind = c->golden->kind[0];
    if (kind == 'C') {
        assert_ok(matrix_conv2d(s, 0.0, c->x, c->weight, c->bias, no_matrix, c->y));
        assert_ok(matrix_conv2d_gradient(s, c->x, c->weight, c->dy, c->dx, c->dweight, no_matrix));
    } else if (kind == 'D') {
        assert_ok(matrix_depthwise(s, 0.0, c->x, c->weight, c->bias, c->y));
        assert_ok(matrix_depthwise_gradient(s, c->x, c->weight, c->dy, c->dx, c->dweight));
    } else if (kind == 'A') {
        const bool padded = strstr(c->golden->kind, "PADDED") != NULL;
        assert_ok(matrix_average_pool(s, padded, c->x, c->y));
        assert_ok(matrix_average_pool_gradient(s, padded, c->dy, c->dx));
    } else {
        assert_ok(matrix_max_pool(s, c->x, c->y));
        assert_ok(matrix_max_pool_gradient(s, c->x, c->dy, c->dx));
    }
}

static void check_case(backend *b, const golden_window *g)
{
    window_case c = case_on(b, g);
    run_window(&c);
    assert_matrix_near(g->kind, c.y, g->y, 64.0 * rounding(b));
    assert_matrix_near(g->kind, c.dx, g->dx, 64.0 * rounding(b));
    if (g->dweight != NULL) {
        assert_matrix_near(g->kind, c.dweight, g->dweight, 256.0 * rounding(b));
    }
    free_matrices(&c.x, &c.weight, &c.bias, &c.y, &c.dy, &c.dx, &c.dweight);
}

TEST(windows_and_their_gradients_are_those_of_torch)
{
    golden_window g;
    int count = 0;
    FILE *f = fopen(GRAIL_SOURCE_DIR "/tests/golden/windows.txt", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "torch %*s"), 0);
    for (; read_case(f, &g); count++) {
        const extent made = window_positions(&g.shape.window, g.shape.in);
        assert_int_equal(made.height, g.shape.out.height);
        assert_int_equal(made.width, g.shape.out.width);
        FOR_EACH_BACKEND(b)
        {
            check_case(b, &g);
        }
        free_blocks(g.x, g.y, g.dy, g.dx, g.weight, g.bias, g.dweight);
    }
    assert_true(count > 0);
    assert_int_equal(fclose(f), 0);
}
