/* SVG elements. Colours and fonts come from the classes of style.c, so that one drawing serves the
 * page, light and dark, and a file of its own. */
#ifndef GRAIL_STUDY_PAGE_SVG_H
#define GRAIL_STUDY_PAGE_SVG_H

#include "study/page/markup.h"

typedef struct point {
    double x, y;
} point;

typedef enum marker_shape {
    MARKER_CIRCLE,
    MARKER_SQUARE,
    MARKER_DIAMOND,
    MARKER_UP,
    MARKER_DOWN,
    MARKER_CROSS
} marker_shape;

/** How a series is told from others without its colour, and the class that gives the colour. */
typedef struct series_style {
    const char *class;
    const char *dash; /* stroke-dasharray, NULL: solid */
    marker_shape shape;
    bool hollow;
} series_style;

/** A coordinate or a length: one decimal. */
short_text svg_number(double value);

void svg_line(markup *m, const char *class, point from, point to);
void svg_rectangle(markup *m, const char *class, point corner, double width, double height);
/** A path through the points of svg_path_to, closed (a polygon) or not; `dash` may be NULL. */
void svg_path_begin(markup *m, const char *class, const char *dash);
void svg_path_to(markup *m, point p, bool first);
void svg_path_end(markup *m, bool closed);

/** Text that follows is placed at the point; the class says where it is anchored. */
void svg_text_begin(markup *m, const char *class, point at);
void svg_text_end(markup *m);
void svg_text(markup *m, const char *class, point at, const char *text);

/** `<g class="...">`, ended by svg_group_end. */
void svg_group_begin(markup *m, const char *class);
void svg_group_end(markup *m);

/** A group with a tooltip: the text appended until svg_hover_body. svg_group_end ends the group. */
void svg_hover_begin(markup *m);
void svg_hover_body(markup *m);

void svg_marker(markup *m, const series_style *style, point at, double radius);
/** The sample of a line in a legend, 30 wide; its left end is at the point. */
void svg_key(markup *m, const char *dash, point at);

#endif
