/* Gradients of convolutions, poolings and shortcuts: against differences, naive sums, and adjoints.
 */
#include "backend/operations.h"
#include "conformance/image_shapes.h"

/* -- convolution ------------------------------------------------------------------------------- */

/* Inputs of one shape, its gradients, and the sums of the magnitudes of their terms. Those of
 * parameters begin with what is to be added to. */
typedef struct convolution {
    conv_shape shape;
    float *x, *weight, *bias, *dy, *weight_before, *bias_before;
    double *dx, *dweight, *dbias;
    double *dx_scale, *dweight_scale, *dbias_scale;
} convolution;

/* One term of a gradient. */
static void add_term(double a, double b, double *sum, double *scale)
{
    *sum += a * b;
    *scale += fabs(a * b);
}

/* Each product of the convolution gives a term to both gradients. */
static void add_naive_gradients(const convolution *c)
{
    const conv_shape *s = &c->shape;
    const int64_t taps = taps_of(s);
    for (int64_t i = 0; i < positions_of(s) * s->channels_out * taps; i++) {
        const int64_t out = i / taps;
        const int64_t from = tap_index(s, out / s->channels_out, i % taps);
        const double dy = (double)c->dy[out];
        for (int64_t k = 0; from >= 0 && k < read_by_each(s); k++) {
            const int64_t channel = out % s->channels_out;
            const int64_t w = (channel * read_by_each(s) + k) * taps + i % taps;
            const int64_t in = from + first_read(s, channel) + k;
            add_term(dy, (double)c->weight[w], &c->dx[in], &c->dx_scale[in]);
            add_term(dy, (double)c->x[in], &c->dweight[w], &c->dweight_scale[w]);
        }
        if (i % taps == 0) {
            add_term(dy, 1.0, &c->dbias[out % s->channels_out],
                     &c->dbias_scale[out % s->channels_out]);
        }
    }
}

static double *widened(int64_t count, const float *values)
{
    double *out = doubles(count, 0.0);
    for (int64_t i = 0; i < count; i++) {
        out[i] = (double)values[i];
    }
    return out;
}

static convolution convolution_of(const conv_shape *s)
{
    convolution c = {.shape = *s,
                     .x = normals(inputs_of(s), 1, 1.0),
                     .weight = normals(weights_of(s), 2, 0.5),
                     .bias = normals(s->channels_out, 3, 1.0),
                     .dy = normals(positions_of(s) * s->channels_out, 4, 1.0),
                     .weight_before = normals(weights_of(s), 5, 1.0),
                     .bias_before = normals(s->channels_out, 6, 1.0),
                     .dx = doubles(inputs_of(s), 0.0),
                     .dx_scale = doubles(inputs_of(s), 1.0),
                     .dweight_scale = doubles(weights_of(s), 4.0),
                     .dbias_scale = doubles(s->channels_out, 4.0)};
    c.dweight = widened(weights_of(s), c.weight_before);
    c.dbias = widened(s->channels_out, c.bias_before);
    add_naive_gradients(&c);
    share_scales(s->samples, s->in, s->channels_in, c.dx_scale);
    return c;
}

static void convolution_free(const convolution *c)
{
    free_blocks(c->x, c->weight, c->bias, c->dy, c->weight_before, c->bias_before, c->dx,
                c->dweight, c->dbias, c->dx_scale, c->dweight_scale, c->dbias_scale);
}

static void check_result(const char *what, matrix m, const double *expected, const double *scale)
{
    OWNED(double) *actual = results_of(m);
    assert_all_near(m.owner, what, matrix_count(m), actual, expected, scale,
                    32.0 * rounding(m.owner));
}

typedef struct wanted_gradients {
    bool input, weight, bias;
} wanted_gradients;

static void check_gradients(backend *b, const convolution *c, wanted_gradients want)
{
    const conv_shape *s = &c->shape;
    matrix x = images_of(b, s, c->x);
    matrix weight = weight_of(b, s, c->weight);
    matrix dy = values_of(b, positions_of(s), s->channels_out, c->dy);
    matrix dx = blank_values(b, x.rows, x.columns);
    matrix dweight = weight_of(b, s, c->weight_before);
    matrix dbias = values_of(b, 1, s->channels_out, c->bias_before);
    assert_ok(matrix_conv2d_gradient(s, x, weight, dy, want.input ? dx : no_matrix,
                                     want.weight ? dweight : no_matrix,
                                     want.bias ? dbias : no_matrix));
    if (want.input) {
        check_result("conv2d_gradient dx", dx, c->dx, c->dx_scale);
    }
    if (want.weight) {
        check_result("conv2d_gradient dweight", dweight, c->dweight, c->dweight_scale);
    }
    if (want.bias) {
        check_result("conv2d_gradient dbias", dbias, c->dbias, c->dbias_scale);
    }
    free_matrices(&x, &weight, &dy, &dx, &dweight, &dbias);
}

