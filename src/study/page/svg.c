#include "study/page/svg.h"

short_text svg_number(double value)
{
    return number_text(value, 1);
}

void svg_line(markup *m, const char *class, point from, point to)
{
    markup_format(m, "<line class=\"%s\" x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>", class,
                  svg_number(from.x).text, svg_number(from.y).text, svg_number(to.x).text,
                  svg_number(to.y).text);
}

void svg_rectangle(markup *m, const char *class, point corner, double width, double height)
{
    markup_format(m, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"/>", class,
                  svg_number(corner.x).text, svg_number(corner.y).text, svg_number(width).text,
                  svg_number(height).text);
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
    markup_format(m, "%s%s %s", first ? "M" : "L", svg_number(p.x).text, svg_number(p.y).text);
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
    markup_format(m, "<text class=\"%s\" x=\"%s\" y=\"%s\">", class, svg_number(at.x).text,
                  svg_number(at.y).text);
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
        markup_format(m, "<circle class=\"%s\" cx=\"%s\" cy=\"%s\" r=\"%s\"/>", class,
                      svg_number(at.x).text, svg_number(at.y).text, svg_number(radius).text);
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
