#include "study/page/chart.h"

static double top(const chart *c)
{
    return c->y.start < c->y.end ? c->y.start : c->y.end;
}

static double bottom(const chart *c)
{
    return c->y.start < c->y.end ? c->y.end : c->y.start;
}

static void draw_x_axis(const chart *c)
{
    const double y = bottom(c);
    const bool rows = c->y.tick_count == 0;
    for (int i = 0; i < c->x.tick_count; i++) {
        const double x = scale_at(&c->x, c->x.ticks[i]);
        if (rows) {
            svg_line(c->out, "g", (point){x, top(c)}, (point){x, y});
        }
        svg_line(c->out, "a", (point){x, y}, (point){x, y + 4.0});
        svg_text(c->out, "t c", (point){x, y + 17.0},
                 number_text(c->x.ticks[i], c->x.decimals).text);
    }
    /* with values below zero the line at zero is the axis */
    svg_line(c->out, c->y.from < 0.0 ? "g" : "a", (point){c->x.start, y}, (point){c->x.end, y});
    svg_text(c->out, "u c", (point){(c->x.start + c->x.end) / 2.0, y + 34.0}, c->x_label);
}

static void draw_y_axis(const chart *c)
{
    for (int i = 0; i < c->y.tick_count; i++) {
        const double y = scale_at(&c->y, c->y.ticks[i]);
        const bool is_zero = c->y.ticks[i] == 0.0 && c->y.from < 0.0;
        svg_line(c->out, is_zero ? "a" : "g", (point){c->x.start, y}, (point){c->x.end, y});
        svg_text(c->out, "t e", (point){c->x.start - 6.0, y + 3.8},
                 number_text(c->y.ticks[i], c->y.decimals).text);
    }
    svg_text(c->out, "u", (point){0.0, top(c) - 14.0}, c->y_label);
}

void chart_frame(const chart *c)
{
    draw_y_axis(c);
    draw_x_axis(c);
}

point chart_at(const chart *c, double x, double y)
{
    return (point){scale_at(&c->x, x), scale_at(&c->y, y)};
}

void chart_interval(const chart *c, double x, const estimate *value)
{
    const double half = 2.5; /* of the lines at its ends */
    if (!estimate_has_interval(value)) {
        return;
    }
    const point low = chart_at(c, x, value->low);
    const point high = chart_at(c, x, value->high);
    svg_path_begin(c->out, "i", NULL);
    svg_path_to(c->out, low, true);
    svg_path_to(c->out, high, false);
    for (int end = 0; end < 2; end++) {
        const point at = end == 0 ? low : high;
        svg_path_to(c->out, (point){at.x - half, at.y}, true);
        svg_path_to(c->out, (point){at.x + half, at.y}, false);
    }
    svg_path_end(c->out, false);
}

void chart_dense(const chart *c, double x, const estimate *value)
{
    static const series_style style = {"d", NULL, MARKER_SQUARE, false};
    svg_group_begin(c->out, style.class);
    chart_interval(c, x, value);
    svg_marker(c->out, &style, chart_at(c, x, value->value), 3.2);
    svg_group_end(c->out);
}

void chart_curve(const chart *c, const series_style *style, const double *x, const double *y,
                 int count)
{
    svg_path_begin(c->out, "l", style->dash);
    for (int i = 0; i < count; i++) {
        svg_path_to(c->out, chart_at(c, x[i], y[i]), i == 0);
    }
    svg_path_end(c->out, false);
}

void chart_reference(const chart *c, double y, const char *label, label_place place)
{
    static const double below[] = {
        [LABEL_ABOVE] = -5.0, [LABEL_BELOW] = 12.0, [LABEL_BEHIND] = 3.8};
    const double at = scale_at(&c->y, y);
    const bool is_behind = place == LABEL_BEHIND;
    svg_line(c->out, "r", (point){c->x.start, at}, (point){c->x.end, at});
    svg_text(c->out, is_behind ? "t" : "t e y",
             (point){is_behind ? c->x.end + 3.0 : c->x.end, at + below[place]}, label);
}

void chart_marker(const chart *c, const series_style *style, double x, double y)
{
    const point at = chart_at(c, x, y);
    markup_format(c->out, "<circle class=\"p\" r=\"8\" cx=\"%s\" cy=\"%s\"/>",
                  svg_number(at.x).text, svg_number(at.y).text);
    svg_marker(c->out, style, at, 3.2);
}