TEST(test_gradients_of_a_convolution_match_naive_sums)
{
    for (size_t i = 0; i < case_count(); i++) {
        const conv_shape s = case_shape(i);
        const convolution c = convolution_of(&s);
        FOR_EACH_BACKEND(b)
        {
            check_gradients(b, &c, (wanted_gradients){true, true, true});
        }
        convolution_free(&c);
    }
}

/* -- kernels per channel ----------------------------------------------------------------------- */

/* The same with a kernel [c, taps] for each channel; no bias. */
static convolution depthwise_of(const conv_shape *s)
{
    const int64_t channels = s->channels_out;
    const int64_t taps = taps_of(s);
    convolution c = {.shape = *s,
                     .x = normals(inputs_of(s), 1, 1.0),
                     .weight = normals(channels * taps, 2, 0.5),
                     .dy = normals(positions_of(s) * channels, 4, 1.0),
                     .weight_before = normals(channels * taps, 5, 1.0),
                     .dx = doubles(inputs_of(s), 0.0),
                     .dx_scale = doubles(inputs_of(s), 1.0),
                     .dweight_scale = doubles(channels * taps, 4.0)};
    c.dweight = widened(channels * taps, c.weight_before);
    for (int64_t i = 0; i < positions_of(s) * channels * taps; i++) {
        const int64_t channel = i / taps % channels;
        const int64_t w = channel * taps + i % taps;
        const int64_t from = tap_index(s, i / taps / channels, i % taps);
        if (from >= 0) {
            const int64_t x = from + channel;
            const double dy = (double)c.dy[i / taps];
            add_term(dy, (double)c.weight[w], &c.dx[x], &c.dx_scale[x]);
            add_term(dy, (double)c.x[x], &c.dweight[w], &c.dweight_scale[w]);
        }
    }
    return c;
}

static void check_depthwise_gradients(backend *b, const convolution *c, wanted_gradients want)
{
    const conv_shape *s = &c->shape;
    matrix x = images_of(b, s, c->x);
    matrix weight = values_of(b, s->channels_out, taps_of(s), c->weight);
    matrix dy = values_of(b, positions_of(s), s->channels_out, c->dy);
    matrix dx = blank_values(b, x.rows, x.columns);
    matrix dweight = values_of(b, s->channels_out, taps_of(s), c->weight_before);
    assert_ok(matrix_depthwise_gradient(s, x, weight, dy, want.input ? dx : no_matrix,
                                        want.weight ? dweight : no_matrix));
    if (want.input) {
        check_result("depthwise_gradient dx", dx, c->dx, c->dx_scale);
    }
    if (want.weight) {
        check_result("depthwise_gradient dweight", dweight, c->dweight, c->dweight_scale);
    }
    free_matrices(&x, &weight, &dy, &dx, &dweight);
}

TEST(test_gradients_of_kernels_per_channel_match_naive_sums)
{
    for (size_t i = 0; i < case_count(); i++) {
        conv_shape s = case_shape(i);
        s.channels_in = s.channels_out;
        const convolution c = depthwise_of(&s);
        FOR_EACH_BACKEND(b)
        {
            check_depthwise_gradients(b, &c, (wanted_gradients){true, true, false});
            check_depthwise_gradients(b, &c, (wanted_gradients){true, false, false});
            check_depthwise_gradients(b, &c, (wanted_gradients){false, true, false});
        }
        convolution_free(&c);
    }
}

TEST(test_any_gradient_of_a_convolution_may_be_missing)
{
    static const window2d windows[] = {WINDOW2D(3, 3, 2, 1, 1), WINDOW2D(1, 3, 1, 1, 1)};
    enum { SUBSETS = 8, INPUT = 1, WEIGHT = 2, BIAS = 4 };
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        const conv_shape s = shape_of(2, (extent){6, 5}, 7, 9, windows[i]);
        const convolution c = convolution_of(&s);
        FOR_EACH_BACKEND(b)
        {
            for (int set = 0; set < SUBSETS; set++) {
                check_gradients(
                    b, &c,
                    (wanted_gradients){(set & INPUT) != 0, (set & WEIGHT) != 0, (set & BIAS) != 0});
            }
        }
        convolution_free(&c);
    }
}

