/* Convolution, patches, pooling and means over images, channel last, against naive sums. */
#include "conformance/conformance.h"

#include <string.h>

static int64_t out_positions(int64_t in, int64_t kernel, const window2d *w)
{
    return (in + 2 * w->padding - w->dilation * (kernel - 1) - 1) / w->stride + 1;
}

static conv_shape shape_of(int64_t samples, extent in, int64_t channels_in, int64_t channels_out,
                           window2d w)
{
    return (conv_shape){.samples = samples,
                        .in = in,
                        .out = {.height = out_positions(in.height, w.kernel_height, &w),
                                .width = out_positions(in.width, w.kernel_width, &w)},
                        .channels_in = channels_in,
                        .channels_out = channels_out,
                        .window = w};
}

static int64_t inputs_of(const conv_shape *s)
{
    return s->samples * s->in.height * s->in.width * s->channels_in;
}

static int64_t positions_of(const conv_shape *s)
{
    return s->samples * s->out.height * s->out.width;
}

static int64_t taps_of(const conv_shape *s)
{
    return s->window.kernel_height * s->window.kernel_width;
}

static int64_t weights_of(const conv_shape *s)
{
    return s->channels_out * s->channels_in * taps_of(s);
}

/* Index into X of channel 0 at tap `k` of output position `p`, -1 outside. */
static int64_t tap_index(const conv_shape *s, int64_t p, int64_t k)
{
    const window2d *w = &s->window;
    const int64_t sample = p / (s->out.height * s->out.width);
    const int64_t row = p / s->out.width % s->out.height * w->stride - w->padding +
                        k / w->kernel_width * w->dilation;
    const int64_t column =
        p % s->out.width * w->stride - w->padding + k % w->kernel_width * w->dilation;
    const bool inside = row >= 0 && row < s->in.height && column >= 0 && column < s->in.width;
    return inside ? ((sample * s->in.height + row) * s->in.width + column) * s->channels_in : -1;
}

/* expected += X * weight and scale += |X| * |weight|, position by position. */
static void naive_convolution(const conv_shape *s, const float *x, const float *weight,
                              double *expected, double *scale)
{
    for (int64_t p = 0; p < positions_of(s); p++) {
        for (int64_t k = 0; k < taps_of(s); k++) {
            const int64_t index = tap_index(s, p, k);
            for (int64_t i = 0; index >= 0 && i < s->channels_out * s->channels_in; i++) {
                const int64_t out = p * s->channels_out + i / s->channels_in;
                const double product =
                    (double)x[index + i % s->channels_in] * (double)weight[i * taps_of(s) + k];
                expected[out] += product;
                scale[out] += fabs(product);
            }
        }
    }
}

typedef enum residual_kind { RESIDUAL_NONE, RESIDUAL_APART, RESIDUAL_IN_PLACE } residual_kind;

