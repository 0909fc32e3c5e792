/* The whole sublayers that a plan drops. */
#ifndef GRAIL_PIPELINE_REQUEST_DROPPED_H
#define GRAIL_PIPELINE_REQUEST_DROPPED_H

#include "arch/model.h"
#include "graph/sublayer.h"
#include "pipeline/request/cuts.h"

/** Refuses sites that keep no unit where there is no sublayer to drop, networks whose checkpoints
 * cannot describe the result, and a plan that leaves none. */
grail_status dropped_check(const grail_model *model, const site_list *sites,
                           const plan *p) GRAIL_MUST_CHECK;

/** Sites inside a sublayer that the plan drops keep everything: they go with it. */
void dropped_settle(const graph *g, const site_list *sites, plan *p);

/** Takes the sublayers and experts that the plan drops out of a graph `g` of the model, whose graph
 * is `dense`. */
grail_status dropped_take_out(const graph *dense, const site_list *sites, const plan *p,
                              graph *g) GRAIL_MUST_CHECK;

/** The residual stream behind the dropped sublayers that follow a consumer: what the sum of its
 * output and the stream should come to. */
typedef struct stream_goal {
    int value; /* GRAPH_NONE: no dropped sublayer follows, or not at once */
    int end;   /* the node behind the one that makes it */
} stream_goal;
stream_goal dropped_goal_of(const graph *g, const site_list *sites, const plan *p, int consumer);

/** Sets nodes[node_count] to true where a node belongs to a dropped sublayer. */
void dropped_mark(const graph *g, const site_list *sites, const plan *p, bool *nodes);

/** numbers[block_count]: the number of each block in the narrowed network, which leaves out blocks
 * without nodes; GRAPH_NONE for these. Returns how many are left. */
int dropped_number_blocks(const graph *narrowed, int *numbers);

#endif
