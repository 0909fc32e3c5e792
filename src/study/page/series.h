/* How the variants and selectors are drawn and called, the same in every plot. */
#ifndef GRAIL_STUDY_PAGE_SERIES_H
#define GRAIL_STUDY_PAGE_SERIES_H

#include "study/page/svg.h"
#include "study/results/results.h"

const series_style *variant_style(variant v);
/** "grail + REPAIR", "full + heal model" */
const char *variant_label(variant v);

/** The style of a selector, by its index into results.selectors; styles repeat beyond the
 * eighth. */
const series_style *selector_style(int selector);

#endif
