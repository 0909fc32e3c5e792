#include "study/page/curve.h"
#include "study/page/describe.h"
#include "study/page/plots.h"
#include "study/page/quality_scale.h"
#include "study/page/series.h"

static grail_status draw_panel(const aggregate *a, const section *s, int selector, axis_kind axis,
                               figure *f)
{
    grail_status status = GRAIL_OK;
    curve c = {0};
    panel *p = NULL;
    TRY(figure_add_panel(f, CHART_WIDTH, CHART_HEIGHT, &p));
    markup_raw(&p->title, start_of(a->results->selectors[selector], 40).text);
    p->view = axis_name(axis);
    const chart on = {
        .out = &p->content,
        .x = axis_scale(axis, s, CHART_LEFT, CHART_RIGHT),
        .y = quality_scale(s, CHART_BOTTOM, CHART_TOP),
        .x_label = axis_label(axis, s),
        .y_label = quality_label(s),
    };
    chart_frame(&on);
    quality_draw_dense(&on, s, axis);
    for (int v = 0; v < VARIANTS; v++) {
        TRY(curve_over_cuts(s, selector, (variant)v, axis, MEASURE_QUALITY, &c));
        TRY(curve_draw(&c, a, &on, setting_style(selector, (variant)v)));
        curve_fini(&c);
    }
out:
    curve_fini(&c);
    return status;
}

static void describe(const section *s, figure *f)
{
    const bool is_text = s->kind == QUALITY_PERPLEXITY;
    markup_format(&f->title, "%s against size, %s", is_text ? "Perplexity" : "Accuracy",
                  start_of(s->name, 60).text);
    markup_format(&f->caption,
                  "%s against what was removed, one panel per selector, with %s. Lines are means "
                  "over %s and begin at the dense network; bars are 95 %% intervals.%s",
                  is_text ? "Perplexity" : "Top-1 accuracy",
                  setting_text(s->samples, s->open_loop).text, describe_members(s),
                  is_text ? " Perplexities above 64 times the lowest are drawn at the top." : "");
    figure_add_variants(f, s->variants, KEY_LINE);
}

grail_status plot_accuracy(const aggregate *a, const section *s, figure *out)
{
    describe(s, out);
    for (int axis = 0; axis < AXES; axis++) {
        for (int i = 0; i < MOST_SELECTORS && axis_occurs((axis_kind)axis, s); i++) {
            if (s->selectors[i] && s->ratio_count > 0) {
                CHECK(draw_panel(a, s, i, (axis_kind)axis, out));
            }
        }
    }
    return GRAIL_OK;
}
