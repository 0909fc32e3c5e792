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
