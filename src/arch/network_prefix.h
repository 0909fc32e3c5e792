/* Where among the tensors of a checkpoint a network lies: behind which prefix of their names. */
#ifndef GRAIL_ARCH_NETWORK_PREFIX_H
#define GRAIL_ARCH_NETWORK_PREFIX_H

#include "arch/architecture.h"

/** Sets the prefix of `weights` (checkpoint_set_prefix with base "") to the one behind which most
 * of the tensors lie that a network of the family `a` needs; "" where nothing shows one. *found
 * tells how many. Two complete networks are GRAIL_ERROR_UNSUPPORTED; the message names both
 * prefixes. A family without anchors leaves the prefix as it is. */
grail_status network_prefix_of_family(const architecture *a, checkpoint *weights,
                                      recognition *found) GRAIL_MUST_CHECK;

/** The same for a graph whose names begin with `base`. */
grail_status network_prefix_of_graph(const graph *g, const char *base,
                                     checkpoint *weights) GRAIL_MUST_CHECK;

#endif