/* sum(dY * conv(X, weight) + bias) in the reference */
static double loss_of(backend *ref, const convolution *c)
{
    const conv_shape *s = &c->shape;
    matrix x = images_of(ref, s, c->x);
    matrix weight = weight_of(ref, s, c->weight);
    matrix bias = values_of(ref, 1, s->channels_out, c->bias);
    matrix y = blank_values(ref, positions_of(s), s->channels_out);
    assert_ok(matrix_conv2d(s, 0.0, x, weight, bias, no_matrix, y));
    double *values = results_of(y);
    double sum = 0.0;
    for (int64_t i = 0; i < matrix_count(y); i++) {
        sum += values[i] * (double)c->dy[i];
    }
    memory_free(values);
    free_matrices(&x, &weight, &bias, &y);
    return sum;
}

/* Moves one input after the other; the loss is linear in each, so a long step costs nothing.
 * `before` is what the gradient was added to, or NULL. */
static void check_differences(backend *ref, const convolution *c, const char *what, int64_t count,
                              float *input, const float *before, const double *gradient)
{
    const float step = 0.25F;
    double largest = 0.0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(gradient[i]));
    }
    for (int64_t i = 0; i < count; i++) {
        const float value = input[i];
        const double start = before == NULL ? 0.0 : (double)before[i];
        input[i] = value + step;
        const double above = loss_of(ref, c);
        const double length = (double)input[i];
        input[i] = value - step;
        const double slope = (above - loss_of(ref, c)) / (length - (double)input[i]);
        input[i] = value;
        if (!(fabs(gradient[i] - start - slope) <= 1e-5 * largest)) {
            fail_msg("%s: element %lld is %.17g, but the loss changes by %.17g", what, (long long)i,
                     gradient[i] - start, slope);
        }
    }
}

TEST(test_gradients_of_a_convolution_are_slopes_of_its_loss)
{
    static const window2d windows[] = {
        WINDOW2D(3, 3, 1, 1, 1), WINDOW2D(3, 2, 2, 1, 1),
        WINDOW2D(2, 3, 1, 2, 2), WINDOW2D(1, 1, 2, 0, 1),
        WINDOW2D(1, 3, 1, 1, 1), {{3, 2, 1, 0, 1}, {2, 1, 2, 2, 0}, false}};
    backend *ref = NULL;
    assert_ok(backend_open("ref", NULL, &ref));
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        const conv_shape s = shape_of(2, (extent){5, 4}, 2, 3, windows[i]);
        const convolution c = convolution_of(&s);
        matrix x = images_of(ref, &s, c.x);
        matrix weight = weight_of(ref, &s, c.weight);
        matrix dy = values_of(ref, positions_of(&s), s.channels_out, c.dy);
        matrix dx = blank_values(ref, x.rows, x.columns);
        matrix dweight = weight_of(ref, &s, c.weight_before);
        matrix dbias = values_of(ref, 1, s.channels_out, c.bias_before);
        assert_ok(matrix_conv2d_gradient(&s, x, weight, dy, dx, dweight, dbias));
        double *of_x = results_of(dx);
        double *of_weight = results_of(dweight);
        double *of_bias = results_of(dbias);
        check_differences(ref, &c, "dx", inputs_of(&s), c.x, NULL, of_x);
        check_differences(ref, &c, "dweight", weights_of(&s), c.weight, c.weight_before, of_weight);
        check_differences(ref, &c, "dbias", s.channels_out, c.bias, c.bias_before, of_bias);
        free_blocks(of_x, of_weight, of_bias);
        free_matrices(&x, &weight, &dy, &dx, &dweight, &dbias);
        convolution_free(&c);
    }
    backend_close(ref);
}

/* -- pooling ----------------------------------------------------------------------------------- */

/* Few different values, all below the zeros that a wrong border would bring in: most windows have
 * several largest elements. */
static float *tied_values(int64_t count)
{
    float *x = normals(count, 7, 1.0);
    for (int64_t i = 0; i < count; i++) {
        x[i] = rintf(x[i]) - 8.0F;
    }
    return x;
}

/* Index into X of the first largest element of a window in one channel, -1 of an empty window. */
static int64_t first_largest(const conv_shape *s, const float *x, int64_t position, int64_t channel)
{
    int64_t largest = -1;
    for (int64_t k = 0; k < taps_of(s); k++) {
        const int64_t from = tap_index(s, position, k);
        if (from >= 0 && (largest < 0 || x[from + channel] > x[largest])) {
            largest = from + channel;
        }
    }
    return largest;
}

