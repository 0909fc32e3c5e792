/* Branches that a router chooses for rows: the experts of a decoder's layer. */
#ifndef GRAIL_GRAPH_BRANCHES_H
#define GRAIL_GRAPH_BRANCHES_H

#include "graph/graph.h"

/** Branch b takes the rows in which output b of the router has a share, nodes begin + b * length
 * and on, and adds what it makes of them to the sum that the branches before it made. All are
 * alike: nodes of the same kinds, parameters of the same shapes, and they read the router's input.
 */
typedef struct branch_list {
    int router; /* the node that makes the scores */
    int route;  /* the node that makes the shares */
    int begin;  /* the first node of the first branch */
    int length; /* nodes of each */
    int count;
} branch_list;

/** Whether a node is the router of two or more such branches, whose scores and weight nothing else
 * reads. */
bool branches_of_router(const graph *g, int router, branch_list *out);

/** The node before branch b's rows are put back, which makes what is put. */
int branch_last(const graph *g, const branch_list *list, int64_t branch);
/** The node that puts them back. */
int branch_put(const branch_list *list, int64_t branch);
/** The values that the branches read, and that the first one adds to. */
int branches_input(const graph *g, const branch_list *list);
int branches_sum(const graph *g, const branch_list *list);
/** The branch that a node belongs to, or GRAPH_NONE. */
int64_t branch_at(const branch_list *list, int node_index);
/** The parameters of one branch: weights and biases. */
int64_t branch_elements(const graph *g, const branch_list *list);

/** Takes the branches from `kept` on out of the graph; the router keeps its shape. */
grail_status branches_drop(graph *g, const branch_list *list, int64_t kept) GRAIL_MUST_CHECK;

#endif