static void check_convolution(const backend *b, const conv_shape *s, bool has_bias,
                              residual_kind residual, bool relu)
{
    const int64_t count = positions_of(s) * s->channels_out;
    float *x = normals(inputs_of(s), 1, 1.0);
    float *weight = normals(weights_of(s), 2, 0.5);
    float *bias = normals(s->channels_out, 3, 1.0);
    float *added = normals(count, 4, 1.0);
    double *expected = doubles(count, 0.0);
    double *scale = doubles(count, 2.0);
    naive_convolution(s, x, weight, expected, scale);
    for (int64_t i = 0; i < count; i++) {
        expected[i] += has_bias ? (double)bias[i % s->channels_out] : 0.0;
        expected[i] += residual != RESIDUAL_NONE ? (double)added[i] : 0.0;
        expected[i] = relu ? fmax(expected[i], 0.0) : expected[i];
    }
    void *bx = elements(b, inputs_of(s), x);
    void *bw = elements(b, weights_of(s), weight);
    void *bb = elements(b, s->channels_out, bias);
    void *br = elements(b, count, added);
    void *by = blank(b, count);
    if (residual == RESIDUAL_IN_PLACE) {
        memcpy(by, br, (size_t)count * b->element_size);
    }
    const conv_epilogue after = {.residual = residual == RESIDUAL_NONE    ? NULL
                                             : residual == RESIDUAL_APART ? br
                                                                          : by,
                                 .relu = relu};
    const bool plain = residual == RESIDUAL_NONE && !relu;
    assert_ok(b->conv2d(s, bx, bw, has_bias ? bb : NULL, plain ? NULL : &after, by));
    double *y = results(b, count, by);
    assert_all_near(b, "conv2d", count, y, expected, scale, 32.0 * rounding(b));
    void *const owned[] = {x, weight, bias, added, expected, scale, bx, bw, bb, br, by, y};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

/* Odd sizes, narrowed channel counts, strides that leave a rest, padding, dilation, windows that
 * are not square, 1 x 1, and patches. */
static const struct {
    int64_t samples;
    extent in;
    int64_t channels_in, channels_out;
    window2d window; /* kernel height, kernel width, stride, padding, dilation */
} cases[] = {
    {0, {5, 5}, 3, 4, {3, 3, 1, 1, 1}},     {1, {1, 1}, 1, 1, {1, 1, 1, 0, 1}},
    {2, {7, 5}, 3, 4, {3, 3, 1, 1, 1}},     {3, {8, 8}, 16, 16, {3, 3, 1, 1, 1}},
    {2, {9, 11}, 17, 13, {3, 3, 2, 1, 1}},  {1, {32, 32}, 3, 64, {3, 3, 1, 1, 1}},
    {1, {30, 31}, 3, 19, {7, 7, 2, 3, 1}},  {2, {13, 12}, 5, 7, {3, 3, 1, 2, 2}},
    {2, {17, 16}, 6, 33, {3, 3, 2, 3, 3}},  {3, {6, 7}, 48, 21, {1, 1, 1, 0, 1}},
    {2, {9, 8}, 24, 40, {1, 1, 2, 0, 1}},   {2, {5, 9}, 11, 3, {1, 3, 1, 1, 1}},
    {2, {10, 6}, 8, 5, {5, 2, 1, 0, 1}},    {3, {16, 12}, 3, 29, {4, 4, 4, 0, 1}},
    {2, {9, 11}, 3, 8, {4, 4, 4, 0, 1}},    {2, {6, 6}, 100, 37, {3, 3, 1, 1, 1}},
    {2, {4, 4}, 7300, 33, {3, 3, 1, 1, 1}}, /* a large weight for few positions, in two pieces */
    {1, {4, 4}, 2, 3, {4, 4, 1, 0, 1}},     {2, {3, 3}, 64, 64, {3, 3, 1, 0, 1}},
};

enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

static conv_shape case_shape(size_t i)
{
    return shape_of(cases[i].samples, cases[i].in, cases[i].channels_in, cases[i].channels_out,
                    cases[i].window);
}

static void test_convolution_matches_its_formula_in_every_shape(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < CASE_COUNT; i++) {
            const conv_shape s = case_shape(i);
            check_convolution(b, &s, false, RESIDUAL_NONE, false);
            check_convolution(b, &s, true, RESIDUAL_NONE, false);
        }
    }
}

static void test_an_epilogue_adds_a_residual_and_cuts_below_zero(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < CASE_COUNT; i++) {
            const conv_shape s = case_shape(i);
            check_convolution(b, &s, true, RESIDUAL_NONE, true);
            check_convolution(b, &s, true, RESIDUAL_APART, false);
            check_convolution(b, &s, true, RESIDUAL_IN_PLACE, true);
            check_convolution(b, &s, false, RESIDUAL_APART, true);
        }
    }
}

/* A kernel that is 1 at one tap of the same channel moves the image, and brings zeros in. */
static void test_a_delta_kernel_moves_the_image(void **state)
{
    (void)state;
    enum { CHANNELS = 5, TAPS = 9, COUNT = 2 * 7 * 6 * CHANNELS };
    const conv_shape s = shape_of(2, (extent){7, 6}, CHANNELS, CHANNELS, (window2d){3, 3, 1, 1, 1});
    float *x = normals(COUNT, 5, 1.0);
    FOR_EACH_BACKEND(b)
    {
        for (int64_t tap = 0; tap < TAPS; tap++) {
            float weight[CHANNELS * CHANNELS * TAPS] = {0.0F};
            for (int64_t c = 0; c < CHANNELS; c++) {
                weight[(c * CHANNELS + c) * TAPS + tap] = 1.0F;
            }
            void *bx = elements(b, COUNT, x);
            void *bw = elements(b, CHANNELS * CHANNELS * TAPS, weight);
            void *by = blank(b, COUNT);
            assert_ok(b->conv2d(&s, bx, bw, NULL, NULL, by));
            double *y = results(b, COUNT, by);
            for (int64_t i = 0; i < COUNT; i++) {
                const int64_t from = tap_index(&s, i / CHANNELS, tap);
                assert_true(y[i] == (from < 0 ? 0.0 : (double)x[from + i % CHANNELS]));
            }
            void *const owned[] = {bx, bw, by, y};
            for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
                memory_free(owned[i]);
            }
        }
    }
    memory_free(x);
}

