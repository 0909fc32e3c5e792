/* Refits: maps that were not cut, fitted again because the stream that they read has drifted from
 * the dense network's (docs/numerics.md, Refit of what reads the drifting stream). */
#ifndef GRAIL_PIPELINE_NETWORK_REFITS_H
#define GRAIL_PIPELINE_NETWORK_REFITS_H

#include "pipeline/request/request.h"

typedef struct refit {
    int block;
    grail_fit fit; /* `consumer` is the name of the map's weight */
} refit;

typedef struct refit_list {
    bool *wanted; /* [node_count]: maps to be refitted */
    refit *made;  /* [count], in the order in which they were made */
    int count;
    int done; /* maps before this node are refitted */
} refit_list;

/** Finds the maps that the plan wants refitted: Linears and convolutions in blocks that read what a
 * cut site's consumer or a dropped sublayer changed, or that are added to the stream before a
 * dropped sublayer, whose input is not cut and whose weight no other node shares. */
grail_status refits_init(const compression_request *request, refit_list *out) GRAIL_MUST_CHECK;
void refits_fini(refit_list *list); /* works on a zeroed one */

grail_status refits_add(refit_list *list, int block, const grail_fit *fit) GRAIL_MUST_CHECK;

#endif
