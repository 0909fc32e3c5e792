/* What a plan cuts: sites, and the rows and columns of parameters that belong to them. */
#ifndef GRAIL_PIPELINE_REQUEST_CUTS_H
#define GRAIL_PIPELINE_REQUEST_CUTS_H

#include "reduce/plan.h"

/** Whether some units of a site go, but not all. */
bool site_is_cut(const plan *p, int site);
/** Whether all units go, and with them the sublayer around the site (graph/sublayer.h). */
bool site_is_dropped(const plan *p, int site);
/** Whether any unit of any site goes. */
bool anything_is_cut(const plan *p);

/** The statistics that a site's decision needs, a set of selector_need. Where the plan names the
 * units that stay, these are only the gradients of a regional training. */
unsigned site_decision_needs(const plan *p, int index, const site *s);

/** Whether the decision needs statistics of the dense network and no other, so that it can be made
 * before the walk. */
bool site_is_chosen_openly(const plan *p, int index, const site *s);

/** Whether maps that are not cut are fitted where the stream drifts. */
bool plan_refits(const plan *p);

/** Whether the units of a cut site that are left stand behind the dense ones in the calibration
 * network, since they make other values: those of a folding, and those that a norm runs over. */
bool site_is_remade(const plan *p, int site);

/** Units on a cut site's axis in the calibration network: n, or n + K where they are remade. */
int64_t site_wide_units(const plan *p, int site);

/** The axis that a site cuts in a parameter. */
typedef struct cut_axis {
    int site;         /* GRAPH_NONE: not cut */
    int64_t features; /* rows or columns per unit; columns of a convolution include its taps */
    bool exchangeable;
} cut_axis;

typedef struct parameter_cut {
    cut_axis rows, columns;
} parameter_cut;

/** The axes that the plan cuts; *out is [parameter_count], owned. */
grail_status cuts_map(const graph *g, const site_list *sites, const plan *p,
                      parameter_cut **out) GRAIL_MUST_CHECK;

/** What is cut: the sites of a graph, what a plan does to them, and the axes that it cuts.
 * Borrowed.
 */
typedef struct cutting {
    const graph *graph; /* of the dense network */
    const site_list *sites;
    const plan *plan;
    const parameter_cut *axes; /* [parameter_count] */
} cutting;

const site *cut_site(const cutting *cut, int index);

/** Whether a site takes its narrow shapes as soon as its last consumer is set
 * (network/narrow.h). */
bool site_narrows_in_walk(const cutting *cut, int index);

/** Whether a node is a norm over all of a width that is cut. */
bool node_is_rescaled(const parameter_cut *cuts, const node *n);

/** How many features a cut axis has in the calibration network: n u, or (n + K) u. */
int64_t cut_wide_features(const plan *p, const cut_axis *axis);

#endif
