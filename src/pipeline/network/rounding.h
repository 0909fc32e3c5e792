/* Rounds the matrices of a network from its first node to its last, each by what it reads on the
 * sample stream of the network rounded so far, and writes them. */
#ifndef GRAIL_PIPELINE_NETWORK_ROUNDING_H
#define GRAIL_PIPELINE_NETWORK_ROUNDING_H

#include "arch/gguf_export.h"
#include "pipeline/network/network.h"
#include "solve/feedback.h"

/** Tables that other nodes than Linears read are rounded by themselves; so is what the file holds
 * in types without blocks. */
grail_status rounding_run(calibration_network *network, gguf_export *file) GRAIL_MUST_CHECK;

/** What rounds the Linears that read the input of node `first` in the current network. The sample
 * stream is carried there. The caller calls feedback_fini, even after a failure. */
grail_status rounding_feedback(calibration_network *network, int first,
                               feedback *out) GRAIL_MUST_CHECK;

#endif
