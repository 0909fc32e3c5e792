/* Convolution, patches, pooling and means over images, channel last, against naive sums. */
#include "conformance/image_shapes.h"

#include <string.h>

/* expected += X * weight and scale += |X| * |weight|, position by position. */
static void naive_convolution(const conv_shape *s, const float *x, const float *weight,
                              double *expected, double *scale)
{
    const int64_t each = read_by_each(s);
    for (int64_t p = 0; p < positions_of(s); p++) {
        for (int64_t k = 0; k < taps_of(s); k++) {
            const int64_t index = tap_index(s, p, k);
            for (int64_t i = 0; index >= 0 && i < s->channels_out * each; i++) {
                const int64_t out = p * s->channels_out + i / each;
                const int64_t from = index + first_read(s, i / each) + i % each;
                const double product = (double)x[from] * (double)weight[i * taps_of(s) + k];
                expected[out] += product;
                scale[out] += fabs(product);
            }
        }
    }
}

/* Inputs of one shape, and X * weight, which takes longer than all that is checked with it. */
typedef struct convolution {
    conv_shape shape;
    float *x, *weight, *bias, *added;
    double *product, *scale;
} convolution;

static convolution convolution_of(const conv_shape *s)
{
    const int64_t count = positions_of(s) * s->channels_out;
    const convolution c = {.shape = *s,
                           .x = normals(inputs_of(s), 1, 1.0),
                           .weight = normals(weights_of(s), 2, 0.5),
                           .bias = normals(s->channels_out, 3, 1.0),
                           .added = normals(count, 4, 1.0),
                           .product = doubles(count, 0.0),
                           .scale = doubles(count, 2.0)};
    naive_convolution(s, c.x, c.weight, c.product, c.scale);
    share_scales(s->samples, s->out, s->channels_out, c.scale);
    return c;
}

static void convolution_free(const convolution *c)
{
    free_blocks(c->x, c->weight, c->bias, c->added, c->product, c->scale);
}

typedef enum residual_kind { RESIDUAL_NONE, RESIDUAL_APART, RESIDUAL_IN_PLACE } residual_kind;

static double limited(double x, double ceiling)
{
    return ceiling == 0.0 ? x : fmin(fmax(x, 0.0), ceiling);
}

static void check_convolution(backend *b, const convolution *c, bool has_bias,
                              residual_kind residual, double ceiling)
{
    const conv_shape *s = &c->shape;
    const int64_t count = positions_of(s) * s->channels_out;
    double *expected = copy_of_doubles(count, c->product);
    for (int64_t i = 0; i < count; i++) {
        expected[i] += has_bias ? (double)c->bias[i % s->channels_out] : 0.0;
        expected[i] += residual != RESIDUAL_NONE ? (double)c->added[i] : 0.0;
        expected[i] = limited(expected[i], ceiling);
    }
    matrix bx = images_of(b, s, c->x);
    matrix bw = weight_of(b, s, c->weight);
    matrix bb = values_of(b, 1, s->channels_out, c->bias);
    matrix br = values_of(b, positions_of(s), s->channels_out, c->added);
    matrix apart = blank_values(b, positions_of(s), s->channels_out);
    const matrix by = residual == RESIDUAL_IN_PLACE ? br : apart;
    assert_ok(matrix_conv2d(s, ceiling, bx, bw, has_bias ? bb : no_matrix,
                            residual == RESIDUAL_NONE ? no_matrix : br, by));
    double *y = results_of(by);
    assert_all_near(b, "conv2d", count, y, expected, c->scale,
                    rounding_of_products(b, read_by_each(s) * taps_of(s)));
    free_blocks(expected, y);
    free_matrices(&bx, &bw, &bb, &br, &apart);
}

TEST(test_convolution_matches_its_formula_in_every_shape)
{
    for (size_t i = 0; i < case_count(); i++) {
        const conv_shape s = case_shape(i);
        const convolution c = convolution_of(&s);
        FOR_EACH_BACKEND(b)
        {
            check_convolution(b, &c, false, RESIDUAL_NONE, 0.0);
            check_convolution(b, &c, true, RESIDUAL_NONE, 0.0);
        }
        convolution_free(&c);
    }
}

/* Whether cpu may convolve by squares; oneDNN promises less. */
static bool has_squares(const conv_shape *s)
{
    return taps_of(s) == 9 && s->window.height.stride == 1 && read_by_each(s) > 32 &&
           s->out.height * s->out.width > 49;
}

