/* A panel with two axes, and what is drawn between them. */
#ifndef GRAIL_STUDY_PAGE_CHART_H
#define GRAIL_STUDY_PAGE_CHART_H

#include "study/page/estimate.h"
#include "study/page/scale.h"
#include "study/page/svg.h"

enum {
    CHART_WIDTH = 340,
    CHART_HEIGHT = 244,
    CHART_LEFT = 40, /* room for tick labels */
    CHART_RIGHT = 326,
    CHART_TOP = 46, /* below the panel's title and the label of the y axis */
    CHART_BOTTOM = 204
};

typedef struct chart {
    markup *out;
    scale x, y; /* y.tick_count 0: rows with names instead of values, vertical grid lines */
    const char *x_label, *y_label;
} chart;

/** Grid, axes and labels between the ends of the scales. */
void chart_frame(const chart *c);

point chart_at(const chart *c, double x, double y);

/** The interval of a value, where it is known, as a line with ends. */
void chart_interval(const chart *c, double x, const estimate *value);
/** A value's interval and a marker in the colour of text: what others are compared with. */
void chart_dense(const chart *c, double x, const estimate *value);
void chart_curve(const chart *c, const series_style *style, const double *x, const double *y,
                 int count);
typedef enum label_place { LABEL_ABOVE, LABEL_BELOW, LABEL_BEHIND } label_place;

/** A horizontal line across the panel, and the label at its right end. */
void chart_reference(const chart *c, double y, const char *label, label_place place);

/** A marker in an area for the pointer; inside svg_hover_begin ... svg_group_end it shows a
 * tooltip. */
void chart_marker(const chart *c, const series_style *style, double x, double y);

#endif
