/* The y axis of plots of accuracy or perplexity, and the dense network in them. */
#ifndef GRAIL_STUDY_PAGE_QUALITY_SCALE_H
#define GRAIL_STUDY_PAGE_QUALITY_SCALE_H

#include "study/page/axis.h"
#include "study/page/chart.h"

/** "top-1 accuracy, %" or "perplexity". */
const char *quality_label(const section *s);

/** Accuracies from 0; perplexities from the least to 64 times it at most, where larger ones stand
 * too. */
scale quality_scale(const section *s, double start, double end);

/** The dense network as a line across the panel, and as a point where it is on the axis. */
void quality_draw_dense(const chart *c, const section *s, axis_kind axis);

#endif