/* Passes are made of as many samples as fit, and the ranks of a run of those that are theirs. */
TEST(test_squares_do_not_depend_on_other_samples)
{
    for (size_t i = 0; i < case_count(); i++) {
        const conv_shape s = case_shape(i);
        if (!has_squares(&s)) {
            continue;
        }
        const convolution c = convolution_of(&s);
        const int64_t inputs = s.samples == 0 ? 0 : inputs_of(&s) / s.samples;
        const int64_t count = s.out.height * s.out.width * s.channels_out;
        conv_shape one = s;
        one.samples = 1;
        FOR_EACH_BACKEND(b)
        {
            const bool promises =
                strcmp(backend_precision(b), "f32") == 0 && !has_foreign_memory(b);
            matrix all = images_of(b, &s, c.x);
            matrix weight = weight_of(b, &s, c.weight);
            matrix y = blank_values(b, positions_of(&s), s.channels_out);
            assert_ok(matrix_conv2d(&s, 0.0, all, weight, no_matrix, no_matrix, y));
            OWNED(double) *together = results_of(y);
            for (int64_t n = 0; promises && n < s.samples; n++) {
                matrix x = images_of(b, &one, c.x + n * inputs);
                matrix alone = blank_values(b, positions_of(&one), s.channels_out);
                assert_ok(matrix_conv2d(&one, 0.0, x, weight, no_matrix, no_matrix, alone));
                OWNED(double) *apart = results_of(alone);
                assert_memory_equal(apart, together + n * count, (size_t)count * sizeof *apart);
                free_matrices(&x, &alone);
            }
            free_matrices(&all, &weight, &y);
        }
        convolution_free(&c);
    }
}

static void check_depthwise(backend *b, const conv_shape *s, bool has_bias, double ceiling)
{
    const int64_t channels = s->channels_out;
    const int64_t count = positions_of(s) * channels;
    float *x = normals(inputs_of(s), 1, 1.0);
    float *weight = normals(channels * taps_of(s), 2, 0.5);
    float *bias = normals(channels, 3, 1.0);
    double *expected = doubles(count, 0.0);
    double *scale = doubles(count, 2.0);
    for (int64_t i = 0; i < count * taps_of(s); i++) {
        const int64_t out = i / taps_of(s);
        const int64_t k = i % taps_of(s);
        const int64_t from = tap_index(s, out / channels, k);
        const double product = from < 0 ? 0.0
                                        : (double)x[from + out % channels] *
                                              (double)weight[out % channels * taps_of(s) + k];
        expected[out] += product + (has_bias && k == 0 ? (double)bias[out % channels] : 0.0);
        scale[out] += fabs(product);
    }
    for (int64_t i = 0; i < count; i++) {
        expected[i] = limited(expected[i], ceiling);
    }
    matrix bx = images_of(b, s, x);
    matrix bw = values_of(b, channels, taps_of(s), weight);
    matrix bb = values_of(b, 1, channels, bias);
    matrix by = blank_values(b, positions_of(s), channels);
    assert_ok(matrix_depthwise(s, ceiling, bx, bw, has_bias ? bb : no_matrix, by));
    double *y = results_of(by);
    assert_all_near(b, "depthwise", count, y, expected, scale, 32.0 * rounding(b));
    free_blocks(x, weight, bias, expected, scale, y);
    free_matrices(&bx, &bw, &bb, &by);
}

TEST(test_kernels_per_channel_match_their_formula)
{
    for (size_t i = 0; i < case_count(); i++) {
        conv_shape s = case_shape(i);
        s.channels_in = s.channels_out;
        FOR_EACH_BACKEND(b)
        {
            check_depthwise(b, &s, false, 0.0);
            check_depthwise(b, &s, true, (double)INFINITY);
            check_depthwise(b, &s, true, 0.5);
        }
    }
}

TEST(test_an_epilogue_adds_a_residual_and_limits)
{
    for (size_t i = 0; i < case_count(); i++) {
        const conv_shape s = case_shape(i);
        const convolution c = convolution_of(&s);
        FOR_EACH_BACKEND(b)
        {
            check_convolution(b, &c, true, RESIDUAL_NONE, (double)INFINITY);
            check_convolution(b, &c, true, RESIDUAL_APART, 0.0);
            check_convolution(b, &c, true, RESIDUAL_IN_PLACE, 0.5);
            check_convolution(b, &c, false, RESIDUAL_APART, 0.5);
        }
        convolution_free(&c);
    }
}

