/* Decides the reducer of a site, as soon as the data for it is there: the inputs of consumers, and
 * norms of what a producer reads. */
#ifndef GRAIL_PIPELINE_NETWORK_DECIDE_H
#define GRAIL_PIPELINE_NETWORK_DECIDE_H

#include "pipeline/network/observation.h"
#include "reduce/site_view.h"

/** A decision looks at the inputs of so many of a site's consumers, from the first on. */
int deciding_consumers(const cutting *cut, int site);

/** The node of the first producer whose rows score a site. */
int scored_node(const cutting *cut, int site);
/** How many features the input of that node has in the dense network. */
int64_t scored_input_width(const cutting *cut, int site);
/** What sites cut of these features. */
const cut_axis *scored_input_cut(const cutting *cut, int site);

/** Turns squares[width] of these features into norms (docs/numerics.md, Scores). */
void norms_of_squares(int64_t width, double *squares);
/** Zeroes those of the units of a segment that its reducer (NULL: none) removed; its features count
 * with `taps`. */
void norms_leave_out(const cut_axis *cut, int64_t taps, const grail_reducer *r, double *norms);

/** Gradients of the weights that read the sites of a block (regional.h). */
typedef struct regional_gradients {
    float **of; /* [count], of the graph's parameters; owned, NULL where not measured */
    int count;
} regional_gradients;

void regional_gradients_fini(regional_gradients *g); /* works on a zeroed one */
/** That of a consumer's weight; NULL where it was not measured. Borrowed until it is dropped. */
const float *regional_gradients_of(const regional_gradients *g, int parameter);

/** Called at the first producer. Takes *chosen, which may be NULL, if it was chosen before the walk
 * (open_loop.h); else decides the site, unless its selector needs statistics of a consumer's input.
 * The merged rows of a folding are appended. */
grail_status decide_at_producer(const cutting *cut, int site, sample_passes *passes,
                                grail_reducer **chosen, site_result *results) GRAIL_MUST_CHECK;

/** Called at the first consumer of a site that is still undecided: decides it from the finished
 * statistics, the block's gradients, and the metric of the consumer's output, which may be missing
 * (fisher.h). */
grail_status decide_at_consumer(const cutting *cut, const observation *o,
                                const sample_passes *passes, const regional_gradients *gradients,
                                matrix metric, site_result *results) GRAIL_MUST_CHECK;

/** Lets the selector of a site decide by what is `known`: the weights and the statistics that it
 * needs, and what computes; the rest of the view follows from the plan. *out is owned. */
grail_status decide_site(const cutting *cut, int site, const site_view *known,
                         grail_reducer **out) GRAIL_MUST_CHECK;

/** Makes a decision that of a site of this kind. Takes the reducer over. */
grail_status site_take_decision(site_result *result, site_kind kind,
                                grail_reducer *reducer) GRAIL_MUST_CHECK;

/** The weights of a store for a view of a site; borrowed from the store. */
weight_source weights_of_store(parameter_store *store);

#endif
