/* Decisions at a convolution in groups. The rows of a group read its own units alone, so where such
 * a consumer's statistics decide, each group is a problem of its own; beside other consumers its
 * blocks stand in matrices over all units. */
#ifndef GRAIL_REDUCE_GROUP_VIEWS_H
#define GRAIL_REDUCE_GROUP_VIEWS_H

#include "reduce/selector.h"

/** How many problems the view's statistics make; 1 of most. With several consumers there is but
 * one, for which group_views_join prepares the statistics. */
int64_t group_views_count(const site_view *v);

/** selector_choose, one group after the other. *out is owned. */
grail_status group_views_choose(const selector *rule, const site_view *v, int64_t groups,
                                grail_reducer **out) GRAIL_MUST_CHECK;

/** The rule's losses[n + 1], those of all groups together: with K units each of G groups keeps K /
 * G of its own. */
grail_status group_views_losses(const selector *rule, const site_view *v,
                                double *losses) GRAIL_MUST_CHECK;

/** Spreads the blocks of all inputs over matrices of all features, with zeros elsewhere. */
grail_status group_views_join(const site_view *v) GRAIL_MUST_CHECK;

#endif
