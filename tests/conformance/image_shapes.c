#include "conformance/image_shapes.h"

/* Windows that lie in the input and what is around it, and with `rounds_up` one that lies there in
 * part, if it begins before the end of the input. */
static int64_t out_positions(int64_t in, const window_axis *a, bool rounds_up)
{
    int64_t count = 0;
    while (count * a->stride + a->dilation * (a->kernel - 1) < in + a->before + a->behind) {
        count++;
    }
    const bool is_covered =
        (count - 1) * a->stride + a->dilation * (a->kernel - 1) + 1 == in + a->before + a->behind;
    return rounds_up && !is_covered && count * a->stride < in + a->before ? count + 1 : count;
}

conv_shape shape_of(int64_t samples, extent in, int64_t channels_in, int64_t channels_out,
                    window2d w)
{
    return (conv_shape){.samples = samples,
                        .in = in,
                        .out = {.height = out_positions(in.height, &w.height, w.rounds_up),
                                .width = out_positions(in.width, &w.width, w.rounds_up)},
                        .channels_in = channels_in,
                        .channels_out = channels_out,
                        .window = w};
}

int64_t inputs_of(const conv_shape *s)
{
    return s->samples * s->in.height * s->in.width * s->channels_in;
}

int64_t positions_of(const conv_shape *s)
{
    return s->samples * s->out.height * s->out.width;
}

int64_t taps_of(const conv_shape *s)
{
    return window_taps(&s->window);
}

int64_t read_by_each(const conv_shape *s)
{
    return s->channels_in / conv_groups(s);
}

int64_t first_read(const conv_shape *s, int64_t out)
{
    return out / (s->channels_out / conv_groups(s)) * read_by_each(s);
}

int64_t weights_of(const conv_shape *s)
{
    return s->channels_out * read_by_each(s) * taps_of(s);
}

matrix images_of(backend *b, const conv_shape *s, const float *x)
{
    return values_of(b, s->samples * s->in.height * s->in.width, s->channels_in, x);
}

matrix weight_of(backend *b, const conv_shape *s, const float *weight)
{
    return values_of(b, s->channels_out, read_by_each(s) * taps_of(s), weight);
}

int64_t tap_index(const conv_shape *s, int64_t p, int64_t k)
{
    const window_axis *h = &s->window.height;
    const window_axis *w = &s->window.width;
    const int64_t sample = p / (s->out.height * s->out.width);
    const int64_t row =
        p / s->out.width % s->out.height * h->stride - h->before + k / w->kernel * h->dilation;
    const int64_t column = p % s->out.width * w->stride - w->before + k % w->kernel * w->dilation;
    const bool inside = row >= 0 && row < s->in.height && column >= 0 && column < s->in.width;
    return inside ? ((sample * s->in.height + row) * s->in.width + column) * s->channels_in : -1;
}

void share_scales(int64_t samples, extent positions, int64_t channels, double *scale)
{
    enum { SIDE = 4 };
    const int64_t down = (positions.height + SIDE - 1) / SIDE;
    const int64_t across = (positions.width + SIDE - 1) / SIDE;
    const int64_t count = samples * positions.height * positions.width * channels;
    double *largest = doubles(samples * down * across * channels, 0.0);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = i / channels;
            const int64_t row = at / positions.width % positions.height;
            const int64_t sample = at / positions.width / positions.height;
            const int64_t square =
                (sample * down + row / SIDE) * across + at % positions.width / SIDE;
            double *shared = largest + square * channels + i % channels;
            *shared = fmax(*shared, scale[i]);
            scale[i] = pass == 0 ? scale[i] : *shared;
        }
    }
    free_blocks(largest);
}

/* Odd sizes, narrowed channel counts, strides that leave a rest or rows unread, padding, dilation,
 * windows that are not square, 1 x 1, patches, windows in the padding alone, windows that move
 * along each axis in a way of its own, with more padding on one side than on the other, or a number
 * of outputs that is rounded up; and groups. */
