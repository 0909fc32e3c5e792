/* Refits: maps that were not cut, fitted again because the stream that they read has drifted from
 * the dense network's (docs/numerics.md, Refit of what reads the drifting stream). */
#ifndef GRAIL_PIPELINE_NETWORK_REFITS_H
#define GRAIL_PIPELINE_NETWORK_REFITS_H

#include "pipeline/request/cuts.h"

#include <grail/compress.h>

typedef struct refit {
    int block;
    grail_fit fit; /* `consumer` is the name of the map's weight */
} refit;

typedef struct refit_list {
    bool *wanted; /* [node_count]: maps to be refitted, those of paused blocks included */
    bool *needed; /* [node_count]: of these, those that make up for a dropped sublayer or
                     dropped experts */
    bool pauses;  /* blocks are left out where refits gain little: refits_due */
    refit *made;  /* [count], in the order in which they were made */
    int count;
    int done; /* maps before this node are refitted */
} refit_list;

/** Finds the maps that the plan wants refitted, where rounding makes everything drift or cuts do:
 * Linears and convolutions in blocks that read what a cut site's consumer or a dropped sublayer
 * changed, or that are added to the stream before a dropped sublayer, whose input is not cut and
 * whose weight no other node shares; and whatever is refitted, what experts that stay make where
 * others are dropped. */
grail_status refits_init(const cutting *cut, bool drifts_by_rounding,
                         refit_list *out) GRAIL_MUST_CHECK;
void refits_fini(refit_list *list); /* works on a zeroed one */

grail_status refits_add(refit_list *list, int block, const grail_fit *fit) GRAIL_MUST_CHECK;

/**
 * Whether this wanted map of the block is refitted. With `pauses`, after k >= 2 blocks running
 * whose refits lowered the sum of their held-out errors by less than a fiftieth, the next 2^(k-1)
 * blocks are left out: one more block is tried then. Follows from the refits that were made alone,
 * so that a run that is continued decides alike.
 */
bool refits_due(const refit_list *list, int node_index, int block);

#endif
