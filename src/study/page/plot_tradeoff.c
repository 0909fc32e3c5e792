#include "study/page/curve.h"
#include "study/page/decision.h"
#include "study/page/describe.h"
#include "study/page/pareto.h"
#include "study/page/plots.h"
#include "study/page/quality_scale.h"
#include "study/page/series.h"

#include <math.h>

/* The second panel of a network goes down to this many times the largest loss that a decision
 * allows. */
static const double zoom = 2.0;

static bool has_point(axis_kind axis, const cell_group *g)
{
    return estimate_is_known(&g->quality) && isfinite(axis_value(axis, g));
}

/* Whether a value is in the panel. Perplexities beyond a logarithmic scale stand at its end. */
static bool is_shown(const chart *c, double y)
{
    return y >= c->y.from - 1e-9 && (y <= c->y.to + 1e-9 || c->y.logarithmic);
}

static void draw_points(const chart *c, const aggregate *a, const section *s, axis_kind axis)
{
    for (int i = 0; i < s->group_count; i++) {
        const cell_group *g = &s->groups[i];
        const estimate value = curve_unit(s, &g->quality);
        if (has_point(axis, g) && is_shown(c, value.value)) {
            const series_style style = setting_style(g->key.selector, g->key.variant);
            svg_group_begin(c->out, style.class);
            curve_draw_group(c, a, g, &style, axis_value(axis, g), &value);
            svg_group_end(c->out);
        }
    }
}

/* The end of a line from a point in the panel to one below or above it. */
static point leave_at(const chart *c, const pareto_point *in, const pareto_point *outside)
{
    const double edge = outside->y < c->y.from ? c->y.from : c->y.to;
    const double share = (edge - in->y) / (outside->y - in->y);
    return chart_at(c, in->x + share * (outside->x - in->x), edge);
}

static void draw_line(const chart *c, const pareto_point *points, int count)
{
    bool is_first = true;
    svg_path_begin(c->out, "z", NULL);
    for (int i = 0; i < count; i++) {
        const bool in = is_shown(c, points[i].y);
        const bool before = i > 0 && is_shown(c, points[i - 1].y);
        if (in && i > 0 && !before) {
            svg_path_to(c->out, leave_at(c, &points[i], &points[i - 1]), is_first);
            is_first = false;
        }
        if (in) {
            svg_path_to(c->out, chart_at(c, points[i].x, points[i].y), is_first);
            is_first = false;
        } else if (before) {
            svg_path_to(c->out, leave_at(c, &points[i - 1], &points[i]), false);
        }
    }
    svg_path_end(c->out, false);
}

static grail_status draw_pareto(const chart *c, const section *s, axis_kind axis)
{
    grail_status status = GRAIL_OK;
    pareto_point *points = NULL;
    int count = 0;
    TRY(memory_new(&points, (size_t)s->group_count + 1, sizeof points[0]));
    points[count++] = (pareto_point){axis_of_dense(axis, s), curve_of_dense(s).value};
    for (int i = 0; i < s->group_count; i++) {
        const estimate value = curve_unit(s, &s->groups[i].quality);
        points[count++] = (pareto_point){axis_value(axis, &s->groups[i]), value.value};
    }
    count = pareto_front(points, count, axis == AXIS_TIME, s->kind == QUALITY_PERPLEXITY);
    if (count > 1) {
        draw_line(c, points, count);
    }
out:
    memory_free(points);
    return status;
}

/* Lines at the losses that the decision allows. */
static void draw_limits(const chart *c, const section *s)
{
    const double dense = curve_of_dense(s).value;
    for (int i = 0; i < DECISION_LIMITS; i++) {
        const double limit = decision_limits(s->kind)[i];
        const bool is_text = s->kind == QUALITY_PERPLEXITY;
        const short_text label = text_format("%s%s%s", is_text ? "+" : "\xE2\x88\x92",
                                             number_text(limit, 0).text, is_text ? " %" : "");
        chart_reference(c, is_text ? dense * (1.0 + limit / 100.0) : dense - limit, label.text,
                        LABEL_BEHIND);
    }
}