static void check_pool_gradient(backend *b, const conv_shape *s)
{
    const int64_t count = positions_of(s) * s->channels_out;
    float *x = tied_values(inputs_of(s));
    float *dy = normals(count, 8, 1.0);
    double *expected = doubles(inputs_of(s), 0.0);
    double *scale = doubles(inputs_of(s), 0.0);
    for (int64_t i = 0; i < count; i++) {
        const int64_t to = first_largest(s, x, i / s->channels_out, i % s->channels_out);
        if (to >= 0) {
            add_term((double)dy[i], 1.0, &expected[to], &scale[to]);
        }
    }
    matrix bx = images_of(b, s, x);
    matrix bdy = values_of(b, positions_of(s), s->channels_out, dy);
    matrix dx = blank_values(b, bx.rows, bx.columns);
    assert_ok(matrix_max_pool_gradient(s, bx, bdy, dx));
    check_result("max_pool_gradient", dx, expected, scale);
    free_blocks(x, dy, expected, scale);
    free_matrices(&bx, &bdy, &dx);
}

BACKEND_TEST(test_a_maximum_passes_its_gradient_to_the_first_largest)
{
    static const struct {
        int64_t samples;
        extent in;
        int64_t channels;
        window2d window;
    } pools[] = {
        {0, {4, 4}, 3, WINDOW2D(2, 2, 2, 0, 1)},
        {2, {7, 9}, 5, WINDOW2D(3, 3, 2, 1, 1)},
        {1, {56, 56}, 64, WINDOW2D(3, 3, 2, 1, 1)},
        {3, {8, 6}, 17, WINDOW2D(2, 2, 2, 0, 1)},
        {5, {9, 9}, 133, WINDOW2D(3, 3, 1, 1, 1)},
        {2, {10, 11}, 4, WINDOW2D(3, 2, 2, 1, 2)},
        {2, {7, 8}, 6, WINDOW2D(2, 2, 3, 0, 1)},
        {2, {4, 5}, 3, WINDOW2D(1, 3, 1, 1, 1)},
        {2, {7, 12}, 6, {{3, 2, 1, 1, 0}, {2, 1, 1, 0, 1}, false}},
        {2, {8, 10}, 5, {{2, 3, 1, 1, 0}, {3, 4, 1, 0, 2}, true}},
    };
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
        const conv_shape s = shape_of(pools[i].samples, pools[i].in, pools[i].channels,
                                      pools[i].channels, pools[i].window);
        check_pool_gradient(b, &s);
    }
}

/* Each output gives what it read equal shares: the mean of ones, divided by the taps inside. */
static void check_average_gradient(backend *b, const conv_shape *s, bool padded)
{
    const int64_t channels = s->channels_in;
    const int64_t count = positions_of(s) * channels;
    float *dy = normals(count, 11, 1.0);
    double *expected = doubles(inputs_of(s), 0.0);
    double *scale = doubles(inputs_of(s), 1.0);
    matrix by = values_of(b, positions_of(s), channels, dy);
    matrix bx = blank_values(b, s->samples * s->in.height * s->in.width, channels);
    matrix shares = blank_values(b, by.rows, channels);
    float *one = normals(inputs_of(s), 12, 0.0);
    for (int64_t i = 0; i < inputs_of(s); i++) {
        one[i] = 1.0F;
    }
    matrix all = images_of(b, s, one);
    assert_ok(matrix_average_pool(s, padded, all, shares)); /* taps inside by those that count */
    double *share = results_of(shares);
    for (int64_t i = 0; i < count; i++) {
        int64_t inside = 0;
        for (int64_t k = 0; k < taps_of(s); k++) {
            inside += tap_index(s, i / channels, k) >= 0;
        }
        for (int64_t k = 0; k < taps_of(s); k++) {
            const int64_t from = tap_index(s, i / channels, k);
            if (from >= 0) {
                add_term((double)dy[i], share[i] / (double)inside, &expected[from + i % channels],
                         &scale[from + i % channels]);
            }
        }
    }
    assert_ok(matrix_average_pool_gradient(s, padded, by, bx));
    check_result("average_pool_gradient", bx, expected, scale);
    free_blocks(dy, one, expected, scale, share);
    free_matrices(&by, &bx, &shares, &all);
}

BACKEND_TEST(test_an_average_pool_gives_back_equal_shares)
{
    static const window2d windows[] = {
        WINDOW2D(2, 2, 2, 0, 1),
        WINDOW2D(3, 3, 2, 1, 1),
        {{3, 2, 1, 1, 0}, {2, 1, 1, 0, 1}, false},
        {{2, 3, 1, 1, 0}, {3, 4, 1, 0, 2}, true},
    };
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        const conv_shape s = shape_of(3, (extent){8, 10}, 67, 67, windows[i]);
        check_average_gradient(b, &s, false);
        check_average_gradient(b, &s, true);
    }
}

