#include "study/page/curve.h"

#include "study/page/describe.h"

#include <math.h>

static const spread *measure_of(const cell_group *g, curve_measure measure)
{
    return measure == MEASURE_TOP1 ? &g->top1 : &g->gain;
}

static void take(curve *c, const cell_group *g)
{
    if (g != NULL && measure_of(g, c->measure)->count > 0) {
        c->groups[c->count++] = g;
    }
}

grail_status curve_over_ratios(const section *s, int selector, variant v, curve_measure measure,
                               curve *out)
{
    curve c = {.axis = AXIS_RATIO, .measure = measure};
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
    curve c = {.axis = AXIS_SAMPLES, .measure = MEASURE_GAIN};
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

spread curve_value(const curve *c, int i)
{
    const spread *s = measure_of(c->groups[i], c->measure);
    return (spread){100.0 * s->mean, 100.0 * s->least, 100.0 * s->most, s->count};
}

static double x_of(const curve *c, int i)
{
    const group_key *key = &c->groups[i]->key;
    return c->axis == AXIS_RATIO ? 100.0 * key->sparsity : (double)key->samples;
}

static void draw_markers(const curve *c, const aggregate *a, const chart *on,
                         const series_style *style)
{
    for (int i = 0; i < c->count; i++) {
        svg_hover_begin(on->out);
        describe_group(on->out, a, c->groups[i]);
        svg_hover_body(on->out);
        chart_marker(on, style, x_of(c, i), curve_value(c, i).mean);
        svg_group_end(on->out);
    }
}

grail_status curve_draw(const curve *c, const aggregate *a, const chart *on,
                        const series_style *style)
{
    grail_status status = GRAIL_OK;
    enum { X, MEAN, LEAST, MOST, ROWS };
    double *rows[ROWS] = {NULL};
    bool is_band = false;
    for (int i = 0; i < ROWS; i++) {
        TRY(memory_new(&rows[i], (size_t)c->count, sizeof rows[i][0]));
    }
    for (int i = 0; i < c->count; i++) {
        const spread value = curve_value(c, i);
        rows[X][i] = x_of(c, i);
        rows[MEAN][i] = value.mean;
        rows[LEAST][i] = value.least;
        rows[MOST][i] = value.most;
        is_band = is_band || value.least < value.most;
    }
    svg_group_begin(on->out, style->class);
    if (is_band) {
        chart_band(on, rows[X], rows[LEAST], rows[MOST], c->count);
    }
    if (c->count > 0) {
        chart_curve(on, style, rows[X], rows[MEAN], c->count);
    }
    draw_markers(c, a, on, style);
    svg_group_end(on->out);
out:
    for (int i = 0; i < ROWS; i++) {
        memory_free(rows[i]);
    }
    return status;
}
