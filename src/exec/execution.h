/* Runs nodes of a graph on a backend over one batch of samples. The caller puts live values in,
 * runs a range of nodes, and takes values out. A value is observed by a stop between two ranges. */
#ifndef GRAIL_EXEC_EXECUTION_H
#define GRAIL_EXEC_EXECUTION_H

#include "exec/parameters.h"
#include "exec/pool.h"
#include "exec/routed_rows.h"
#include "exec/token_past.h"

/** Samples with equal positions, one after the other in the rows: sequences of `positions.height`
 * tokens (width 1), or images. */
typedef struct batch_shape {
    int64_t samples;
    extent positions; /* of the network's input */
} batch_shape;

batch_shape sequence_batch(int64_t sequences, int64_t length);

/** The input of a batch; borrowed until the next execution_begin. Both are NULL when the caller
 * puts values in and no node reads the input. */
typedef struct batch_input {
    const int32_t *ids;  /* [samples * positions] */
    const float *pixels; /* [samples, height, width, channels of the graph] */
} batch_input;

typedef struct execution {
    const graph *graph;
    backend *backend;
    matrix_pool *pool; /* borrowed */
    batch_shape shape;
    extent *extents; /* [value_count] positions of every value for this shape */
    batch_input input;
    int64_t *taken;       /* [value_count] rows of the values that were made by taking rows */
    int64_t *widths;      /* [value_count] columns of the values that were made in this batch */
    matrix *values;       /* [value_count], of the pool; zeroed where not live */
    routed_lists *routed; /* [value_count] of shares whose rows were asked for, owned */
    matrix *kept; /* [value_count] what the nodes that make them keep for all batches, owned */
    const int64_t *const *orders; /* [value_count] of shares: the score that each column is of;
                                     NULL: as the scores are, as in a missing list. Borrowed */
    const bool *pinned; /* [value_count] values that outlive their last reader, for the way back
                           (tape.h); NULL: none. Borrowed */
    token_past *past;   /* of the batch, which is of tokens; NULL: none. Borrowed */
    bool settles_later; /* whoever runs nodes calls backend_settle */
    bool unwatched;     /* NaN and infinity pass: whoever runs nodes looks at what comes of them */
} execution;

/** *out is owned, even after a failure: execution_free. */
grail_status execution_create(const graph *g, backend *b, matrix_pool *pool,
                              execution **out) GRAIL_MUST_CHECK;
void execution_free(execution *e); /* NULL is allowed */

/** Forgets all values and begins a batch: `input`'s pixels become the input value. A shape that the
 * graph cannot take is GRAIL_ERROR_SHAPE. With no samples it only forgets the values. */
grail_status execution_begin(execution *e, batch_shape shape, batch_input input) GRAIL_MUST_CHECK;

/** Rows of value `v` in this batch. */
int64_t execution_rows(const execution *e, int value);

/** Makes room for value `v`, [its rows, columns], to be filled by the caller. *out is borrowed. */
grail_status execution_make(execution *e, int value, int64_t columns, matrix *out) GRAIL_MUST_CHECK;
/** Makes value `v` a copy of `m`, which it was in this batch or one of the same samples. */
grail_status execution_put(execution *e, int value, matrix m) GRAIL_MUST_CHECK;
/** Makes `m`, of the instance and as execution_put takes it, value `v`; *m is empty afterwards. */
void execution_adopt(execution *e, int value, matrix *m);
/** Takes value `v` out: *out belongs to the caller, who gives it to the pool. */
void execution_take(execution *e, int value, matrix *out);
/** Borrowed; no matrix when the value is not live. */
matrix execution_value(const execution *e, int value);
/** The rows in which `output` has one of these shares, which are live. *out is borrowed until the
 * value changes. The device is read at the first question about a value. */
grail_status execution_routed(const execution *e, int shares, int64_t output,
                              routed_rows *out) GRAIL_MUST_CHECK;
/** Makes shares a copy of those of another execution on the same samples, which is asked for their
 * rows. */
grail_status execution_put_shares(execution *e, int shares, const execution *from) GRAIL_MUST_CHECK;
/**
 * Runs nodes [begin, end) with the store's parameters. A value is dropped after its last reader,
 * unless that reader lies beyond `end`. NaN or infinity in the output of a Linear, Conv2d or
 * Attention is GRAIL_ERROR_NUMERIC naming the block and the parameter; a device is read once for
 * that, behind all nodes. An unwatched execution lets them pass.
 */
grail_status execution_run(execution *e, parameter_store *store, int begin,
                           int end) GRAIL_MUST_CHECK;

/** What the code of node `index` is given (ops/operator_code.h): as far as they are live, its
 * inputs and its output, and its parameters, borrowed until the store or the execution changes. */
struct node_run;
grail_status execution_describe(execution *e, parameter_store *store, int index,
                                struct node_run *out) GRAIL_MUST_CHECK;

/** Watches (operations.h) features `first` and on of node `n`'s output, in `y`, for that. */
grail_status execution_watch(const graph *g, const node *n, int64_t first,
                             matrix y) GRAIL_MUST_CHECK;

#endif
