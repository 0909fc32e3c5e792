/* Copies of positions of images: shortcuts and windows. */
#include "conformance/conformance.h"

static int64_t positions_in(int64_t samples, extent e)
{
    return samples * e.height * e.width;
}

/* Every stride-th position of an input. */
static position_shape shortcut_shape(int64_t samples, extent in, int64_t stride, int64_t pad)
{
    return (position_shape){
        .samples = samples,
        .in = in,
        .out = {(in.height - 1) / stride + 1, (in.width - 1) / stride + 1},
        .window = WINDOW2D(1, 1, stride, 0, 1),
        .pad = pad,
    };
}

/* Index of the input position that an output position begins at. */
static int64_t start_of(const position_shape *s, int64_t position)
{
    const int64_t sample = position / (s->out.height * s->out.width);
    const int64_t row = position / s->out.width % s->out.height * s->window.height.stride;
    const int64_t column = position % s->out.width * s->window.width.stride;
    return (sample * s->in.height + row) * s->in.width + column;
}

static void check_shortcut(backend *b, const position_shape *s, int64_t channels)
{
    const int64_t width = channels + 2 * s->pad;
    const int64_t rows = positions_in(s->samples, s->out);
    double *x = normal_doubles(positions_in(s->samples, s->in) * channels, 1);
    double *expected = doubles(rows * width, 0.0);
    for (int64_t i = 0; i < rows * width; i++) {
        const int64_t channel = i % width - s->pad;
        if (channel >= 0 && channel < channels) {
            expected[i] = x[start_of(s, i / width) * channels + channel];
        }
    }
    matrix bx = matrix_of(b, backend_type(b), positions_in(s->samples, s->in), channels, x);
    matrix by = blank_values(b, rows, width);
    assert_ok(matrix_shortcut(s, bx, by));
    assert_matrix_near("shortcut", by, expected, 0.0);
    free_blocks(x, expected);
    free_matrices(&bx, &by);
}

BACKEND_TEST(test_a_shortcut_takes_every_stride_th_position_between_zeros)
{
    static const struct {
        int64_t samples;
        extent in;
        int64_t stride, pad, channels;
    } cases[] = {
        {0, {4, 4}, 2, 1, 3}, {1, {1, 1}, 1, 0, 1}, {1, {1, 1}, 3, 2, 5},    {2, {8, 6}, 2, 4, 8},
        {3, {7, 9}, 2, 3, 5}, {2, {9, 7}, 3, 0, 4}, {5, {33, 31}, 2, 8, 16}, {2, {5, 4}, 1, 2, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        position_shape s =
            shortcut_shape(cases[i].samples, cases[i].in, cases[i].stride, cases[i].pad);
        check_shortcut(b, &s, cases[i].channels);
        s.window.width.stride = 1;
        s.out.width = s.in.width;
        check_shortcut(b, &s, cases[i].channels);
    }
}

static position_shape window_shape(int64_t samples, extent in, int64_t height, int64_t width,
                                   int64_t stride)
{
    return (position_shape){
        .samples = samples,
        .in = in,
        .out = {(in.height - height) / stride + 1, (in.width - width) / stride + 1},
        .window = WINDOW2D(height, width, stride, 0, 1),
    };
}

static void check_windows(backend *b, const position_shape *s, int64_t channels)
{
    const int64_t across = s->window.width.kernel * channels;
    const int64_t width = s->window.height.kernel * across;
    const int64_t rows = positions_in(s->samples, s->out);
    double *x = normal_doubles(positions_in(s->samples, s->in) * channels, 2);
    double *expected = doubles(rows * width, 0.0);
    for (int64_t i = 0; i < rows * width; i++) {
        const int64_t first = start_of(s, i / width) + i % width / across * s->in.width;
        expected[i] = x[first * channels + i % across];
    }
    matrix bx = matrix_of(b, backend_type(b), positions_in(s->samples, s->in), channels, x);
    matrix by = blank_values(b, rows, width);
    assert_ok(matrix_windows(s, bx, by));
    assert_matrix_near("windows", by, expected, 0.0);
    matrix sequence = blank_values(b, rows, width);
    position_shape of_sequence = *s;
    of_sequence.out = (extent){s->out.height * s->out.width, 1};
    assert_ok(matrix_windows(&of_sequence, bx, sequence));
    assert_matrix_near("windows as a sequence", sequence, expected, 0.0);
    free_blocks(x, expected);
    free_matrices(&bx, &by, &sequence);
}

BACKEND_TEST(test_windows_hold_their_positions_one_after_another)
{
    static const struct {
        int64_t samples;
        extent in;
        int64_t height, width, stride, channels;
    } cases[] = {
        {0, {4, 4}, 2, 2, 2, 3},  {1, {1, 1}, 1, 1, 1, 1},  {1, {4, 4}, 4, 4, 4, 2},
        {2, {6, 8}, 2, 2, 2, 5},  {3, {7, 9}, 2, 3, 2, 4},  {2, {5, 6}, 3, 3, 1, 3},
        {2, {9, 10}, 2, 2, 3, 7}, {7, {12, 1}, 3, 1, 2, 6}, {4, {32, 28}, 4, 4, 4, 3},
        {2, {5, 12}, 1, 4, 2, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        position_shape s = window_shape(cases[i].samples, cases[i].in, cases[i].height,
                                        cases[i].width, cases[i].stride);
        check_windows(b, &s, cases[i].channels);
        s.window.width.stride = 1;
        s.out.width = s.in.width - cases[i].width + 1;
        check_windows(b, &s, cases[i].channels);
    }
}
