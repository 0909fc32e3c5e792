/* The way back through single nodes: the functions that tape.c and the files for one family of
 * nodes share. */
#ifndef GRAIL_EXEC_NODE_BACK_H
#define GRAIL_EXEC_NODE_BACK_H

#include "backend/operations.h"
#include "exec/node_run.h"
#include "exec/tape.h"

/** One node on the way back. */
typedef struct node_back {
    tape *tape;
    const node *node;
    node_entries entries;
    matrix dweight, dbias; /* of the gradient store; no matrix where not wanted */
    matrix dy;             /* gradient of the node's output; of the pool, taken over */
} node_back;

/** Whether the gradient of the node's i-th input is needed. */
bool back_reaches(const node_back *b, int input);
/** The value of the node's i-th input. */
matrix back_value(const node_back *b, int input);
/** Gives *gradient, of the pool, to the node's i-th input: it is taken over, or added to what the
 * input has. */
grail_status back_give(node_back *b, int input, matrix *gradient) GRAIL_MUST_CHECK;
/** A matrix of the pool with the shape of the i-th input. */
grail_status back_new(const node_back *b, int input, matrix *out) GRAIL_MUST_CHECK;
/** sum[1, n] += column sums of X[rows, n], summed in f64; a missing sum is allowed. */
grail_status back_add_column_sums(const node_back *b, matrix x, matrix sum) GRAIL_MUST_CHECK;

/* back_rows.c: nodes that treat every row on its own, and attention */
grail_status back_embedding(node_back *b) GRAIL_MUST_CHECK;
grail_status back_linear(node_back *b) GRAIL_MUST_CHECK;
grail_status back_attention(node_back *b) GRAIL_MUST_CHECK;
grail_status back_rope(node_back *b) GRAIL_MUST_CHECK;
grail_status back_activation(node_back *b) GRAIL_MUST_CHECK;
grail_status back_multiply(node_back *b) GRAIL_MUST_CHECK;
grail_status back_add(node_back *b) GRAIL_MUST_CHECK;
grail_status back_norm(node_back *b) GRAIL_MUST_CHECK;

/* back_positions.c: nodes that look at the positions of a sample */
grail_status back_conv2d(node_back *b) GRAIL_MUST_CHECK;
grail_status back_max_pool(node_back *b) GRAIL_MUST_CHECK;
grail_status back_mean(node_back *b) GRAIL_MUST_CHECK;
grail_status back_shortcut(node_back *b) GRAIL_MUST_CHECK;
grail_status back_class_token(node_back *b) GRAIL_MUST_CHECK;
grail_status back_positions(node_back *b) GRAIL_MUST_CHECK;
grail_status back_first_token(node_back *b) GRAIL_MUST_CHECK;

#endif
