/* A sample stream: the activations of all calibration samples between two points of the graph. For
 * every batch that passed it holds the values that are live there. */
#ifndef GRAIL_EXEC_SAMPLE_STREAM_H
#define GRAIL_EXEC_SAMPLE_STREAM_H

#include "comm/comm.h"
#include "exec/execution.h"

typedef struct sample_stream {
    const graph *graph;
    backend *backend;
    int64_t batch_count;
    int position; /* node before which the values are live */
    int *live;    /* [live_count] values */
    int live_count;
    matrix *held;   /* [batch_count * live_count], owned */
    int *next_live; /* of the position being written */
    int next_count;
    matrix *next;
} sample_stream;

/** An empty sample stream before node 0. sample_stream_fini frees. */
grail_status sample_stream_init(sample_stream *s, const graph *g, backend *b,
                                int64_t batch_count) GRAIL_MUST_CHECK;
void sample_stream_fini(sample_stream *s); /* works on a zeroed one */
/** *out, zeroed, becomes another one with the same values, which does not move with the first.
 * sample_stream_fini frees it, even after a failure. */
grail_status sample_stream_copy(const sample_stream *s, sample_stream *out) GRAIL_MUST_CHECK;

/** Some of the samples of a batch, which follow each other. All of them hold the values behind a
 * router, too, whose rows are not ordered by sample. */
typedef struct batch_slice {
    int64_t first, count, all;
} batch_slice;

/** Begins to move the sample stream to `position`: batches are read at the old place, written at
 * the new.
 */
grail_status sample_stream_move_begin(sample_stream *s, int position) GRAIL_MUST_CHECK;
/** Moves the values of a batch at the old position to `e`. */
grail_status sample_stream_read(sample_stream *s, int64_t batch, execution *e) GRAIL_MUST_CHECK;
/** Copies the values instead, for a pass that leaves the sample stream where it is. */
grail_status sample_stream_peek(const sample_stream *s, int64_t batch,
                                execution *e) GRAIL_MUST_CHECK;
/** The same of some samples, of which `e` has begun so many. */
grail_status sample_stream_peek_slice(const sample_stream *s, int64_t batch, batch_slice slice,
                                      execution *e) GRAIL_MUST_CHECK;
/** Whether the values at the old position can be put in by slices. */
bool sample_stream_has_slices(const sample_stream *s);
/** Some samples whose values one execution gets, which has begun a batch of so many. */
typedef struct sample_pick {
    const int64_t *samples; /* [count] */
    int64_t count;
    const int64_t *firsts; /* [batch_count + 1] the first sample of each batch; NULL: each holds one
                               sample */
    /* Each of several ranks holds some batches. All call sample_stream_pick; `runner` alone gets
     * the values, in its execution. */
    const grail_comm *comm; /* NULL: all batches are held here, and what follows is not read */
    const int *holders;     /* [batch_count] the rank that holds each */
    const int64_t *widths;  /* [live_count] columns of the values */
    int runner;
} sample_pick;

/** The batch that holds a sample, of those that begin with firsts[batch_count + 1]. */
int64_t batch_of_sample(const int64_t *firsts, int64_t batch_count, int64_t sample);

/** Copies the values of some samples, one sample after the other. */
grail_status sample_stream_pick(const sample_stream *s, const sample_pick *pick,
                                execution *e) GRAIL_MUST_CHECK;
/** Stores the values of `e` that are live at the new position, which may leave it. */
grail_status sample_stream_write(sample_stream *s, int64_t batch, execution *e) GRAIL_MUST_CHECK;
/** The same of some samples; what was stored of them before is replaced. */
grail_status sample_stream_write_slice(sample_stream *s, int64_t batch, batch_slice slice,
                                       execution *e) GRAIL_MUST_CHECK;
void sample_stream_move_end(sample_stream *s);

/** Stores the values of one of the samples of `e` that are live where the sample stream is, for a
 * batch of one that it does not hold yet: after a move without a write. */
grail_status sample_stream_keep(sample_stream *s, int64_t batch, const execution *e,
                                int64_t sample) GRAIL_MUST_CHECK;
bool sample_stream_holds(const sample_stream *s, int64_t batch);
void sample_stream_drop(sample_stream *s, int64_t batch);

/** Keeps only some columns of a value: kept[columns], ascending. Does nothing where the sample
 * stream does not hold the value. */
grail_status sample_stream_gather(sample_stream *s, int value, int64_t columns,
                                  const int64_t *kept) GRAIL_MUST_CHECK;

#endif
