/* The line of one selector and variant in a panel: its groups over the size of the cut or the
 * samples. */
#ifndef GRAIL_STUDY_PAGE_CURVE_H
#define GRAIL_STUDY_PAGE_CURVE_H

#include "study/page/aggregate.h"
#include "study/page/axis.h"
#include "study/page/chart.h"

typedef enum curve_measure { MEASURE_QUALITY, MEASURE_GAIN } curve_measure;

typedef struct curve {
    const section *section;
    const cell_group **groups;
    int count;
    axis_kind axis;
    curve_measure measure;
} curve;

/** A curve at the section's setting, over all its ratios. Groups without the measure, or without a
 * place on the axis, are left out. */
grail_status curve_over_cuts(const section *s, int selector, variant v, axis_kind axis,
                             curve_measure measure, curve *out) GRAIL_MUST_CHECK;
/** A curve of gains at one ratio and the section's loop, over the sample counts that were tried. */
grail_status curve_over_samples(const section *s, int selector, variant v, double sparsity,
                                curve *out) GRAIL_MUST_CHECK;
void curve_fini(curve *c);

/** Value i of the curve: accuracies in percent, gains in points, perplexities as they are. */
estimate curve_value(const curve *c, int i);
/** A quality of the section in the same unit; that of the dense network. */
estimate curve_unit(const section *s, const estimate *quality);
estimate curve_of_dense(const section *s);

/** Draws the marker of a group with its interval and a tooltip. */
void curve_draw_group(const chart *on, const aggregate *a, const cell_group *g,
                      const series_style *style, double x, const estimate *value);
/** Draws the line, which begins at the dense network where that has a place, and markers with
 * intervals and tooltips. */
grail_status curve_draw(const curve *c, const aggregate *a, const chart *on,
                        series_style style) GRAIL_MUST_CHECK;

#endif
