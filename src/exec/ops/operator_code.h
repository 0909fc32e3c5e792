/* The code of operators. A file of this folder says how nodes of one kind are run and, with
 * gradients, run backward; it knows matrices alone. execution.c and tape.c fill in what it is given
 * and pass on what it makes. */
#ifndef GRAIL_EXEC_OPS_OPERATOR_CODE_H
#define GRAIL_EXEC_OPS_OPERATOR_CODE_H

#include "backend/operations.h"
#include "base/profile.h"
#include "exec/parameters.h"
#include "exec/pool.h"
#include "exec/routed_rows.h"
#include "exec/token_past.h"

/** A node in one batch. A matrix that it lacks, or whose value is no longer live, is no_matrix. */
typedef struct node_run {
    const node *node;
    matrix x[NODE_MAX_INPUTS];
    matrix y; /* room for the output, which may be that of an input as the operator's row says */
    matrix weight, bias, mean, variance;
    const int64_t *weight_shape;
    int64_t behind; /* rows of the weight behind those that it has in the graph */
    int64_t rows[NODE_MAX_INPUTS], columns[NODE_MAX_INPUTS]; /* of the inputs, live or not */
    int64_t samples;
    extent in, out;               /* positions of the first input and of the output */
    extent each[NODE_MAX_INPUTS]; /* positions of every input */
    extent image;                 /* of the network's input */
    const token_past *past; /* NULL: the batch begins each sequence, and nothing goes on with it */
    kept_keys *kept_keys;   /* of this node, where there is a past */
    routed_rows routed;     /* those that are taken or put back */
    matrix *kept;           /* what the node keeps for all batches: owned by the execution */
    matrix_pool *pool;
    parameter_store *store; /* for operators that gather: their weight is not in `weight` */
    const int32_t *ids;     /* token ids of the batch, NULL without */
    const int64_t *order;   /* of shares: the score that each column is of; NULL: as they are */
} node_run;

/** The same on the way back. x and y are there as far as the operator's row says that it looks at
 * them. */
typedef struct node_back {
    node_run run;
    matrix dweight, dbias;         /* added to; no_matrix where not wanted */
    bool replaces;                 /* of a Linear: its weight's gradient is written over */
    matrix dy;                     /* of the pool; may be changed, and become one of dx */
    bool reaches[NODE_MAX_INPUTS]; /* whose gradients are needed */
    matrix dx[NODE_MAX_INPUTS];    /* made here, of the pool; those not needed may be left out */
} node_back;

typedef struct operator_code {
    grail_status (*run)(const node_run *r);
    grail_status (*back)(node_back *b); /* NULL: nothing behind it has a gradient */
} operator_code;

#define OPERATOR(kind, name, ...) extern const operator_code operator_##name;
#include "graph/operator_list.h"
#undef OPERATOR

const operator_code *operator_code_of(const node *n);

/** What the time of such a node counts as. */
profile_kind node_profile(const node *n);

/* The shapes of operations. */
conv_shape window_of(const node_run *r, int64_t channels_out);
position_shape positions_of(const node_run *r);
/** Positions of each sample before those of the batch. */
int64_t earlier_positions(const node_run *r);
/** All positions of a sample as one row. */
matrix by_sample(const node_run *r, matrix m);

/** *r->kept[rows, columns] <- a table of so many values, again and again, read as f32, in which
 * trained networks keep such; made for the first batch, and where there are other rows. */
grail_status keep_table(const node_run *r, int64_t rows, int64_t columns, int64_t count,
                        const double *values) GRAIL_MUST_CHECK;

/** dx[input] <- a matrix of the pool with the shape of that input. */
grail_status back_new(node_back *b, int input) GRAIL_MUST_CHECK;
/** dx[input] <- dy, which is no more there. */
void back_pass(node_back *b, int input);
/** sum[1, n] += column sums of X[rows, n], summed in f64; a missing sum is allowed. */
grail_status back_add_column_sums(const node_back *b, matrix x, matrix sum) GRAIL_MUST_CHECK;

#endif
