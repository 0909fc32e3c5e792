#include "study/page/curve.h"

#include "study/page/describe.h"
#include "study/page/section.h"

#include <math.h>

estimate curve_unit(const section *s, const estimate *quality)
{
    return s->kind == QUALITY_ACCURACY ? estimate_scaled(quality, 100.0) : *quality;
}

static void take(curve *c, const cell_group *g)
{
    if (g != NULL && isfinite(axis_value(c->axis, g))) {
        c->groups[c->count++] = g;
        const estimate value = curve_value(c, c->count - 1);
        c->count -= estimate_is_known(&value) ? 0 : 1;
    }
}

grail_status curve_over_cuts(const section *s, int selector, variant v, axis_kind axis,
                             curve_measure measure, curve *out)
{
    curve c = {.section = s, .axis = axis, .measure = measure};
    const grail_status status = memory_new(&c.groups, (size_t)s->ratio_count, sizeof c.groups[0]);
    for (int i = 0; status == GRAIL_OK && i < s->ratio_count; i++) {
        take(&c, section_at(s, selector, v, s->ratios[i]));
    }
    *out = c;
    return status;
}

grail_status curve_over_samples(const section *s, int selector, variant v, double sparsity,
                                curve *out)
{
    curve c = {.section = s, .axis = AXIS_SAMPLES, .measure = MEASURE_GAIN};
    const grail_status status = memory_new(&c.groups, (size_t)s->group_count, sizeof c.groups[0]);
    for (int i = 0; status == GRAIL_OK && i < s->group_count; i++) {
        group_key key = s->groups[i].key;
        if (key.selector == selector && key.variant == v && key.open_loop == s->open_loop &&
            key.samples > 0 && fabs(key.sparsity - sparsity) < 5e-7) {
            take(&c, &s->groups[i]);
        }
    }
    *out = c;
    return status;
}

void curve_fini(curve *c)
{
    memory_free(c->groups);
    *c = (curve){0};
}

estimate curve_value(const curve *c, int i)
{
    const cell_group *g = c->groups[i];
    return c->measure == MEASURE_GAIN ? estimate_scaled(&g->gained, 100.0)
                                      : curve_unit(c->section, &g->quality);
}

estimate curve_of_dense(const section *s)
{
    return curve_unit(s, &s->dense_quality);
}

void curve_draw_group(const chart *on, const aggregate *a, const cell_group *g,
                      const series_style *style, double x, const estimate *value)
{
    svg_hover_begin(on->out);
    describe_group(on->out, a, g);
    svg_hover_body(on->out);
    chart_interval(on, x, value);
    chart_marker(on, style, x, value->value);
    svg_group_end(on->out);
}

/* Where a curve begins: what a cut of nothing gives. */
static bool find_beginning(const curve *c, double *x, double *y)
{
    *x = axis_of_dense(c->axis, c->section);
    *y = c->measure == MEASURE_GAIN ? 0.0 : curve_of_dense(c->section).value;
    return c->axis != AXIS_SAMPLES && isfinite(*x) && isfinite(*y);
}

grail_status curve_draw(const curve *c, const aggregate *a, const chart *on, series_style style)
{
    grail_status status = GRAIL_OK;
    double *x = NULL;
    double *y = NULL;
    TRY(memory_new(&x, (size_t)c->count + 1, sizeof x[0]));
    TRY(memory_new(&y, (size_t)c->count + 1, sizeof y[0]));
    const int first = find_beginning(c, &x[0], &y[0]) ? 1 : 0;
    for (int i = 0; i < c->count; i++) {
        x[first + i] = axis_value(c->axis, c->groups[i]);
        y[first + i] = curve_value(c, i).value;
    }
    svg_group_begin(on->out, style.class);
    if (c->count > 0) {
        chart_curve(on, &style, x, y, first + c->count);
    }
    for (int i = 0; i < c->count; i++) {
        const estimate value = curve_value(c, i);
        curve_draw_group(on, a, c->groups[i], &style, x[first + i], &value);
    }
    svg_group_end(on->out);
out:
    memory_free(x);
    memory_free(y);
    return status;
}