/* A kernel that is 1 at one tap of the same channel moves the image, and brings zeros in. */
TEST(test_a_delta_kernel_moves_the_image)
{
    enum { CHANNELS = 5, TAPS = 9, COUNT = 2 * 7 * 6 * CHANNELS };
    const conv_shape s =
        shape_of(2, (extent){7, 6}, CHANNELS, CHANNELS, (window2d)WINDOW2D(3, 3, 1, 1, 1));
    OWNED(float) *x = normals(COUNT, 5, 1.0);
    FOR_EACH_BACKEND(b)
    {
        for (int64_t tap = 0; tap < TAPS; tap++) {
            float weight[CHANNELS * CHANNELS * TAPS] = {0.0F};
            for (int64_t c = 0; c < CHANNELS; c++) {
                weight[(c * CHANNELS + c) * TAPS + tap] = 1.0F;
            }
            matrix bx = images_of(b, &s, x);
            matrix bw = weight_of(b, &s, weight);
            matrix by = blank_values(b, positions_of(&s), CHANNELS);
            assert_ok(matrix_conv2d(&s, 0.0, bx, bw, no_matrix, no_matrix, by));
            double *y = results_of(by);
            for (int64_t i = 0; i < COUNT; i++) {
                const int64_t from = tap_index(&s, i / CHANNELS, tap);
                assert_true(y[i] == (from < 0 ? 0.0 : as_operand(b, x[from + i % CHANNELS])));
            }
            memory_free(y);
            free_matrices(&bx, &bw, &by);
        }
    }
}

/* Patches in two calls that meet in the middle, against the definition. */
static void check_patches(backend *b, const conv_shape *s)
{
    const int64_t rows = s->samples * s->out.height;
    const int64_t width = s->channels_in * taps_of(s);
    const int64_t count = positions_of(s) * width;
    float *x = normals(inputs_of(s), 6, 1.0);
    matrix bx = images_of(b, s, x);
    matrix bp = blank_values(b, positions_of(s), width);
    const int64_t middle = rows / 3;
    const int64_t done = middle * s->out.width;
    assert_ok(matrix_patches(s, 0, middle, bx, matrix_rows(bp, 0, done)));
    assert_ok(matrix_patches(s, middle, rows, bx, matrix_rows(bp, done, positions_of(s) - done)));
    double *p = results_of(bp);
    for (int64_t i = 0; i < count; i++) {
        const int64_t from = tap_index(s, i / width, i % width % taps_of(s));
        const double expected = from < 0 ? 0.0 : (double)x[from + i % width / taps_of(s)];
        if (p[i] != expected) {
            fail_msg("%s patches: element %lld is %g, expected %g", backend_name(b), (long long)i,
                     p[i], expected);
        }
    }
    free_blocks(x, p);
    free_matrices(&bx, &bp);
}

/* What patches hold of a position is added up there. */
static void check_put_patches(backend *b, const conv_shape *s)
{
    const int64_t width = s->channels_in * taps_of(s);
    const int64_t count = positions_of(s) * width;
    float *p = normals(count, 5, 1.0);
    double *expected = doubles(inputs_of(s), 0.0);
    double *scale = doubles(inputs_of(s), 0.0);
    matrix bp = values_of(b, positions_of(s), width, p);
    matrix bx = blank_values(b, s->samples * s->in.height * s->in.width, s->channels_in);
    assert_ok(matrix_put_patches(s, bp, bx));
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = tap_index(s, i / width, i % width % taps_of(s));
        if (at >= 0) {
            const int64_t to = at + i % width / taps_of(s);
            expected[to] += (double)p[i];
            scale[to] += fabs((double)p[i]);
        }
    }
    double *x = results_of(bx);
    assert_all_near(b, "put_patches", inputs_of(s), x, expected, scale, 8.0 * rounding(b));
    free_blocks(p, expected, scale, x);
    free_matrices(&bp, &bx);
}

BACKEND_TEST(test_patches_hold_what_the_window_reads)
{
    for (size_t i = 0; i < case_count(); i++) {
        const conv_shape s = case_shape(i);
        check_patches(b, &s);
        check_put_patches(b, &s);
    }
    const conv_shape large = shape_of(1, (extent){20, 9}, 2, 1, (window2d)WINDOW2D(11, 9, 3, 2, 1));
    check_patches(b, &large); /* more taps than are looked up at once */
}

