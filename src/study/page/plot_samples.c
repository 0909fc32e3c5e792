#include "study/page/curve.h"
#include "study/page/describe.h"
#include "study/page/plots.h"
#include "study/page/section.h"
#include "study/page/series.h"

#include <math.h>

/* The ratio with the most sample counts; a tie goes to the one nearest to a half. NaN where no
 * ratio has two. */
static grail_status choose_ratio(const section *s, int selector, variant v, double *out)
{
    curve c = {0};
    int most = 1;
    *out = NOT_MEASURED;
    for (int i = 0; i < s->ratio_count; i++) {
        const double ratio = s->ratios[i];
        CHECK(curve_over_samples(s, selector, v, ratio, &c));
        const bool nearer = fabs(ratio - 0.5) < fabs(*out - 0.5);
        if (c.count > most || (c.count == most && nearer)) {
            most = c.count;
            *out = ratio;
        }
        curve_fini(&c);
    }
    return GRAIL_OK;
}

/* What all panels share: the range of samples and of gains. */
typedef struct extent {
    double fewest, most_samples, least, most;
} extent;

static void widen(extent *e, const curve *c)
{
    for (int i = 0; i < c->count; i++) {
        const spread value = c->groups[i]->gain;
        e->fewest = fmin(e->fewest, (double)c->groups[i]->key.samples);
        e->most_samples = fmax(e->most_samples, (double)c->groups[i]->key.samples);
        e->least = fmin(e->least, 100.0 * value.least);
        e->most = fmax(e->most, 100.0 * value.most);
    }
}

static grail_status measure(const section *s, const double *ratios, extent *out)
{
    curve c = {0};
    *out = (extent){.fewest = (double)INFINITY};
    for (int i = 0; i < MOST_SELECTORS; i++) {
        for (int v = VARIANT_REPAIR; v < VARIANTS && !isnan(ratios[i]); v++) {
            CHECK(curve_over_samples(s, i, (variant)v, ratios[i], &c));
            widen(out, &c);
            curve_fini(&c);
        }
    }
    return GRAIL_OK;
}

static grail_status draw_panel(const aggregate *a, const section *s, int selector, double ratio,
                               const extent *e, bool *drawn, figure *f)
{
    grail_status status = GRAIL_OK;
    curve c = {0};
    panel *p = NULL;
    TRY(figure_add_panel(f, CHART_WIDTH, CHART_HEIGHT, &p));
    markup_format(&p->title, "%s, %s %%", start_of(a->results->selectors[selector], 30).text,
                  ratio_text(ratio).text);
    chart on = {
        .out = &p->content,
        .x = scale_doubling(e->fewest, e->most_samples, CHART_LEFT, CHART_RIGHT),
        .y = scale_linear(e->least, e->most, 6, CHART_BOTTOM, CHART_TOP),
        .x_label = "calibration samples",
        .y_label = "gain in top-1, points",
    };
    scale_begin_at(&on.y, e->least);
    chart_frame(&on);
    for (int v = VARIANT_REPAIR; v < VARIANTS; v++) {
        TRY(curve_over_samples(s, selector, (variant)v, ratio, &c));
        if (c.count > 1) {
            drawn[v] = true;
            TRY(curve_draw(&c, a, &on, setting_style(selector, (variant)v)));
        }
        curve_fini(&c);
    }
out:
    curve_fini(&c);
    return status;
}

grail_status plot_samples(const aggregate *a, const section *s, figure *out)
{
    double ratios[MOST_SELECTORS];
    bool drawn[VARIANTS] = {false};
    extent e = {0};
    const variant best = section_best_variant(s);
    for (int i = 0; i < MOST_SELECTORS; i++) {
        ratios[i] = NOT_MEASURED;
        if (s->selectors[i] && best != VARIANT_NONE) {
            CHECK(choose_ratio(s, i, best, &ratios[i]));
        }
    }
    CHECK(measure(s, ratios, &e));
    markup_format(&out->title, "Gain against calibration samples, %s", start_of(s->name, 60).text);
    markup_format(&out->caption,
                  "Top-1 accuracy minus that of the plain cut, against the number of calibration "
                  "samples, at the ratio with the most sample counts. Lines are means over %s; "
                  "bars are 95 %% intervals.",
                  describe_members(s));
    for (int i = 0; i < MOST_SELECTORS; i++) {
        if (!isnan(ratios[i])) {
            CHECK(draw_panel(a, s, i, ratios[i], &e, drawn, out));
        }
    }
    figure_add_variants(out, drawn, KEY_LINE);
    return GRAIL_OK;
}
