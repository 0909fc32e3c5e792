/* Decides the reducer of a site, as soon as the data for it is there. */
#ifndef GRAIL_PIPELINE_NETWORK_DECIDE_H
#define GRAIL_PIPELINE_NETWORK_DECIDE_H

#include "pipeline/network/observation.h"

/** Called at the first producer. Takes what was chosen before the walk (open_choice.h); else
 * decides the site, unless its selector needs statistics of a consumer's input. The merged rows of
 * a folding are appended. */
grail_status decide_at_producer(calibration_network *network, int site) GRAIL_MUST_CHECK;

/** Called at the first consumer of a site that is still undecided: decides it from the finished
 * statistics. */
grail_status decide_at_consumer(calibration_network *network,
                                const observation *o) GRAIL_MUST_CHECK;

/** Lets the selector of a site decide by what is `known`: the weights and the statistics that it
 * needs; the rest of the view follows from the plan. *out is owned. */
grail_status decide_site(calibration_network *network, int site, const site_view *known,
                         grail_reducer **out) GRAIL_MUST_CHECK;

/** Makes a decision that of the site. Takes the reducer over. */
grail_status site_take_decision(calibration_network *network, int site,
                                grail_reducer *reducer) GRAIL_MUST_CHECK;

/** The weights of a store for a view of a site; borrowed from the store. */
weight_source weights_of_store(parameter_store *store);

#endif
