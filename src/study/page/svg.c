#include "study/page/svg.h"

void svg_attribute(markup *m, const char *name, double value)
{
    markup_format(m, " %s=\"", name);
    markup_number(m, value, 1);
    markup_raw(m, "\"");
}

void svg_line(markup *m, const char *class, point from, point to)
{
    markup_format(m, "<line class=\"%s\"", class);
    svg_attribute(m, "x1", from.x);
    svg_attribute(m, "y1", from.y);
    svg_attribute(m, "x2", to.x);
    svg_attribute(m, "y2", to.y);
    markup_raw(m, "/>");
}

void svg_rectangle(markup *m, const char *class, point corner, double width, double height)
{
    markup_format(m, "<rect class=\"%s\"", class);
    svg_attribute(m, "x", corner.x);
    svg_attribute(m, "y", corner.y);
    svg_attribute(m, "width", width);
    svg_attribute(m, "height", height);
    markup_raw(m, "/>");
}

void svg_path_begin(markup *m, const char *class, const char *dash)
{
    markup_format(m, "<path class=\"%s\"", class);
    if (dash != NULL) {
        markup_format(m, " stroke-dasharray=\"%s\"", dash);
    }
    markup_raw(m, " d=\"");
}

void svg_path_to(markup *m, point p, bool first)
{
    markup_raw(m, first ? "M" : "L");
    markup_number(m, p.x, 1);
    markup_raw(m, " ");
    markup_number(m, p.y, 1);
}

void svg_path_end(markup *m, bool closed)
{
    markup_raw(m, closed ? "Z\"/>" : "\"/>");
}

static void svg_path(markup *m, const char *class, const char *dash, const point *points, int count,
                     bool closed)
{
    svg_path_begin(m, class, dash);
    for (int i = 0; i < count; i++) {
        svg_path_to(m, points[i], i == 0);
    }
    svg_path_end(m, closed);
}

void svg_text_begin(markup *m, const char *class, point at)
{
    markup_format(m, "<text class=\"%s\"", class);
    svg_attribute(m, "x", at.x);
    svg_attribute(m, "y", at.y);
    markup_raw(m, ">");
}

void svg_text_end(markup *m)
{
    markup_raw(m, "</text>");
}

void svg_text(markup *m, const char *class, point at, const char *text)
{
    svg_text_begin(m, class, at);
    markup_text(m, text);
    svg_text_end(m);
}

void svg_group_begin(markup *m, const char *class)
{
    markup_format(m, "<g class=\"%s\">", class);
}

void svg_group_end(markup *m)
{
    markup_raw(m, "</g>");
}

void svg_hover_begin(markup *m)
{
    markup_raw(m, "<g class=\"h\"><title>");
}

void svg_hover_body(markup *m)
{
    markup_raw(m, "</title>");
}

void svg_marker(markup *m, const series_style *style, point at, double radius)
{
    static const struct {
        point points[4];
        int count;
    } shapes[] = {
        [MARKER_CIRCLE] = {.count = 0},
        [MARKER_SQUARE] = {{{-0.85, -0.85}, {0.85, -0.85}, {0.85, 0.85}, {-0.85, 0.85}}, 4},
        [MARKER_DIAMOND] = {{{0, -1.2}, {1.2, 0}, {0, 1.2}, {-1.2, 0}}, 4},
        [MARKER_UP] = {{{0, -1.15}, {1.1, 0.85}, {-1.1, 0.85}}, 3},
        [MARKER_DOWN] = {{{0, 1.15}, {1.1, -0.85}, {-1.1, -0.85}}, 3},
        [MARKER_CROSS] = {{{-0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}, {0.9, -0.9}}, 4},
    };
    const char *class = style->hollow ? "m o" : "m";
    point points[4];
    for (int i = 0; i < shapes[style->shape].count; i++) {
        points[i].x = at.x + radius * shapes[style->shape].points[i].x;
        points[i].y = at.y + radius * shapes[style->shape].points[i].y;
    }
    if (style->shape == MARKER_CIRCLE) {
        markup_format(m, "<circle class=\"%s\"", class);
        svg_attribute(m, "cx", at.x);
        svg_attribute(m, "cy", at.y);
        svg_attribute(m, "r", radius);
        markup_raw(m, "/>");
    } else if (style->shape == MARKER_CROSS) {
        svg_path(m, "m", NULL, points, 2, false);
        svg_path(m, "m", NULL, points + 2, 2, false);
    } else {
        svg_path(m, class, NULL, points, shapes[style->shape].count, true);
    }
}

void svg_key(markup *m, const char *dash, point at)
{
    const point ends[2] = {{at.x, at.y}, {at.x + 30.0, at.y}};
    svg_path(m, "l", dash, ends, 2, false);
}
