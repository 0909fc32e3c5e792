/* Decisions at a convolution in groups. The rows of a group read its own units alone, so where such
 * a consumer's statistics decide, each group is a problem of its own; beside other consumers its
 * blocks stand in matrices over all units. */
#ifndef GRAIL_REDUCE_GROUP_VIEWS_H
#define GRAIL_REDUCE_GROUP_VIEWS_H

#include "reduce/selector.h"

/** selector_choose, one group after the other where the view's statistics are of one consumer in
 * groups. *out is owned. */
grail_status group_views_choose(const selector *rule, const site_view *v,
                                grail_reducer **out) GRAIL_MUST_CHECK;

/** The rule's losses[n + 1], those of all groups together: with K units each of G groups keeps K /
 * G of its own. */
grail_status group_views_losses(const selector *rule, const site_view *v,
                                double *losses) GRAIL_MUST_CHECK;

#endif