/* -- shortcuts --------------------------------------------------------------------------------- */

static double dot_of(int64_t count, const double *a, const double *b)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* <S x, y> = <x, S^T y>; a shortcut only copies, so the products differ by their rounding alone. */
static void check_adjoint(backend *b, const position_shape *s, int64_t channels)
{
    const int64_t ins = s->samples * s->in.height * s->in.width;
    const int64_t outs = s->samples * s->out.height * s->out.width;
    const int64_t width = channels + 2 * s->pad;
    float *x = normals(ins * channels, 9, 1.0);
    float *y = normals(outs * width, 10, 1.0);
    matrix bx = values_of(b, ins, channels, x);
    matrix by = values_of(b, outs, width, y);
    matrix made = blank_values(b, outs, width);
    matrix back = blank_values(b, ins, channels);
    assert_ok(matrix_shortcut(s, bx, made));
    assert_ok(matrix_shortcut_gradient(s, by, back));
    double *x_values = results_of(bx);
    double *y_values = results_of(by);
    double *made_values = results_of(made);
    double *back_values = results_of(back);
    const double size = norm_of(ins * channels, x_values) * norm_of(outs * width, y_values);
    assert_near(dot_of(outs * width, made_values, y_values),
                dot_of(ins * channels, x_values, back_values), 1e-12 * size);
    free_blocks(x, y, x_values, y_values, made_values, back_values);
    free_matrices(&bx, &by, &made, &back);
}

BACKEND_TEST(test_the_gradient_of_a_shortcut_is_its_adjoint)
{
    static const struct {
        int64_t samples;
        extent in;
        int64_t stride, pad, channels;
    } shortcuts[] = {
        {0, {4, 4}, 2, 1, 3}, {1, {1, 1}, 1, 0, 1}, {1, {1, 1}, 3, 2, 5},    {2, {8, 6}, 2, 4, 8},
        {3, {7, 9}, 2, 3, 5}, {2, {9, 7}, 3, 0, 4}, {5, {33, 31}, 2, 8, 16}, {2, {5, 4}, 1, 2, 3},
    };
    for (size_t i = 0; i < sizeof shortcuts / sizeof shortcuts[0]; i++) {
        const extent in = shortcuts[i].in;
        const int64_t stride = shortcuts[i].stride;
        position_shape s = {
            .samples = shortcuts[i].samples,
            .in = in,
            .out = {(in.height - 1) / stride + 1, (in.width - 1) / stride + 1},
            .window = WINDOW2D(1, 1, stride, 0, 1),
            .pad = shortcuts[i].pad,
        };
        check_adjoint(b, &s, shortcuts[i].channels);
        s.window.width.stride = 1;
        s.out.width = in.width;
        check_adjoint(b, &s, shortcuts[i].channels);
    }
}

/* -- lack of memory ---------------------------------------------------------------------------- */

typedef struct small_image {
    conv_shape shape;
    matrix x, weight, dy, dx, dweight, dbias;
} small_image;

static grail_status go_back(void *context)
{
    const small_image *i = context;
    return matrix_conv2d_gradient(&i->shape, i->x, i->weight, i->dy, i->dx, i->dweight, i->dbias);
}

TEST(test_lack_of_memory_is_reported)
{
    static const window2d windows[] = {WINDOW2D(3, 3, 1, 1, 1), WINDOW2D(1, 3, 1, 1, 1),
                                       WINDOW2D(1, 1, 2, 0, 1)};
    for (size_t k = 0; k < sizeof windows / sizeof windows[0]; k++) {
        const conv_shape s = shape_of(1, (extent){5, 5}, 8, 8, windows[k]);
        const convolution c = convolution_of(&s);
        FOR_EACH_BACKEND(b)
        {
            small_image i = {.shape = s,
                             .x = images_of(b, &s, c.x),
                             .weight = weight_of(b, &s, c.weight),
                             .dy = values_of(b, positions_of(&s), s.channels_out, c.dy),
                             .dx = blank_values(b, s.in.height * s.in.width, s.channels_in),
                             .dweight = weight_of(b, &s, c.weight_before),
                             .dbias = values_of(b, 1, s.channels_out, c.bias_before)};
            support_fail_each_allocation(go_back, &i);
            free_matrices(&i.x, &i.weight, &i.dy, &i.dx, &i.dweight, &i.dbias);
        }
        convolution_free(&c);
    }
}
