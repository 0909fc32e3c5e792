#include "study/page/curve.h"
#include "study/page/plots.h"
#include "study/page/series.h"

#include <math.h>

static bool has_point(const cell_group *g, variant v)
{
    return g->key.variant == v && g->plain.count > 0 && g->top1.count > 0;
}

static double highest(const aggregate *a)
{
    double most = 0.0;
    for (int i = 0; i < a->group_count; i++) {
        most = fmax(most, a->groups[i].top1.mean);
    }
    return 100.0 * most;
}

static grail_status draw_panel(const aggregate *a, variant v, figure *f)
{
    panel *p = NULL;
    const double top = highest(a);
    CHECK(figure_add_panel(f, CHART_WIDTH, CHART_HEIGHT, &p));
    markup_raw(&p->title, variant_label(v));
    const chart on = {
        .out = &p->content,
        .x = scale_linear(0.0, top, 5, CHART_LEFT, CHART_RIGHT),
        .y = scale_linear(0.0, top, 5, CHART_BOTTOM, CHART_TOP),
        .x_label = "top-1 of the plain cut, %",
        .y_label = "top-1 with this repair, %",
    };
    chart_frame(&on);
    svg_line(on.out, "r", chart_at(&on, 0.0, 0.0), chart_at(&on, on.x.to, on.y.to));
    for (int i = 0; i < a->group_count; i++) {
        const cell_group *g = &a->groups[i];
        if (has_point(g, v)) {
            const series_style style = setting_style(g->key.selector, v);
            svg_group_begin(on.out, style.class);
            estimate quality = estimate_scaled(&g->quality, 100.0);
            quality.value = 100.0 * g->top1.mean;
            curve_draw_group(&on, a, g, &style, 100.0 * g->plain.mean, &quality);
            svg_group_end(on.out);
        }
    }
    return GRAIL_OK;
}

grail_status plot_scatter(const aggregate *a, figure *out)
{
    bool selectors[MOST_SELECTORS] = {false};
    bool variants[VARIANTS] = {false};
    for (int i = 0; i < a->group_count; i++) {
        const cell_group *g = &a->groups[i];
        if (has_point(g, g->key.variant)) {
            selectors[g->key.selector] = true;
            variants[g->key.variant] = true;
        }
    }
    markup_raw(&out->title, "Before and after");
    markup_raw(
        &out->caption,
        "Accuracy without and with repair for every setting of the sweep. Settings above "
        "the diagonal gained accuracy. Each repair has a panel, each selector a marker; bars "
        "are 95 % intervals of the accuracy with repair.");
    for (int v = VARIANT_REPAIR; v < VARIANTS; v++) {
        if (variants[v]) {
            CHECK(draw_panel(a, (variant)v, out));
        }
    }
    figure_add_selectors(out, selectors, a->results->selectors);
    return GRAIL_OK;
}
