/* What a plot has on its x axis: the reader chooses how the size of a cut is measured. */
#ifndef GRAIL_STUDY_PAGE_AXIS_H
#define GRAIL_STUDY_PAGE_AXIS_H

#include "study/page/aggregate.h"
#include "study/page/scale.h"

typedef enum axis_kind {
    AXIS_CUT,        /* share of units that was asked for, % */
    AXIS_PARAMETERS, /* share of parameters removed, % */
    AXIS_MACS,       /* share of multiply-accumulates removed, % */
    AXIS_TIME,       /* for an image or window, ms */
    AXES,            /* those that a reader chooses from */
    AXIS_SAMPLES = AXES
} axis_kind;

/** A word of lower-case letters, for classes and file names: "parameters". */
const char *axis_name(axis_kind axis);
/** What the reader chooses: "parameters removed". */
const char *axis_choice(axis_kind axis);
/** With its unit: "parameters removed, %". */
const char *axis_label(axis_kind axis, const section *s);

/** Where a group is on the axis, and the dense network; NaN where that was not measured. */
double axis_value(axis_kind axis, const cell_group *g);
double axis_of_dense(axis_kind axis, const section *s);

/** Whether any group of the section has a value. */
bool axis_occurs(axis_kind axis, const section *s);
bool axis_occurs_anywhere(axis_kind axis, const aggregate *a);
/** The axis that a page shows first. */
axis_kind axis_first(const aggregate *a);

/** From 0, or from the dense network, to the largest value of all groups. */
scale axis_scale(axis_kind axis, const section *s, double start, double end);

#endif
