/* Decides the reducer of a site, as soon as the data for it is there: the inputs of consumers, and
 * norms of what a producer reads. */
#ifndef GRAIL_PIPELINE_NETWORK_DECIDE_H
#define GRAIL_PIPELINE_NETWORK_DECIDE_H

#include "pipeline/network/network.h"
#include "pipeline/network/observation.h"
#include "reduce/input_statistics.h"

/** A decision looks at the inputs of so many of a site's consumers, from the first on. */
int deciding_consumers(const compression_request *request, int site);

/** The producers whose rows score a site: the first of them, and how many. Norms of inputs are
 * those of the first one's, so `by_norms` there is but one. */
typedef struct scored_producers {
    int first, count;
} scored_producers;

/** The node of the first of them. */
int scored_node(const compression_request *request, int site);
/** How many features its input has in the dense network. */
int64_t scored_input_width(const compression_request *request, int site);
/** The site whose units these features are, GRAPH_NONE: they are not cut. */
int scored_input_site(const compression_request *request, int site);

/** Turns squares[width] of these features into norms (docs/numerics.md, Scores): 0 for those of
 * units that `reducer` removed, which may be NULL. */
void norms_of_squares(const grail_reducer *reducer, int64_t width, double *squares);

/** Called at the first producer. Takes what was chosen before the walk (open_loop.h); else
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

/** Decides which experts of a layer stay (request/experts.h), in the pass before its router is met.
 */
grail_status experts_decide(calibration_network *network, int site) GRAIL_MUST_CHECK;

/** Puts the experts of a decided site that stay before the others, in both networks. */
grail_status experts_take_places(calibration_network *network, int site) GRAIL_MUST_CHECK;

#endif