/* Patches in two calls that meet in the middle, against the definition. */
static void check_patches(const backend *b, const conv_shape *s)
{
    const int64_t rows = s->samples * s->out.height;
    const int64_t width = s->channels_in * taps_of(s);
    const int64_t count = positions_of(s) * width;
    float *x = normals(inputs_of(s), 6, 1.0);
    void *bx = elements(b, inputs_of(s), x);
    void *bp = blank(b, count);
    const int64_t middle = rows / 3;
    const size_t done = (size_t)(middle * s->out.width * width) * b->element_size;
    b->patches(s, bx, 0, middle, bp);
    b->patches(s, bx, middle, rows, (unsigned char *)bp + done);
    double *p = results(b, count, bp);
    for (int64_t i = 0; i < count; i++) {
        const int64_t from = tap_index(s, i / width, i % width % taps_of(s));
        const double expected = from < 0 ? 0.0 : (double)x[from + i % width / taps_of(s)];
        if (p[i] != expected) {
            fail_msg("%s patches: element %lld is %g, expected %g", b->name, (long long)i, p[i],
                     expected);
        }
    }
    void *const owned[] = {x, bx, bp, p};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

static void test_patches_hold_what_the_window_reads(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < CASE_COUNT; i++) {
            const conv_shape s = case_shape(i);
            check_patches(b, &s);
        }
        const conv_shape large = shape_of(1, (extent){20, 9}, 2, 1, (window2d){11, 9, 3, 2, 1});
        check_patches(b, &large); /* more taps than are looked up at once */
    }
}

/* conv2d(X, W) = patches(X) W^T */
static void test_a_convolution_is_a_product_of_patches(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < CASE_COUNT; i++) {
            const conv_shape s = case_shape(i);
            const int64_t width = s.channels_in * taps_of(&s);
            const int64_t count = positions_of(&s) * s.channels_out;
            float *x = normals(inputs_of(&s), 7, 1.0);
            float *weight = normals(weights_of(&s), 8, 1.0);
            void *bx = elements(b, inputs_of(&s), x);
            void *bw = elements(b, weights_of(&s), weight);
            void *p = blank(b, positions_of(&s) * width);
            void *by = blank(b, count);
            void *bz = blank(b, count);
            b->patches(&s, bx, 0, s.samples * s.out.height, p);
            b->linear(positions_of(&s), width, s.channels_out, p, bw, NULL, bz);
            assert_ok(b->conv2d(&s, bx, bw, NULL, NULL, by));
            double *y = results(b, count, by);
            double *z = results(b, count, bz);
            assert_all_near(b, "conv2d and patches", count, y, z, NULL,
                            32.0 * rounding(b) * (double)width);
            void *const owned[] = {x, weight, bx, bw, p, by, bz, y, z};
            for (size_t k = 0; k < sizeof owned / sizeof owned[0]; k++) {
                memory_free(owned[k]);
            }
        }
    }
}

