/* A compression run: what was asked, the network that is narrowed, and the output. */
#ifndef GRAIL_PIPELINE_COMPRESSION_H
#define GRAIL_PIPELINE_COMPRESSION_H

#include "base/clock.h"
#include "pipeline/network/network.h"
#include "pipeline/output/output.h"
#include "pipeline/request/request.h"
#include "solve/ridge.h"

struct grail_compression {
    compression_request *request;
    calibration_network *network;
    narrow_output *output; /* NULL: the result stays in memory */
};

/* -- score_site.c --------------------------------------------------------------------------------
 */

/** Whether the site's selector looks at the producers' rows (channels, plain neurons), not at the
 * consumer's columns. */
bool site_scores_rows(const grail_compression *c, int site);
/** From the producers' rows; norms[width of the first producer's input] of its features, or NULL.
 */
grail_status site_select_by_rows(grail_compression *c, int site, const double *norms,
                                 grail_reducer **out) GRAIL_MUST_CHECK;
/** From the first consumer's columns; gram_diagonal may be NULL where the selector needs none. */
grail_status site_select_by_columns(grail_compression *c, int site, const double *gram_diagonal,
                                    grail_reducer **out) GRAIL_MUST_CHECK;

/* -- fold_site.c ---------------------------------------------------------------------------------
 */

/** Decides a folding from the dense weights. */
grail_status site_fold(grail_compression *c, int site, grail_reducer **out) GRAIL_MUST_CHECK;
/** Sets the producers and channel parameters of a folded site in `current`: [rows | merged rows].
 */
grail_status site_append_merged(grail_compression *c, int site) GRAIL_MUST_CHECK;

/* -- consumer.c ----------------------------------------------------------------------------------
 */

/** A consumer's weight as the regression sees it, [outputs, features]: features are those of the
 * input in order, with `taps` columns each when every tap is fitted for itself; else a
 * convolution's taps are `tap_rows` outputs of one row each. */
typedef struct consumer_layout {
    int64_t rows;     /* of the weight in the calibration network */
    int64_t features; /* of its input before reduction: n u */
    int64_t taps, tap_rows;
} consumer_layout;

consumer_layout consumer_layout_of(const grail_compression *c, int site, int consumer);
/** W[rows * tap_rows, features * taps] of a consumer not yet reduced; *out is owned. */
grail_status consumer_read(grail_compression *c, int site, int consumer,
                           float **out) GRAIL_MUST_CHECK;
/** W0 likewise with the kept units: the consumer narrowed without data; *out is owned. */
grail_status consumer_merge(const grail_compression *c, int site, int consumer, const float *weight,
                            float **out) GRAIL_MUST_CHECK;
/** Sets the consumer's weight from narrow [rows * tap_rows, K u taps], zero elsewhere, and when not
 * NULL adds bias_change[rows * tap_rows] to its bias slot. */
grail_status consumer_set(grail_compression *c, int site, int consumer, const float *narrow,
                          const double *bias_change) GRAIL_MUST_CHECK;

/** The same from a narrow weight as it is stored, [rows, K u, taps]. */
grail_status consumer_restore(grail_compression *c, int site, int consumer,
                              const float *narrow) GRAIL_MUST_CHECK;

/* -- carry.c -------------------------------------------------------------------------------------
 */

/** Told of each batch when the current execution stands before node `end` (and the dense one before
 * dense_end). */
typedef grail_status (*batch_visitor)(grail_compression *c, int64_t batch, void *user);

/** Carries the stream to node `end`, and when dense_end is not GRAPH_NONE the dense stream to
 * there. visit may be NULL. */
grail_status streams_carry(grail_compression *c, int end, int dense_end, batch_visitor visit,
                           void *user) GRAIL_MUST_CHECK;

/* -- observe.c -----------------------------------------------------------------------------------
 */

typedef struct observation {
    int site, consumer;
    int node;
    bool folds;
    consumer_layout layout;
    int64_t unreduced;            /* features in front of the folded ones in the input's columns */
    float *weight;                /* W in the layout, owned */
    void *target_weight;          /* elements: what makes the target from patches or rows; owned */
    grail_statistics *fit, *held; /* owned */
} observation;

/** Allocates statistics. A folding's reducer must be decided. observation_fini frees. */
grail_status observation_init(grail_compression *c, int site, int consumer,
                              observation *o) GRAIL_MUST_CHECK;
void observation_fini(observation *o);
/** A batch_visitor with an observation: the current execution stands before the consumer, and for a
 * dense target the dense one where observation_dense_end says. */
grail_status observation_add(grail_compression *c, int64_t batch, void *user) GRAIL_MUST_CHECK;
int observation_dense_end(const grail_compression *c, const observation *o);

/** The dense network's statistics at a consumer, for the open loop: its Gram alone. */
grail_status observation_init_input(grail_compression *c, int site, int consumer,
                                    observation *o) GRAIL_MUST_CHECK;
grail_status observation_add_input(grail_compression *c, observation *o, const execution *e,
                                   int64_t batch) GRAIL_MUST_CHECK;

/* -- open_loop.c ---------------------------------------------------------------------------------
 */

/** One pass of the dense network: statistics at every consumer of a cut site and the norms that
 * selectors ask for, into the session. */
