/* Takes the narrow parameters out of the calibration network. */
#ifndef GRAIL_PIPELINE_NETWORK_NARROW_H
#define GRAIL_PIPELINE_NETWORK_NARROW_H

#include "pipeline/network/network.h"

/** Whether a parameter's result differs from the checkpoint's bytes. */
bool parameter_is_changed(const calibration_network *network, int parameter);
/** The finished parameter with the shape of the narrowed graph, f32; *out is owned, even
 * after a failure. */
grail_status narrow_parameter(const calibration_network *network, int parameter,
                              float **out) GRAIL_MUST_CHECK;
/** All finished parameters, as a store whose parent is the dense one; *out is owned, even
 * after a failure. */
grail_status narrow_store(const calibration_network *network,
                          parameter_store **out) GRAIL_MUST_CHECK;

#endif
