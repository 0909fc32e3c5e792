/* From values to positions: an axis with round ticks. */
#ifndef GRAIL_STUDY_PAGE_SCALE_H
#define GRAIL_STUDY_PAGE_SCALE_H

#include <stdbool.h>

enum { MOST_TICKS = 24 };

typedef struct scale {
    double from, to;   /* values at the ends */
    double start, end; /* positions there */
    bool logarithmic;
    double ticks[MOST_TICKS];
    int tick_count;
    int decimals; /* that tick labels need */
} scale;

/** Widened to multiples of 1, 2 or 5 times a power of ten, with at most `intervals` (2 to 12)
 * between the ticks, two more where the ends are widened. An empty range gets one unit. */
scale scale_linear(double least, double most, int intervals, double start, double end);

/** Lets the axis begin at a value, not at the tick below: a little below 0 is not worth a step. */
void scale_begin_at(scale *s, double least);

/** Ticks at powers of two, thinned to nine at most; both values are positive. */
scale scale_doubling(double least, double most, double start, double end);

/** Position of a value; outside the ends it is that of the nearer end. */
double scale_at(const scale *s, double value);

#endif
