/* How the variants and selectors are drawn and called, the same in every plot: a colour means a
 * variant, a marker a selector. */
#ifndef GRAIL_STUDY_PAGE_SERIES_H
#define GRAIL_STUDY_PAGE_SERIES_H

#include "study/page/svg.h"
#include "study/results/results.h"

/** Colour and dashes of a variant; it has no marker. */
const series_style *variant_style(variant v);
/** "grail + REPAIR", "full + heal model" */
const char *variant_label(variant v);

/** The marker of a selector, by its index into results.selectors; markers repeat beyond the
 * eighth. */
const series_style *selector_style(int selector);

/** Colour and dashes of the variant, marker of the selector. */
series_style setting_style(int selector, variant v);

#endif
