/* Carries the sample streams from node to node. All statistics of samples are taken by the visitors
 * of these passes. They never see the samples that judge the result (request_judges_batch), which
 * are carried on without them.
 *
 * The sums of a chunk of batches are taken by themselves, its held-out batches behind the others,
 * and then added to those of the chunks before it (stats/chunk_sums.h). Several ranks take the
 * chunks in turns. Each holds the sample streams of its own alone, and has the sums of all after
 * the pass. */
#ifndef GRAIL_PIPELINE_NETWORK_CARRY_H
#define GRAIL_PIPELINE_NETWORK_CARRY_H

#include "pipeline/network/network.h"
#include "stats/chunk_sums.h"

/** What is taken of the batches of a pass. */
typedef struct sums_visitor {
    /* may be NULL: called once on every rank before all else, on rank 0 when the networks have run
     * for the first batch */
    grail_status (*begin)(calibration_network *network, void *user);
    /* called for each batch when the current network has run up to node `end`, and the dense one up
     * to `dense_end`; adds to the sums of the chunk */
    grail_status (*add)(calibration_network *network, int64_t batch, void *user);
    /* the sums that `add` adds to, for held-out batches or for the others */
    chunk_sums (*sums)(void *user, bool held_out);
    void *user;
} sums_visitor;

/** Carries the current network's sample stream to node `end` and, unless dense_end is GRAPH_NONE,
 * the dense network's sample stream to dense_end, where it may be already or, behind a target
 * beyond dropped sublayers, further on; then it stays. visitor may be NULL. */
grail_status streams_carry(calibration_network *network, int end, int dense_end,
                           const sums_visitor *visitor) GRAIL_MUST_CHECK;

/** *out[batch_count], owned, becomes the rank that holds the sample streams of each batch. */
grail_status streams_holders(const compression_request *request, int **out) GRAIL_MUST_CHECK;
/** *out[live_count], owned, becomes the columns of the values of a sample stream, which rank 0
 * tells to ranks without samples. */
grail_status stream_widths(const grail_comm *comm, const sample_stream *s,
                           int64_t **out) GRAIL_MUST_CHECK;

/** Called for each batch before a node runs, and with node_index == end when all have run. */
typedef grail_status (*node_visitor)(const execution *e, int64_t batch, int node_index, void *user);

/** Runs one network alone from where its sample stream waits up to node `end`, where the sample
 * stream waits afterwards if it `moves`. */
grail_status run_carry(const calibration_network *network, network_run *run, int end, bool moves,
                       node_visitor visit, void *user) GRAIL_MUST_CHECK;

/** Sums that a node_visitor takes, of a chunk and of all before it: for held-out batches or for the
 * others, which come first. */
typedef struct node_sums {
    int count;
    chunk_sums (*at)(void *user, int i, bool held_out); /* `user` is that of the visitor */
} node_sums;

/** As run_carry, with these sums over chunks of the samples, which ranks share out: each has all
 * sums after the pass. */
grail_status run_carry_sums(const calibration_network *network, network_run *run, int end,
                            bool moves, node_visitor visit, node_sums sums,
                            void *user) GRAIL_MUST_CHECK;

/** Runs one network for one batch from where its sample stream waits, and goes on waiting, up to
 * node `end`; the values stay in run->execution. */
grail_status run_batch(const calibration_network *network, network_run *run, int64_t batch,
                       int end) GRAIL_MUST_CHECK;

#endif
