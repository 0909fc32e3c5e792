/* The state of one compression run, shared by the files of this layer. */
#ifndef GRAIL_PIPELINE_COMPRESSION_H
#define GRAIL_PIPELINE_COMPRESSION_H

#include "arch/model.h"
#include "base/clock.h"
#include "exec/stream.h"
#include "format/windows.h"
#include "reduce/plan.h"
#include "solve/ridge.h"

#include <grail/compress.h>

typedef struct site_result {
    grail_site_report report;
    grail_reducer *reducer; /* owned; NULL until decided, and for sites that keep everything */
} site_result;

struct grail_compression {
    grail_model *model;
    grail_site_list *sites;
    plan plan;
    graph *narrowed; /* the model's graph with the planned shapes */
    json_t *config;  /* config.json of the result */
    loader_verdict verdicts[LOADER_COUNT];

    char *output, *partial;
    checkpoint_writer *writer;
    int *parameter_block; /* [parameter_count]: block that writes it, GRAPH_NONE outside */

    /* calibration; windows.count == 0 when nothing needs data */
    token_windows windows;
    shingle_set shingles;
    char tokenizer_hash[65];
    json_t *calibration; /* what the report says about it */
    int64_t batch_sequences, batch_count;
    bool keep_activations; /* a consumer's input is kept between observing and advancing */

    const backend *backend;
    parameter_store *dense, *current;
    buffer_pool *pool;
    execution *run, *dense_run;
    stream stream, dense_stream;
    bool has_dense_stream;

    json_t *state;        /* array of finished blocks' records */
    site_result *results; /* [sites] */
    grail_compress_observer observer;
    void *observer_user;
    double started; /* seconds, monotonic */
    int blocks_replayed;
    int blocks_recorded; /* finished ones that are on disk */
};

/** Cut of one site: whether anything is removed, and what it needs. */
bool site_is_cut(const grail_compression *c, int site);
bool site_needs_statistics(const grail_compression *c, int site);

/* -- reduce_site.c -------------------------------------------------------------------------------
 */

/** Decides a selection from scores; gram_diagonal may be NULL where the selector needs none. */
grail_status site_select(grail_compression *c, int site, const double *gram_diagonal,
                         grail_reducer **out) GRAIL_MUST_CHECK;
/** Decides a folding from the weights in `current`. */
grail_status site_fold(grail_compression *c, int site, grail_reducer **out) GRAIL_MUST_CHECK;
/** Sets the producers' narrowed parameters in `store`. */
grail_status site_narrow_producers(grail_compression *c, int site, const grail_reducer *reducer,
                                   parameter_store *store) GRAIL_MUST_CHECK;
/** W0[O, K]: the consumer narrowed without data, f32; *out is owned. */
grail_status site_plain_consumer(grail_compression *c, int site, const grail_reducer *reducer,
                                 float **out) GRAIL_MUST_CHECK;
/** Sets the consumer's weight [O, K] and, when not NULL, adds `bias_change` to its bias. */
grail_status site_set_consumer(grail_compression *c, int site, const float *weight,
                               const double *bias_change) GRAIL_MUST_CHECK;

/* -- observe.c -----------------------------------------------------------------------------------
 */

typedef struct observation {
    int site;
    bool folds;
    grail_statistics *fit, *held; /* owned */
    parameter_store *trial;       /* folding: the folded producers over `current`, owned */
    float *prior;                 /* folding: W0, owned */
} observation;

/** Allocates statistics; decides a folding's reducer at once. observation_fini frees. */
grail_status observation_init(grail_compression *c, int site, observation *o) GRAIL_MUST_CHECK;
void observation_fini(observation *o);

/**
 * Adds one batch. c->run stands before the consumer; for a dense target c->dense_run stands behind
 * the consumer and the Add that follows it.
 */
grail_status observation_add(grail_compression *c, observation *o, int64_t batch) GRAIL_MUST_CHECK;

/** Node behind the consumer and the residual Add that reads it alone, if there is one. */
int consumer_end(const graph *g, int consumer);

/* -- compensate.c --------------------------------------------------------------------------------
 */

/** From the finished statistics: choose the reducer (pruning), solve, set the narrow parameters. */
grail_status compensate_site(grail_compression *c, observation *o) GRAIL_MUST_CHECK;
/** Without statistics: reducer from the weights alone, plain consumer. */
grail_status narrow_site_plainly(grail_compression *c, int site) GRAIL_MUST_CHECK;

/* -- block.c -------------------------------------------------------------------------------------
 */

/** Observes, reduces, compensates and advances one block. With a replayed block the decisions are
 * in c->results and `recorded` holds the narrow tensors. */
grail_status compress_block(grail_compression *c, int block,
                            const checkpoint *recorded) GRAIL_MUST_CHECK;
/** Tells the observer of a site, or with `report` NULL that a block is finished; its wish to cancel
 * is GRAIL_ERROR_CANCELLED. */
grail_status tell_observer(grail_compression *c, int block,
                           const grail_site_report *report) GRAIL_MUST_CHECK;
/** Runs what precedes block 0 on the token ids. */
grail_status begin_streams(grail_compression *c) GRAIL_MUST_CHECK;

/* -- output.c ------------------------------------------------------------------------------------
 */

/** Shapes of the result into c->narrowed, config and verdicts. */
grail_status describe_result(grail_compression *c) GRAIL_MUST_CHECK;
/** Opens the writer in c->partial. */
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

/** Creates or continues c->partial; fills c->state with the records of finished blocks. */
grail_status state_begin(grail_compression *c,
                         const grail_compress_options *options) GRAIL_MUST_CHECK;
/** Appends the record of a finished block, on disk when it returns. */
grail_status state_record_block(grail_compression *c, int block) GRAIL_MUST_CHECK;
/** Fills c->results of a block from its record. */
grail_status state_restore_block(grail_compression *c, int block) GRAIL_MUST_CHECK;
/** JSON of one site's report, with the kept units or labels. *out is owned. */
grail_status site_result_to_json(const grail_compression *c, int site,
                                 json_t **out) GRAIL_MUST_CHECK;

/** Of a run that failed: what is worth continuing stays, and the message says so. c->partial goes
 * when no block is finished, and on GRAIL_ERROR_NUMERIC, which the same inputs always meet again.
 */
void state_after_failure(const grail_compression *c, grail_status status);

/** Renames the finished directory into place and removes the state from it. */
grail_status compression_commit(grail_compression *c) GRAIL_MUST_CHECK;

#endif
