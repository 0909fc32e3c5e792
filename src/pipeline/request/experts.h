/* Experts that a plan drops. A site of kind `experts` of n units keeps K; which ones is decided in
 * the run. From then on the kept ones stand in the places of the first K, in their order, and those
 * that go behind them: in the calibration network, whose dense side computes the same whatever
 * their order, as in the result. So what the plan says of the sites of expert e is said of the
 * result's. */
#ifndef GRAIL_PIPELINE_REQUEST_EXPERTS_H
#define GRAIL_PIPELINE_REQUEST_EXPERTS_H

#include "pipeline/request/cuts.h"

/** Marks the sites in experts that go as gone, which keep everything. Refuses fewer experts than
 * the router chooses for a row, experts that stay with different widths, and units that are named
 * of experts which are not known yet. */
grail_status experts_settle(const graph *g, const site_list *sites, plan *p) GRAIL_MUST_CHECK;

/** Whether the plan drops experts of any layer. */
bool plan_drops_experts(const site_list *sites, const plan *p);

/** What a node has to do with experts that a plan drops. */
typedef enum expert_part {
    EXPERT_NOT,      /* nothing */
    EXPERT_GOES,     /* it belongs to an expert that goes */
    EXPERT_STAYS,    /* to one that stays */
    EXPERT_MAKES_UP, /* the map that makes what such a one adds, which is fitted to what the layer
                        lacks without the others */
    EXPERT_PUTS      /* the node that adds it */
} expert_part;

/** parts[node_count], which begin as zeros. */
void experts_mark(const graph *g, const site_list *sites, const plan *p, expert_part *parts);

/** The cut site of experts that a node is part of; GRAPH_NONE otherwise. */
int experts_site_at(const graph *g, const site_list *sites, const plan *p, int node_index);

#endif