static grail_status draw_panel(const aggregate *a, const section *s, axis_kind axis, scale x,
                               scale y, bool is_near, figure *f)
{
    panel *p = NULL;
    CHECK(figure_add_panel(f, CHART_WIDTH, CHART_HEIGHT, &p));
    markup_format(&p->title, "%s%s", start_of(s->name, 30).text,
                  is_near ? ", near the dense network" : "");
    p->view = axis_name(axis);
    const chart on = {
        .out = &p->content,
        .x = x,
        .y = y,
        .x_label = axis_label(axis, s),
        .y_label = quality_label(s),
    };
    chart_frame(&on);
    quality_draw_dense(&on, s, axis);
    if (is_near) {
        draw_limits(&on, s);
    }
    CHECK(draw_pareto(&on, s, axis));
    draw_points(&on, a, s, axis);
    return GRAIL_OK;
}

/* From twice the largest loss that a decision allows to the best of all settings. */
static scale near_quality(const section *s)
{
    const double dense = curve_of_dense(s).value;
    const double reach = zoom * decision_limits(s->kind)[DECISION_LIMITS - 1];
    const bool is_text = s->kind == QUALITY_PERPLEXITY;
    const double worst = is_text ? dense * (1.0 + reach / 100.0) : dense - reach;
    double best = dense;
    for (int i = 0; i < s->group_count; i++) {
        const estimate value = curve_unit(s, &s->groups[i].quality);
        best = is_text ? fmin(best, value.value) : fmax(best, value.value); /* ignore NaN */
    }
    return scale_linear(fmin(worst, best), fmax(worst, best), 5, CHART_BOTTOM, CHART_TOP);
}

/* The scales of the second panel; false where nothing is near the dense network. */
static bool near_scales(const section *s, axis_kind axis, scale *x, scale *y)
{
    double least = axis_of_dense(axis, s);
    double most = least;
    bool found = false;
    if (!estimate_is_known(&s->dense_quality)) {
        return false;
    }
    *y = near_quality(s);
    for (int i = 0; i < s->group_count; i++) {
        const cell_group *g = &s->groups[i];
        const double value = curve_unit(s, &g->quality).value;
        if (has_point(axis, g) && value >= y->from && value <= y->to) {
            found = true;
            least = fmin(least, axis_value(axis, g));
            most = fmax(most, axis_value(axis, g));
        }
    }
    *x = scale_linear(axis == AXIS_TIME ? least : 0.0, most, 5, CHART_LEFT,
                      CHART_RIGHT - (s->kind == QUALITY_ACCURACY ? 12 : 24)); /* labels of limits */
    return found;
}

static grail_status draw_section(const aggregate *a, const section *s, axis_kind axis, figure *f)
{
    scale x = axis_scale(axis, s, CHART_LEFT, CHART_RIGHT);
    scale y = quality_scale(s, CHART_BOTTOM, CHART_TOP);
    CHECK(draw_panel(a, s, axis, x, y, false, f));
    if (near_scales(s, axis, &x, &y)) {
        CHECK(draw_panel(a, s, axis, x, y, true, f));
    }
    return GRAIL_OK;
}

static void add_legend(const aggregate *a, figure *f)
{
    bool selectors[MOST_SELECTORS] = {false};
    bool variants[VARIANTS] = {false};
    for (int i = 0; i < a->group_count; i++) {
        selectors[a->groups[i].key.selector] = true;
        variants[a->groups[i].key.variant] = true;
    }
    figure_add_variants(f, variants, KEY_COLOUR);
    figure_add_selectors(f, selectors, a->results->selectors);
}

static void describe(const aggregate *a, figure *f)
{
    bool texts = false;
    bool images = false;
    for (int i = 0; i < a->section_count; i++) {
        texts = texts || a->sections[i].kind == QUALITY_PERPLEXITY;
        images = images || a->sections[i].kind == QUALITY_ACCURACY;
    }
    markup_raw(&f->title, texts && images ? "Quality against size"
                          : texts         ? "Perplexity against size"
                                          : "Accuracy against size");
    markup_raw(&f->caption,
               "Every setting of the sweep: the colour tells the repair, the shape the selector, "
               "bars are 95 % intervals. The square is the dense network. The line joins the "
               "settings that no other beats in both size and quality (Pareto); a setting on it "
               "need not be better than its neighbours within the intervals. ");
    markup_raw(&f->caption, "The second panel of a network shows what is near the dense one, with "
                            "lines at the losses of the decision.");
}

grail_status plot_tradeoff(const aggregate *a, figure *out)
{
    describe(a, out);
    add_legend(a, out);
    for (int axis = 0; axis < AXES; axis++) {
        for (int i = 0; i < a->section_count; i++) {
            if (axis_occurs((axis_kind)axis, &a->sections[i])) {
                CHECK(draw_section(a, &a->sections[i], (axis_kind)axis, out));
            }
        }
    }
    return GRAIL_OK;
}