static void check_max_pool(const backend *b, const conv_shape *s)
{
    const int64_t count = positions_of(s) * s->channels_in;
    float *x = normals(inputs_of(s), 9, 1.0);
    for (int64_t i = 0; i < inputs_of(s); i++) {
        x[i] -= 4.0F; /* below the zeros that a wrong border would bring in */
    }
    void *bx = elements(b, inputs_of(s), x);
    void *by = blank(b, count);
    assert_ok(b->max_pool(s, bx, by));
    double *y = results(b, count, by);
    for (int64_t i = 0; i < count; i++) {
        double expected = -INFINITY;
        for (int64_t k = 0; k < taps_of(s); k++) {
            const int64_t from = tap_index(s, i / s->channels_in, k);
            expected = from < 0 ? expected : fmax(expected, (double)x[from + i % s->channels_in]);
        }
        assert_true(y[i] == expected);
    }
    void *const owned[] = {x, bx, by, y};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

static void test_max_pool_takes_the_largest_inside(void **state)
{
    (void)state;
    static const struct {
        int64_t samples;
        extent in;
        int64_t channels;
        window2d window;
    } pools[] = {
        {0, {4, 4}, 3, {2, 2, 2, 0, 1}},      {2, {7, 9}, 5, {3, 3, 2, 1, 1}},
        {1, {112, 112}, 64, {3, 3, 2, 1, 1}}, {3, {8, 6}, 17, {2, 2, 2, 0, 1}},
        {2, {9, 9}, 33, {3, 3, 1, 1, 1}},     {2, {10, 11}, 4, {3, 2, 2, 1, 2}},
    };
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
            const conv_shape s = shape_of(pools[i].samples, pools[i].in, pools[i].channels,
                                          pools[i].channels, pools[i].window);
            check_max_pool(b, &s);
        }
    }
}

static void check_mean(const backend *b, int64_t samples, int64_t positions, int64_t width)
{
    float *x = normals(samples * positions * width, 10, 1.0);
    double *expected = doubles(samples * width, 0.0);
    for (int64_t i = 0; i < samples * positions * width; i++) {
        expected[i / (positions * width) * width + i % width] += (double)x[i] / (double)positions;
    }
    void *bx = elements(b, samples * positions * width, x);
    void *by = blank(b, samples * width);
    b->mean_positions(samples, positions, width, bx, by);
    double *y = results(b, samples * width, by);
    assert_all_near(b, "mean_positions", samples * width, y, expected, NULL, 8.0 * rounding(b));
    void *const owned[] = {x, expected, bx, by, y};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

static void test_a_mean_is_taken_over_the_positions_of_a_sample(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        check_mean(b, 0, 4, 3);
        check_mean(b, 1, 1, 1);
        check_mean(b, 5, 49, 37);
        check_mean(b, 3, 16, 700);
        check_mean(b, 2, 4097, 3);
    }
}

typedef struct small_image {
    const backend *b;
    void *x, *weight, *y;
} small_image;

static grail_status convolve_small(void *context)
{
    const small_image *i = context;
    const conv_shape s = shape_of(1, (extent){5, 5}, 8, 8, (window2d){3, 3, 1, 1, 1});
    const conv_epilogue after = {.residual = i->y, .relu = true};
    return i->b->conv2d(&s, i->x, i->weight, NULL, &after, i->y);
}

static grail_status pool_small(void *context)
{
    const small_image *i = context;
    const conv_shape s = shape_of(1, (extent){5, 5}, 8, 8, (window2d){3, 3, 1, 1, 1});
    return i->b->max_pool(&s, i->x, i->y);
}

static void test_lack_of_memory_is_reported(void **state)
{
    (void)state;
    enum { COUNT = 8 * 8 * 9 };
    float *values = normals(COUNT, 11, 1.0);
    FOR_EACH_BACKEND(b)
    {
        small_image i = {b, elements(b, COUNT, values), elements(b, COUNT, values),
                         blank(b, COUNT)};
        support_fail_each_allocation(convolve_small, &i);
        support_fail_each_allocation(pool_small, &i);
        memory_free(i.x);
        memory_free(i.weight);
        memory_free(i.y);
    }
    memory_free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolution_matches_its_formula_in_every_shape),
        cmocka_unit_test(test_an_epilogue_adds_a_residual_and_cuts_below_zero),
        cmocka_unit_test(test_a_delta_kernel_moves_the_image),
        cmocka_unit_test(test_patches_hold_what_the_window_reads),
        cmocka_unit_test(test_a_convolution_is_a_product_of_patches),
        cmocka_unit_test(test_max_pool_takes_the_largest_inside),
        cmocka_unit_test(test_a_mean_is_taken_over_the_positions_of_a_sample),
        cmocka_unit_test(test_lack_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
