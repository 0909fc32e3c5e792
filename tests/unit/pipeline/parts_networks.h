/* Networks whose values have parts: branches side by side, slices that go their own ways, and fused
 * maps; streams that zeros make wider; and ones whose windows move along each axis in a way of its
 * own, or convolve in groups. They are of a family of these tests alone, which reads shapes from
 * the tensors and runs of channels from the configuration. A program that links it wraps
 * architecture_find. */
#ifndef GRAIL_TESTS_PARTS_NETWORKS_H
#define GRAIL_TESTS_PARTS_NETWORKS_H

#include "vision_sites.h"

enum { PARTS_NETWORKS = 7, HEAD_DIM = 4 };
extern const char *const parts_networks[PARTS_NETWORKS];
enum { WIDTH = 12, INNER = 10 };
enum { GROUPS = 3, GROUP_IN = 4, GROUP_OUT = 6 };

/** Random weights of one of these networks, or of another that build_net knows; vision_fini. */
void parts_make(vision_model *m, const char *net);
/** Writes it, and gives the path. */
const char *parts_written(const vision_lab *v, const char *net);

#endif