grail_status open_loop_collect(grail_compression *c) GRAIL_MUST_CHECK;

/* -- site_result.c -------------------------------------------------------------------------------
 */

/** Adds the fit of a consumer to the site's report. */
grail_status site_result_add_fit(grail_compression *c, int site, int consumer,
                                 const ridge_result *fit, bool bias) GRAIL_MUST_CHECK;
/** JSON of one site's report, with the kept units or labels. *out is owned. */
grail_status site_result_to_json(const grail_compression *c, int site,
                                 json_t **out) GRAIL_MUST_CHECK;
/** The reverse: fills the site's result from a record. */
grail_status site_result_restore(grail_compression *c, int site,
                                 const json_t *object) GRAIL_MUST_CHECK;
void site_result_fini(site_result *result);

/* -- compensate.c --------------------------------------------------------------------------------
 */

/** From the finished statistics: choose the reducer where it needs them, solve, set the consumer.
 */
grail_status compensate_consumer(grail_compression *c, observation *o) GRAIL_MUST_CHECK;
/** Without statistics: the consumer narrowed as it is. */
grail_status narrow_consumer_plainly(grail_compression *c, int site, int consumer) GRAIL_MUST_CHECK;

/* -- repair.c ------------------------------------------------------------------------------------
 */

/** REPAIR of one BatchNorm: its mean and variance over the calibration samples as the network is
 * now. The stream is carried to the node. */
grail_status repair_batch_norm(grail_compression *c, int node) GRAIL_MUST_CHECK;

/* -- walk.c --------------------------------------------------------------------------------------
 */

/** Observes, reduces, compensates and advances one block (GRAPH_NONE: what precedes block 0;
 * block_count: what follows). With a replayed block the decisions are in network->results and
 * `recorded` holds the narrow tensors. */
grail_status compress_block(grail_compression *c, int block,
                            const checkpoint *recorded) GRAIL_MUST_CHECK;
/** REPAIR of all BatchNorms, where the plan asks for it, in a walk of its own after an open loop.
 */
grail_status repair_network(grail_compression *c) GRAIL_MUST_CHECK;
/** Tells the observer of a site, or with `report` NULL that a block is finished; its wish to cancel
 * is GRAIL_ERROR_CANCELLED. */
grail_status tell_observer(grail_compression *c, int block,
                           const grail_site_report *report) GRAIL_MUST_CHECK;

/* -- narrow.c ------------------------------------------------------------------------------------
 */

/** Whether a parameter's result differs from the checkpoint's bytes. */
bool parameter_is_changed(const grail_compression *c, int parameter);
/** The finished parameter with the shape of request->narrowed, f32; *out is owned. */
grail_status narrow_parameter(grail_compression *c, int parameter, float **out) GRAIL_MUST_CHECK;
/** The reverse for a recorded consumer of a site: puts narrow values back into `current`. */
grail_status widen_consumer(grail_compression *c, int site, int consumer,
                            const checkpoint *recorded) GRAIL_MUST_CHECK;
/** All finished parameters as a store over the dense one; *out is owned. */
grail_status narrow_store(grail_compression *c, parameter_store **out) GRAIL_MUST_CHECK;

/* -- output.c ------------------------------------------------------------------------------------
 */

/** Opens the writer in OUTPUT.partial. */
grail_status open_output(grail_compression *c, bool resume) GRAIL_MUST_CHECK;
/** Writes the tensors of one block, or with GRAPH_NONE those outside all blocks. */
grail_status write_block(grail_compression *c, int block) GRAIL_MUST_CHECK;
/** config.json, tokenizer and generation files, plan.json. */
grail_status write_companions(grail_compression *c) GRAIL_MUST_CHECK;

/* -- fingerprint.c -------------------------------------------------------------------------------
 */

/** Everything that decides the bytes of this run: files, configuration, plan, calibration, backend,
 * threads. *out is owned. */
grail_status fingerprint_of_run(const grail_compression *c, json_t **out) GRAIL_MUST_CHECK;
/** GRAIL_ERROR_ARGUMENT names the first value in which this run differs from `then`. */
grail_status fingerprint_compare(const grail_compression *c, json_t *then) GRAIL_MUST_CHECK;

/* -- state.c -------------------------------------------------------------------------------------
 */

/** Creates or continues OUTPUT.partial; fills the output with the records of finished blocks. */
grail_status state_begin(grail_compression *c,
                         const grail_compress_options *options) GRAIL_MUST_CHECK;
/** Lets other runs into OUTPUT.partial again. */
void state_end(grail_compression *c);
/** Appends the record of a finished block, on disk when it returns. */
grail_status state_record_block(grail_compression *c, int block) GRAIL_MUST_CHECK;
/** Fills network->results of a block from its record. */
grail_status state_restore_block(grail_compression *c, int block) GRAIL_MUST_CHECK;
/** Of a run that failed: what is worth continuing stays, and the message says so. OUTPUT.partial
 * goes when no block is finished, and on GRAIL_ERROR_NUMERIC, which the same inputs always meet
 * again.
 */
void state_after_failure(const grail_compression *c, grail_status status);

/** Renames the finished directory into place and removes the state from it. */
grail_status compression_commit(grail_compression *c) GRAIL_MUST_CHECK;

#endif
