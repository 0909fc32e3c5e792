#include "conformance/image_shapes.h"

static int64_t out_positions(int64_t in, int64_t kernel, const window2d *w)
{
    return (in + 2 * w->padding - w->dilation * (kernel - 1) - 1) / w->stride + 1;
}

conv_shape shape_of(int64_t samples, extent in, int64_t channels_in, int64_t channels_out,
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
    return s->window.kernel_height * s->window.kernel_width;
}

int64_t weights_of(const conv_shape *s)
{
    return s->channels_out * s->channels_in * taps_of(s);
}

matrix images_of(backend *b, const conv_shape *s, const float *x)
{
    return values_of(b, s->samples * s->in.height * s->in.width, s->channels_in, x);
}

matrix weight_of(backend *b, const conv_shape *s, const float *weight)
{
    return values_of(b, s->channels_out, s->channels_in * taps_of(s), weight);
}

int64_t tap_index(const conv_shape *s, int64_t p, int64_t k)
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
