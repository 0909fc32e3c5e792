/* The merged units of a folded site, placed behind the units they were merged from. */
#ifndef GRAIL_PIPELINE_NETWORK_MERGED_ROWS_H
#define GRAIL_PIPELINE_NETWORK_MERGED_ROWS_H

#include "pipeline/network/network.h"

/** Sets the producers and channel parameters of a folded site in the current network to [rows |
 * merged rows]. */
grail_status site_append_merged(calibration_network *network, int site) GRAIL_MUST_CHECK;

#endif
