/* The scores of wanda++, which its tests look at. */
#ifndef GRAIL_REDUCE_WANDA_PLUS_H
#define GRAIL_REDUCE_WANDA_PLUS_H

#include "reduce/site_view.h"

/** scores[n]: the sum over a unit's features j of (1/O) sum_o (100 G_oj + ||X_:,j||_2) |W_oj|, of
 * the first consumer; the view has its diagonal and gradients. */
grail_status wanda_plus_scores(const site_view *v, double *scores) GRAIL_MUST_CHECK;

#endif