/* conv2d(X, W) = patches(X) W^T */
BACKEND_TEST(test_a_convolution_is_a_product_of_patches)
{
    for (size_t i = 0; i < case_count(); i++) {
        conv_shape s = case_shape(i);
        s.groups = 1;
        const int64_t width = s.channels_in * taps_of(&s);
        const int64_t count = positions_of(&s) * s.channels_out;
        float *x = normals(inputs_of(&s), 7, 1.0);
        float *weight = normals(weights_of(&s), 8, 1.0);
        matrix bx = images_of(b, &s, x);
        matrix bw = weight_of(b, &s, weight);
        matrix p = blank_values(b, positions_of(&s), width);
        matrix by = blank_values(b, positions_of(&s), s.channels_out);
        matrix bz = blank_values(b, positions_of(&s), s.channels_out);
        assert_ok(matrix_patches(&s, 0, s.samples * s.out.height, bx, p));
        assert_ok(matrix_linear(p, bw, no_matrix, bz));
        assert_ok(matrix_conv2d(&s, 0.0, bx, bw, no_matrix, no_matrix, by));
        double *y = results_of(by);
        double *z = results_of(bz);
        assert_all_near(b, "conv2d and patches", count, y, z, NULL,
                        32.0 * rounding(b) * (double)width);
        free_blocks(x, weight, y, z);
        free_matrices(&bx, &bw, &p, &by, &bz);
    }
}

static void check_max_pool(backend *b, const conv_shape *s)
{
    const int64_t channels = s->channels_in;
    float *x = normals(inputs_of(s), 9, 1.0);
    for (int64_t i = 0; i < inputs_of(s); i++) {
        x[i] = held(b, x[i] - 4.0F); /* below the zeros that a wrong border would bring in */
    }
    matrix bx = images_of(b, s, x);
    matrix by = blank_values(b, positions_of(s), channels);
    assert_ok(matrix_max_pool(s, bx, by));
    double *y = results_of(by);
    for (int64_t i = 0; i < positions_of(s) * channels; i++) {
        double expected = -INFINITY;
        for (int64_t k = 0; k < taps_of(s); k++) {
            const int64_t from = tap_index(s, i / channels, k);
            expected = from < 0 ? expected : fmax(expected, (double)x[from + i % channels]);
        }
        assert_true(y[i] == expected);
    }
    free_blocks(x, y);
    free_matrices(&bx, &by);
}

BACKEND_TEST(test_max_pool_takes_the_largest_inside)
{
    static const struct {
        int64_t samples;
        extent in;
        int64_t channels;
        window2d window;
    } pools[] = {
        {0, {4, 4}, 3, WINDOW2D(2, 2, 2, 0, 1)},
        {2, {7, 9}, 5, WINDOW2D(3, 3, 2, 1, 1)},
        {1, {112, 112}, 64, WINDOW2D(3, 3, 2, 1, 1)},
        {3, {8, 6}, 17, WINDOW2D(2, 2, 2, 0, 1)},
        {2, {9, 9}, 33, WINDOW2D(3, 3, 1, 1, 1)},
        {2, {10, 11}, 4, WINDOW2D(3, 2, 2, 1, 2)},
        {2, {7, 12}, 6, {{3, 2, 1, 1, 0}, {2, 1, 1, 0, 1}, false}},
        {1, {8, 9}, 20, {{3, 2, 2, 2, 1}, {1, 2, 1, 0, 0}, false}},
        {2, {8, 10}, 5, {{3, 2, 1, 0, 0}, {3, 2, 1, 0, 0}, true}},
        {2, {8, 10}, 5, {{2, 3, 1, 1, 0}, {3, 4, 1, 0, 2}, true}},
    };
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
        const conv_shape s = shape_of(pools[i].samples, pools[i].in, pools[i].channels,
                                      pools[i].channels, pools[i].window);
        check_max_pool(b, &s);
    }
}

/* Positions of a window along one axis that count, counted one by one. */
static int64_t counted(const window_axis *a, int64_t in, bool padded, int64_t out)
{
    int64_t count = 0;
    for (int64_t k = 0; k < a->kernel; k++) {
        const int64_t at = out * a->stride - a->before + k;
        count += padded ? at < in + a->behind : at >= 0 && at < in;
    }
    return count;
}