static const struct {
    int64_t samples;
    extent in;
    int64_t channels_in, channels_out;
    window2d window; /* kernel height, kernel width, stride, padding, dilation */
    int64_t groups;
} cases[] = {
    {0, {5, 5}, 3, 4, WINDOW2D(3, 3, 1, 1, 1), 1},
    {1, {1, 1}, 1, 1, WINDOW2D(1, 1, 1, 0, 1), 1},
    {2, {7, 5}, 3, 4, WINDOW2D(3, 3, 1, 1, 1), 1},
    {3, {8, 8}, 16, 16, WINDOW2D(3, 3, 1, 1, 1), 1},
    {2, {9, 11}, 17, 13, WINDOW2D(3, 3, 2, 1, 1), 1},
    {1, {32, 32}, 3, 64, WINDOW2D(3, 3, 1, 1, 1), 1},
    {1, {30, 31}, 3, 19, WINDOW2D(7, 7, 2, 3, 1), 1},
    {2, {13, 12}, 5, 7, WINDOW2D(3, 3, 1, 2, 2), 1},
    {2, {17, 16}, 6, 33, WINDOW2D(3, 3, 2, 3, 3), 1},
    {3, {6, 7}, 48, 21, WINDOW2D(1, 1, 1, 0, 1), 1},
    {2, {9, 8}, 24, 40, WINDOW2D(1, 1, 2, 0, 1), 1},
    {2, {5, 9}, 11, 3, WINDOW2D(1, 3, 1, 1, 1), 1},
    {2, {10, 6}, 8, 5, WINDOW2D(5, 2, 1, 0, 1), 1},
    {3, {16, 12}, 3, 29, WINDOW2D(4, 4, 4, 0, 1), 1},
    {2, {9, 11}, 3, 8, WINDOW2D(4, 4, 4, 0, 1), 1},
    {2, {6, 6}, 100, 37, WINDOW2D(3, 3, 1, 1, 1), 1},
    {1, {4, 4}, 2, 3, WINDOW2D(4, 4, 1, 0, 1), 1},
    {2, {3, 3}, 64, 64, WINDOW2D(3, 3, 1, 0, 1), 1},
    {2, {6, 5}, 32, 16, WINDOW2D(1, 1, 1, 2, 1), 1},
    {2, {5, 6}, 16, 48, WINDOW2D(3, 1, 2, 1, 1), 1},
    {2, {4, 5}, 19, 16, WINDOW2D(2, 2, 1, 3, 2), 1},
    {4, {4, 4}, 160, 130, WINDOW2D(3, 3, 1, 1, 1), 1},
    {12, {32, 32}, 4, 6, WINDOW2D(1, 1, 2, 0, 1), 1},
    {3, {64, 64}, 7, 19, WINDOW2D(1, 1, 2, 0, 1), 1},
    {2, {96, 96}, 12, 5, WINDOW2D(1, 1, 3, 0, 1), 1},
    {2, {66, 64}, 1, 1, WINDOW2D(1, 1, 2, 0, 1), 1},
    {2, {9, 13}, 8, 12, {{3, 2, 1, 1, 1}, {3, 1, 1, 1, 1}, false}, 1},
    {2, {7, 15}, 16, 19, {{1, 1, 1, 0, 0}, {3, 1, 1, 1, 1}, false}, 1},
    {2, {8, 12}, 5, 7, {{3, 2, 1, 0, 1}, {3, 2, 1, 0, 1}, false}, 1},
    {1, {10, 9}, 17, 16, {{2, 1, 3, 2, 0}, {5, 3, 2, 1, 4}, false}, 1},
    {3, {6, 5}, 3, 33, {{4, 3, 1, 3, 0}, {2, 1, 1, 0, 2}, false}, 1},
    {2, {6, 7}, 4, 6, {{1, 2, 1, 0, 3}, {1, 1, 1, 2, 0}, false}, 1},
    {4, {32, 32}, 4, 6, {{1, 2, 1, 0, 0}, {1, 1, 1, 0, 0}, false}, 1},
    {2, {8, 7}, 6, 5, {{3, 2, 1, 0, 0}, {2, 3, 1, 1, 0}, true}, 1},
    {2, {7, 6}, 6, 9, WINDOW2D(3, 3, 1, 1, 1), 3},
    {1, {9, 10}, 32, 32, WINDOW2D(3, 3, 2, 1, 1), 2},
    {2, {6, 5}, 64, 32, WINDOW2D(1, 1, 2, 0, 1), 16},
    {3, {33, 32}, 12, 8, WINDOW2D(1, 1, 2, 0, 1), 4},
    {2, {8, 9}, 10, 10, {{5, 2, 1, 1, 2}, {3, 1, 2, 2, 0}, false}, 10},
    {2, {4, 4}, 7300, 33, WINDOW2D(3, 3, 1, 1, 1), 1}, /* a large weight for few positions, in two
                                                          pieces */
    {2, {4, 4}, 768, 3072, WINDOW2D(3, 3, 1, 1, 1), 3},
    {1, {5, 7}, 12, 8, WINDOW2D(1, 1, 1, 2, 1), 4},
    /* Squares of 4 x 4 outputs that are part empty, channels that fill no vector, panels of one to
     * four vectors. */
    {3, {8, 7}, 40, 80, WINDOW2D(3, 3, 1, 1, 1), 1},
    {2, {9, 11}, 33, 50, WINDOW2D(3, 3, 1, 1, 1), 1},
    {1, {7, 10}, 40, 70, {{3, 1, 1, 0, 2}, {3, 1, 1, 2, 1}, false}, 1},
    {2, {10, 9}, 70, 48, WINDOW2D(3, 3, 1, 0, 1), 1},
    {1, {5, 13}, 32, 32, {{3, 1, 1, 4, 3}, {3, 1, 1, 1, 1}, false}, 1},
    {1, {8, 9}, 36, 232, WINDOW2D(3, 3, 1, 1, 1), 1},
};

size_t case_count(void)
{
    return sizeof cases / sizeof cases[0];
}

conv_shape case_shape(size_t i)
{
    conv_shape s = shape_of(cases[i].samples, cases[i].in, cases[i].channels_in,
                            cases[i].channels_out, cases[i].window);
    s.groups = cases[i].groups;
    return s;
}
