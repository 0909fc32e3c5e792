#include "study/page/curve.h"
#include "study/page/describe.h"
#include "study/page/plots.h"
#include "study/page/series.h"

#include <math.h>

static double highest(const section *s)
{
    double most = isnan(s->dense.most) ? 0.0 : s->dense.most;
    for (int i = 0; i < s->group_count; i++) {
        most = fmax(most, s->groups[i].top1.most); /* fmax ignores NaN */
    }
    return 100.0 * most;
}

static grail_status draw_panel(const aggregate *a, const section *s, int selector, double top,
                               figure *f)
{
    grail_status status = GRAIL_OK;
    curve c = {0};
    panel *p = NULL;
    TRY(figure_add_panel(f, CHART_WIDTH, CHART_HEIGHT, &p));
    markup_start_of(&p->title, a->results->selectors[selector], 40);
    const chart on = {
        .out = &p->content,
        .x = scale_linear(0.0, 100.0 * s->ratios[s->ratio_count - 1], 5, CHART_LEFT, CHART_RIGHT),
        .y = scale_linear(0.0, top, 5, CHART_BOTTOM, CHART_TOP),
        .x_label = "units removed, %",
        .y_label = "top-1 accuracy, %",
    };
    chart_frame(&on);
    if (!isnan(s->dense.mean)) {
        chart_reference(&on, 100.0 * s->dense.mean, "dense");
    }
    for (int v = 0; v < VARIANTS; v++) {
        TRY(curve_over_ratios(s, selector, (variant)v, MEASURE_TOP1, &c));
        TRY(curve_draw(&c, a, &on, variant_style((variant)v)));
        curve_fini(&c);
    }
out:
    curve_fini(&c);
    return status;
}

static void describe(const section *s, figure *f)
{
    markup_raw(&f->title, "Accuracy against ratio, ");
    markup_start_of(&f->title, s->name, 60);
    markup_raw(&f->caption, "Top-1 accuracy against the share of units removed from every site, "
                            "one panel per selector, with ");
    describe_setting(&f->caption, s->samples, s->open_loop);
    markup_format(&f->caption,
                  ". Lines show means over %s, bands span the lowest to the highest value, and the "
                  "dashed line shows the dense network.",
                  describe_members(s));
    for (int v = 0; v < VARIANTS; v++) {
        if (s->variants[v]) {
            figure_add_legend(f, variant_style((variant)v), variant_label((variant)v));
        }
    }
}

grail_status plot_accuracy(const aggregate *a, const section *s, figure *out)
{
    grail_status status = GRAIL_OK;
    const double top = highest(s);
    describe(s, out);
    for (int i = 0; i < MOST_SELECTORS; i++) {
        if (s->selectors[i] && s->ratio_count > 0) {
            TRY(draw_panel(a, s, i, top, out));
        }
    }
out:
    return status;
}
