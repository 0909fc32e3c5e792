/* Rounds matrices of a run's result to what they will be stored as, with error feedback. */
#ifndef GRAIL_PIPELINE_NETWORK_ROUND_MAPS_H
#define GRAIL_PIPELINE_NETWORK_ROUND_MAPS_H

#include "pipeline/network/network.h"

/** Whether the matrix of a node is rounded in the result. */
bool node_is_rounded(const compression_request *request, int node_index);

/** Rounds those of `count` Linears from node `first` on that are: they read one value, and are
 * fitted. The current network computes with what they become, which network->rounded keeps. */
grail_status round_maps(calibration_network *network, int first, int count) GRAIL_MUST_CHECK;

/** Rounds a matrix that other nodes than Linears read, by itself; likewise. */
grail_status round_table(calibration_network *network, int parameter) GRAIL_MUST_CHECK;

#endif
