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
/** Whether gradients of the loss choose units of FFNs better than plain errors do: of language
 * models (docs/results/llm.md), not of networks of images (docs/results/vision.md). Not of experts,
 * where a metric for each would take more memory than they do. */
bool gradients_choose_better(const graph *g);
/** Whether a metric is measured for decisions about sites of this kind. */
bool metric_measures(metric_kind metric, bool auto_is_fisher, const selector *rule, site_kind kind);
/** Whether a decision would measure errors by a metric at the first consumer's output; that of a
 * residual stream, which many read, never does. */
bool site_has_metric(const plan *p, int index, const site *s);
/** Whether the site's decision does. */
bool site_takes_metric(const plan *p, int index, const site *s);

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

/** What a site cuts of an axis of a parameter, or of the channels of a value: all of its units, one
 * after the other. Other sites may cut other segments of the same axis. */
typedef struct cut_axis {
    int site;              /* GRAPH_NONE: not cut */
    int64_t first;         /* of the dense axis, where unit 0 begins */
    int64_t features;      /* rows or columns per unit; columns of a convolution include its taps */
    int64_t groups;        /* of columns that belong to one of so many equal runs of units each, as
                              rows of a convolution in groups have; 0 counts as 1 */
    struct cut_axis *next; /* the next segment that is cut, NULL; they are in ascending order */
} cut_axis;

typedef struct parameter_cut {
    cut_axis rows, columns;
} parameter_cut;

/** The axes that the plan cuts; *out is [parameter_count], owned, and behind it what values have
 * (cut_of_value). */
grail_status cuts_map(const graph *g, const site_list *sites, const plan *p,
                      parameter_cut **out) GRAIL_MUST_CHECK;

/** What is cut: the sites of a graph, what a plan does to them, and the axes that it cuts.
 * Borrowed.
 */
typedef struct cutting {
    const graph *graph; /* of the dense network */
    const site_list *sites;
    const plan *plan;
    const parameter_cut *axes; /* of cuts_map */
} cutting;

const site *cut_site(const cutting *cut, int index);
/** Whether any site's decision takes a metric. */
bool cuts_take_metric(const cutting *cut);

/** Whether a site takes its narrow shapes as soon as its last consumer is set
 * (network/narrow.h). */
bool site_narrows_in_walk(const cutting *cut, int index);

/** Whether a node is a norm over all of a width that is cut. */
bool node_is_rescaled(const parameter_cut *cuts, const node *n);

/** The channels of a value that are cut. */
const cut_axis *cut_of_value(const graph *g, const parameter_cut *cuts, int value);

/** How many runs of units its columns belong to; 1 of most. */
int64_t axis_groups(const cut_axis *axis);

/** The segment of an axis that a site cuts, the first one if it cuts several; NULL: none. */
const cut_axis *cut_by_site(const cut_axis *axis, int site);

/** Where what begins at feature `at` of the dense axis begins in the calibration network, in which
 * a segment has n u or (n + K) u features, and in the narrowed network. For the size of the dense
 * axis this is its size there. */
int64_t cut_wide_place(const plan *p, const cut_axis *axis, int64_t at);
int64_t cut_narrow_place(const plan *p, const cut_axis *axis, int64_t at);

/** Whether a convolution in groups passes on whole groups of a site: what it reads and what it
 * makes is cut with it, and no column of its own. */
bool node_passes_groups(const graph *dense, const parameter_cut *cuts, const node *n);

/** Makes the slices, zeros and numbers of groups of nodes[node_count] those of the calibration
 * network, or of the narrowed one. */
void cuts_place_nodes(const graph *dense, const parameter_cut *cuts, const plan *p, bool narrow,
                      node *nodes);

#endif
