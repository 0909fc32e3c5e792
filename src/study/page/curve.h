/* The line of one selector and variant in a panel: its groups over the ratio or the samples. */
#ifndef GRAIL_STUDY_PAGE_CURVE_H
#define GRAIL_STUDY_PAGE_CURVE_H

#include "study/page/aggregate.h"
#include "study/page/chart.h"

typedef enum curve_axis { AXIS_RATIO, AXIS_SAMPLES } curve_axis;
typedef enum curve_measure { MEASURE_TOP1, MEASURE_GAIN } curve_measure;

typedef struct curve {
    const cell_group **groups;
    int count;
    curve_axis axis;
    curve_measure measure;
} curve;

/** A curve at the section's setting, over all its ratios. Groups without the measure are left
 * out. */
grail_status curve_over_ratios(const section *s, int selector, variant v, curve_measure measure,
                               curve *out) GRAIL_MUST_CHECK;
/** A curve of gains at one ratio and the section's loop, over the sample counts that were tried. */
grail_status curve_over_samples(const section *s, int selector, variant v, double sparsity,
                                curve *out) GRAIL_MUST_CHECK;
void curve_fini(curve *c);

/** Value i of the curve, in percent. */
spread curve_value(const curve *c, int i);

/** Draws the band of the range, the line, and markers with tooltips. */
grail_status curve_draw(const curve *c, const aggregate *a, const chart *on,
                        const series_style *style) GRAIL_MUST_CHECK;

#endif
