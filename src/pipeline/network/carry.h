/* Carries the sample streams from node to node. All statistics of samples are taken by the visitors
 * of these passes. They never see the samples that judge the result (request_judges_batch), which
 * are carried on without them. */
#ifndef GRAIL_PIPELINE_NETWORK_CARRY_H
#define GRAIL_PIPELINE_NETWORK_CARRY_H

#include "pipeline/network/network.h"

/** Called for each batch when the current network has run up to node `end`, and the dense one up to
 * `dense_end`. */
typedef grail_status (*batch_visitor)(calibration_network *network, int64_t batch, void *user);

/** Carries the current network's sample stream to node `end` and, unless dense_end is GRAPH_NONE,
 * the dense network's sample stream to dense_end, where it may be already or, behind a target
 * beyond dropped sublayers, further on; then it stays. visit may be NULL. */
grail_status streams_carry(calibration_network *network, int end, int dense_end,
                           batch_visitor visit, void *user) GRAIL_MUST_CHECK;

/** Called for each batch before a node runs, and with node_index == end when all have run. */
typedef grail_status (*node_visitor)(const execution *e, int64_t batch, int node_index, void *user);

/** Runs one network alone from where its sample stream waits up to node `end`, where the sample
 * stream waits afterwards if it `moves`. */
grail_status run_carry(const calibration_network *network, network_run *run, int end, bool moves,
                       node_visitor visit, void *user) GRAIL_MUST_CHECK;

/** Runs one network for one batch from where its sample stream waits, and goes on waiting, up to
 * node `end`; the values stay in run->execution. */
grail_status run_batch(const calibration_network *network, network_run *run, int64_t batch,
                       int end) GRAIL_MUST_CHECK;

#endif
