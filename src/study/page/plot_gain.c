#include "study/page/curve.h"
#include "study/page/describe.h"
#include "study/page/plots.h"
#include "study/page/section.h"
#include "study/page/series.h"

#include <math.h>

/* The range of the gains that are shown, with zero; in points. */
static void extent(const section *s, double *least, double *most)
{
    *least = 0.0;
    *most = 0.0;
    for (int i = 0; i < s->group_count; i++) {
        if (section_shows(s, &s->groups[i])) {
            *least = fmin(*least, 100.0 * s->groups[i].gain.least);
            *most = fmax(*most, 100.0 * s->groups[i].gain.most);
        }
    }
}

static grail_status draw_panel(const aggregate *a, const section *s, variant v, axis_kind axis,
                               scale y, figure *f)
{
    grail_status status = GRAIL_OK;
    curve c = {0};
    panel *p = NULL;
    TRY(figure_add_panel(f, CHART_WIDTH, CHART_HEIGHT, &p));
    markup_raw(&p->title, variant_label(v));
    p->view = axis_name(axis);
    const chart on = {
        .out = &p->content,
        .x = axis_scale(axis, s, CHART_LEFT, CHART_RIGHT),
        .y = y,
        .x_label = axis_label(axis, s),
        .y_label = "gain in top-1, points",
    };
    chart_frame(&on);
    for (int i = 0; i < MOST_SELECTORS; i++) {
        if (s->selectors[i]) {
            TRY(curve_over_cuts(s, i, v, axis, MEASURE_GAIN, &c));
            TRY(curve_draw(&c, a, &on, setting_style(i, v)));
            curve_fini(&c);
        }
    }
out:
    curve_fini(&c);
    return status;
}

static bool has_gains(const section *s, variant v)
{
    for (int i = 0; i < s->group_count; i++) {
        const cell_group *g = &s->groups[i];
        if (g->key.variant == v && g->gain.count > 0 && section_shows(s, g)) {
            return true;
        }
    }
    return false;
}

grail_status plot_gain(const aggregate *a, const section *s, figure *out)
{
    double least = 0.0;
    double most = 0.0;
    extent(s, &least, &most);
    scale y = scale_linear(least, most, 6, CHART_BOTTOM, CHART_TOP);
    scale_begin_at(&y, least);
    markup_format(&out->title, "Gain against size, %s", start_of(s->name, 60).text);
    markup_format(&out->caption,
                  "Top-1 accuracy minus that of the plain cut with the same selector, ratio and "
                  "seed, one panel per repair. Lines are means over %s; bars are 95 %% intervals.",
                  describe_members(s));
    for (int axis = 0; axis < AXES; axis++) {
        for (int v = VARIANT_REPAIR; v < VARIANTS; v++) {
            if (has_gains(s, (variant)v) && axis_occurs((axis_kind)axis, s)) {
                CHECK(draw_panel(a, s, (variant)v, (axis_kind)axis, y, out));
            }
        }
    }
    figure_add_selectors(out, s->selectors, a->results->selectors);
    return GRAIL_OK;
}
