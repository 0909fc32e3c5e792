/* The plots of the report, one file each. A figure without panels has nothing to show. */
#ifndef GRAIL_STUDY_PAGE_PLOTS_H
#define GRAIL_STUDY_PAGE_PLOTS_H

#include "study/page/aggregate.h"
#include "study/page/figure.h"

/** Accuracy or perplexity of every setting against its size, with the Pareto line: panels for each
 * section. */
grail_status plot_tradeoff(const aggregate *a, figure *out) GRAIL_MUST_CHECK;

/** Accuracy or perplexity against size: a panel per selector, a line per variant. */
grail_status plot_accuracy(const aggregate *a, const section *s, figure *out) GRAIL_MUST_CHECK;

/** Gain over the plain cut against size: a panel per variant, a line per selector. */
grail_status plot_gain(const aggregate *a, const section *s, figure *out) GRAIL_MUST_CHECK;

/** Gain against the number of calibration samples, where it varies: a panel per selector. */
grail_status plot_samples(const aggregate *a, const section *s, figure *out) GRAIL_MUST_CHECK;

/** Relative error of every site before and after compensation: a panel per selector. */
grail_status plot_sites(const aggregate *a, const section *s, figure *out) GRAIL_MUST_CHECK;

/** Time by stage and peak memory of the variants. */
grail_status plot_cost(const aggregate *a, const section *s, figure *out) GRAIL_MUST_CHECK;

/** Accuracy with compensation against that without, of all sections: a panel per variant. */
grail_status plot_scatter(const aggregate *a, figure *out) GRAIL_MUST_CHECK;

#endif