static void check_average(backend *b, const conv_shape *s, bool padded)
{
    const int64_t channels = s->channels_in;
    float *x = normals(inputs_of(s), 12, 1.0);
    double *expected = doubles(positions_of(s) * channels, 0.0);
    for (int64_t i = 0; i < positions_of(s) * channels; i++) {
        const int64_t row = i / channels / s->out.width % s->out.height;
        const int64_t column = i / channels % s->out.width;
        const int64_t count = counted(&s->window.height, s->in.height, padded, row) *
                              counted(&s->window.width, s->in.width, padded, column);
        for (int64_t k = 0; k < taps_of(s); k++) {
            const int64_t from = tap_index(s, i / channels, k);
            expected[i] += from < 0 ? 0.0 : (double)x[from + i % channels] / (double)count;
        }
    }
    matrix bx = images_of(b, s, x);
    matrix by = blank_values(b, positions_of(s), channels);
    assert_ok(matrix_average_pool(s, padded, bx, by));
    assert_matrix_near("average_pool", by, expected, 32.0 * rounding(b));
    free_blocks(x, expected);
    free_matrices(&bx, &by);
}

BACKEND_TEST(test_an_average_pool_divides_by_what_counts)
{
    static const struct {
        int64_t samples;
        extent in;
        int64_t channels;
        window2d window;
    } pools[] = {
        {0, {4, 4}, 3, WINDOW2D(2, 2, 2, 0, 1)},
        {2, {7, 9}, 5, WINDOW2D(3, 3, 2, 1, 1)},
        {1, {28, 28}, 64, WINDOW2D(3, 3, 2, 1, 1)},
        {2, {9, 9}, 133, WINDOW2D(3, 3, 1, 1, 1)},
        {2, {7, 12}, 6, {{3, 2, 1, 1, 0}, {2, 1, 1, 0, 1}, false}},
        {2, {8, 10}, 5, {{3, 2, 1, 0, 0}, {3, 2, 1, 0, 0}, true}},
        {2, {8, 10}, 5, {{2, 3, 1, 1, 0}, {3, 4, 1, 0, 2}, true}},
        {1, {5, 4}, 3, {{2, 1, 1, 3, 2}, {1, 1, 1, 0, 1}, false}}, /* some read nothing */
    };
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
        const conv_shape s = shape_of(pools[i].samples, pools[i].in, pools[i].channels,
                                      pools[i].channels, pools[i].window);
        check_average(b, &s, false);
        check_average(b, &s, true);
    }
}

static void check_mean(backend *b, int64_t samples, int64_t positions, int64_t width)
{
    float *x = normals(samples * positions * width, 10, 1.0);
    double *expected = doubles(samples * width, 0.0);
    for (int64_t i = 0; i < samples * positions * width; i++) {
        expected[i / (positions * width) * width + i % width] += (double)x[i] / (double)positions;
    }
    matrix bx = values_of(b, samples * positions, width, x);
    matrix by = blank_values(b, samples, width);
    assert_ok(matrix_mean_positions(bx, by));
    assert_matrix_near("mean_positions", by, expected, 8.0 * rounding(b));
    free_blocks(x, expected);
    free_matrices(&bx, &by);
}

BACKEND_TEST(test_a_mean_is_taken_over_the_positions_of_a_sample)
{
    check_mean(b, 0, 4, 3);
    check_mean(b, 1, 1, 1);
    check_mean(b, 5, 49, 37);
    check_mean(b, 3, 16, 700);
    check_mean(b, 2, 4097, 3);
}

typedef struct small_image {
    conv_shape shape;
    matrix x, weight, y;
} small_image;

static grail_status convolve_small(void *context)
{
    const small_image *i = context;
    return matrix_conv2d(&i->shape, (double)INFINITY, i->x, i->weight, no_matrix, i->y, i->y);
}

static grail_status pool_small(void *context)
{
    const small_image *i = context;
    return matrix_max_pool(&i->shape, i->x, i->y);
}

TEST(test_lack_of_memory_is_reported)
{
    enum { COUNT = 8 * 8 * 9 };
    OWNED(float) *values = normals(COUNT, 11, 1.0);
    const conv_shape s = shape_of(1, (extent){5, 5}, 8, 8, (window2d)WINDOW2D(3, 3, 1, 1, 1));
    FOR_EACH_BACKEND(b)
    {
        small_image i = {s, images_of(b, &s, values), weight_of(b, &s, values),
                         values_of(b, positions_of(&s), 8, values)};
        support_fail_each_allocation(convolve_small, &i);
        support_fail_each_allocation(pool_small, &i);
        free_matrices(&i.x, &i.weight, &i.y);
    }
}
