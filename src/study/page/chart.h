/* A panel with two axes, and what is drawn between them. */
#ifndef GRAIL_STUDY_PAGE_CHART_H
#define GRAIL_STUDY_PAGE_CHART_H

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

/** A band between the lower and upper value at each x. */
void chart_band(const chart *c, const double *x, const double *lower, const double *upper,
                int count);
void chart_curve(const chart *c, const series_style *style, const double *x, const double *y,
                 int count);
/** A horizontal line across the panel; at its right end the label and the value. */
void chart_reference(const chart *c, double y, const char *label);

/** A marker in an area for the pointer; inside svg_hover_begin ... svg_group_end it shows a
 * tooltip. */
void chart_marker(const chart *c, const series_style *style, double x, double y);

#endif
