/* How the variants and selectors are drawn and called, the same in every plot. */
#ifndef GRAIL_REPORT_SERIES_H
#define GRAIL_REPORT_SERIES_H

#include "report/results.h"
#include "report/svg.h"

const series_style *variant_style(variant v);
/** "grail + REPAIR" */
const char *variant_label(variant v);

/** By index into results.selectors; styles repeat beyond the eighth. */
const series_style *selector_style(int selector);

#endif
