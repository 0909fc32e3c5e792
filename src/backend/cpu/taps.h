/* Where the taps of a window lie. */
#ifndef GRAIL_BACKEND_CPU_TAPS_H
#define GRAIL_BACKEND_CPU_TAPS_H

#include "backend/operations.h"

/** The position of a sample's input that tap `k` of an output position reads, -1 outside. */
static inline int64_t tap_position(const conv_shape *s, int64_t row, int64_t column, int64_t k)
{
    const window2d *w = &s->window;
    const window_axis *h = &w->height;
    const window_axis *v = &w->width;
    const int64_t y = row * h->stride - h->before + k / v->kernel * h->dilation;
    const int64_t x = column * v->stride - v->before + k % v->kernel * v->dilation;
    return y < 0 || y >= s->in.height || x < 0 || x >= s->in.width ? -1 : y * s->in.width + x;
}

#endif
