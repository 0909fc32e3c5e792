/* Dropping experts of a layer (request/experts.h): which ones stay, and their new places. */
#ifndef GRAIL_PIPELINE_NETWORK_DROP_EXPERTS_H
#define GRAIL_PIPELINE_NETWORK_DROP_EXPERTS_H

#include "pipeline/network/network.h"

/** Decides a site of experts, in the pass before its router is met. */
grail_status experts_decide(calibration_network *network, int site) GRAIL_MUST_CHECK;

/** Puts the experts of a decided site that stay before the others, in both networks. */
grail_status experts_take_places(calibration_network *network, int site) GRAIL_MUST_CHECK;

#endif
