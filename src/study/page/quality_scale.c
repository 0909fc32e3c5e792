#include "study/page/quality_scale.h"

#include "study/page/curve.h"
#include "study/page/describe.h"

#include <math.h>

/* Perplexities beyond are as bad as none. */
static const double most_times = 64.0;

const char *quality_label(const section *s)
{
    return s->kind == QUALITY_ACCURACY ? "top-1 accuracy, %" : "perplexity";
}

scale quality_scale(const section *s, double start, double end)
{
    double least = s->dense_quality.value;
    double most = s->dense_quality.value;
    for (int i = 0; i < s->group_count; i++) {
        least = fmin(least, s->groups[i].quality.value); /* fmin and fmax ignore NaN */
        most = fmax(most, s->groups[i].quality.value);
    }
    if (s->kind == QUALITY_ACCURACY) {
        return scale_linear(0.0, isnan(most) ? 0.0 : 100.0 * most, 5, start, end);
    }
    return isnan(most) ? scale_doubling(1.0, 2.0, start, end)
                       : scale_doubling(least, fmin(most, most_times * least), start, end);
}

void quality_draw_dense(const chart *c, const section *s, axis_kind axis)
{
    const estimate dense = curve_of_dense(s);
    const double x = axis_of_dense(axis, s);
    if (isnan(dense.value)) {
        return;
    }
    chart_reference(c, dense.value,
                    text_format("dense %s", value_text(s->kind, s->dense_quality.value).text).text,
                    s->kind == QUALITY_ACCURACY ? LABEL_ABOVE : LABEL_BELOW);
    if (isfinite(x)) {
        chart_dense(c, x, &dense);
    }
}
