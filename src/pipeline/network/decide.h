/* Decides the reducer of a site, as soon as the data for it is there. */
#ifndef GRAIL_PIPELINE_NETWORK_DECIDE_H
#define GRAIL_PIPELINE_NETWORK_DECIDE_H

#include "pipeline/network/observation.h"

/** Called at the first producer. Decides the site unless its selector needs statistics of a
 * consumer's input. The merged rows of a folding are appended. */
grail_status decide_at_producer(calibration_network *network, int site) GRAIL_MUST_CHECK;

/** Called at the first consumer of a site that is still undecided: decides it from the finished
 * statistics. */
grail_status decide_at_consumer(calibration_network *network,
                                const observation *o) GRAIL_MUST_CHECK;

/** The dense weights for a view of a site; borrowed from the store. */
weight_source weights_of_store(parameter_store *store);

#endif
