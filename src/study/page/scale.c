#include "study/page/scale.h"

#include <math.h>
#include <string.h>

/* The least of 1, 2, 5 and 10 times a power of ten that is not below `least`. */
static double round_step(double least)
{
    const double power = pow(10.0, floor(log10(least)));
    const double parts = least / power;
    /* 1 % of slack: a range of exactly 10 steps must not become 5 by rounding */
    return power * (parts <= 1.01 ? 1.0 : parts <= 2.02 ? 2.0 : parts <= 5.05 ? 5.0 : 10.0);
}

scale scale_linear(double least, double most, int intervals, double start, double end)
{
    scale s = {.start = start, .end = end};
    const double magnitude = fmax(fabs(least), fabs(most));
    if (!(most - least > 1e-9 * magnitude && most - least > 1e-12)) {
        most = least + fmax(1.0, 1e-3 * magnitude);
    }
    const double step = round_step((most - least) / intervals);
    const double first = floor(least / step + 1e-6);
    const double last = ceil(most / step - 1e-6);
    s.from = first * step;
    s.to = last * step;
    s.decimals = step < 0.999 ? (int)ceil(-log10(step) - 1e-6) : 0;
    for (double at = first; at <= last && s.tick_count < MOST_TICKS; at += 1.0) {
        s.ticks[s.tick_count++] = at * step;
    }
    return s;
}

void scale_begin_at(scale *s, double least)
{
    if (s->tick_count > 2 && least > s->from && least < s->ticks[1]) {
        s->from = least;
        s->tick_count--;
        memmove(s->ticks, s->ticks + 1, (size_t)s->tick_count * sizeof s->ticks[0]);
    }
}

scale scale_doubling(double least, double most, double start, double end)
{
    scale s = {.start = start, .end = end, .logarithmic = true};
    const double first = floor(log2(least) + 1e-9);
    const double last = fmax(ceil(log2(most) - 1e-9), first + 1.0);
    const double stride = ceil((last - first) / 8.0);
    s.from = exp2(first);
    s.to = exp2(last);
    for (double at = first; at <= last && s.tick_count < MOST_TICKS; at += stride) {
        s.ticks[s.tick_count++] = exp2(at);
    }
    return s;
}

double scale_at(const scale *s, double value)
{
    const double from = s->logarithmic ? log2(s->from) : s->from;
    const double to = s->logarithmic ? log2(s->to) : s->to;
    const double at = s->logarithmic ? log2(value) : value;
    const double share = fmin(fmax((at - from) / (to - from), 0.0), 1.0);
    return s->start + share * (s->end - s->start);
}
