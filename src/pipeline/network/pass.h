/* One pass of the samples through the networks. Statistics of samples are taken by visitors of
 * passes alone. These never see the samples that judge the result (request_judges_batch), which are
 * carried on without them; a judgement sees no others.
 *
 * The sums of a chunk of batches are taken by themselves, its held-out batches behind the others,
 * and then added to those of the chunks before it (stats/chunk_sums.h). Several ranks take the
 * chunks in turns. Each holds the sample streams of its own alone, and has the sums of all after
 * the pass. */
#ifndef GRAIL_PIPELINE_NETWORK_PASS_H
#define GRAIL_PIPELINE_NETWORK_PASS_H

#include "pipeline/network/network.h"
#include "stats/chunk_sums.h"

/** What is taken of each batch of a pass. */
typedef struct visitor {
    int node; /* before which `add` is called; the pass's end: when both networks have run */
    /* `e` runs the pass's network; adds to the sums of the chunk */
    grail_status (*add)(calibration_network *network, const execution *e, void *user);
    /* those sums, for held-out batches or for the others; NULL: nothing is summed */
    chunk_sums (*sums)(void *user, bool held_out);
    /* NULL, or called once on every rank before all else, on rank 0 when the networks have run for
     * the first batch; of visitors at the end alone */
    grail_status (*begin)(calibration_network *network, void *user);
    void *user;
    const char *map; /* whose input it sees, for messages of errors; or NULL */
} visitor;

typedef struct pass {
    network_run *run; /* NULL: the current network, whose sample stream moves inside a block only
                         where activations are kept */
    int end;          /* the node before which the run's sample stream waits afterwards */
    bool stays;       /* it waits where it was */
    bool in_order;    /* held-out batches are not behind the others: sums have one part */
    bool judges;      /* visitors see the samples that judge, and no others */
    bool with_dense;  /* the dense network runs beside the current one, up to `dense_end`; where its
                         sample stream is there or further on, behind a target beyond dropped
                         sublayers, it stays */
    int dense_end;
    const visitor *visitors; /* [visitor_count], borrowed */
    int visitor_count;
} pass;

/** Runs a pass; one that moves no sample stream and has no visitors does nothing. */
grail_status pass_run(calibration_network *network, const pass *p) GRAIL_MUST_CHECK;

/** Moves the current network's sample stream to node `end`, and unless dense_end is GRAPH_NONE the
 * dense network's to dense_end. */
grail_status pass_to(calibration_network *network, int end, int dense_end) GRAIL_MUST_CHECK;

/** One visitor at the end of such a pass. */
grail_status pass_visit(calibration_network *network, int end, int dense_end,
                        visitor v) GRAIL_MUST_CHECK;

/** *out[batch_count], owned, becomes the rank that holds the sample streams of each batch. */
grail_status streams_holders(const calibration *c, const grail_comm *comm,
                             int **out) GRAIL_MUST_CHECK;
/** *out[live_count], owned, becomes the columns of the values of a sample stream, which rank 0
 * tells to ranks without samples. */
grail_status stream_widths(const grail_comm *comm, const sample_stream *s,
                           int64_t **out) GRAIL_MUST_CHECK;

#endif
