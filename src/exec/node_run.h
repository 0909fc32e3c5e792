/* Running single nodes: the functions that execution.c and the files for one family of nodes each
 * share. Every function makes the node's output from its inputs, which are live. */
#ifndef GRAIL_EXEC_NODE_RUN_H
#define GRAIL_EXEC_NODE_RUN_H

#include "backend/operations.h"
#include "exec/execution.h"

/** The entries of a node's parameters, NULL where it has none. */
typedef struct node_entries {
    const parameter_entry *weight, *bias, *mean, *variance;
} node_entries;

grail_status node_entries_get(parameter_store *store, const node *n,
                              node_entries *out) GRAIL_MUST_CHECK;

/** Values of an entry that may be missing. */
static inline matrix entry_values(const parameter_entry *entry)
{
    return entry == NULL ? no_matrix : entry->values;
}

/** Room for the output of a node that may work in place: an input's buffer when no later node reads
 * that input. */
grail_status execution_make_elementwise(execution *e, int index, matrix *out) GRAIL_MUST_CHECK;

/* The shapes of a node's operation for the current batch. */
attention_shape attention_of(const execution *e, const node *n);
rope_shape rotation_of(const execution *e, const node *n);
conv_shape window_of(const execution *e, const node *n, int64_t channels_out);
position_shape position_copy_of(const execution *e, const node *n);
/* All positions of a sample as one row. */
matrix by_sample(const execution *e, matrix m);

/* execution_rows.c: nodes that treat every row on its own, and attention */
grail_status run_linear(execution *e, const node *n, const node_entries *p) GRAIL_MUST_CHECK;
grail_status run_attention(execution *e, const node *n) GRAIL_MUST_CHECK;
grail_status run_elementwise(execution *e, int index, const node_entries *p) GRAIL_MUST_CHECK;

/* execution_positions.c: nodes that look at the positions of a sample */
grail_status run_conv2d(execution *e, int index, const node_entries *p) GRAIL_MUST_CHECK;
grail_status run_max_pool(execution *e, const node *n) GRAIL_MUST_CHECK;
grail_status run_mean(execution *e, const node *n) GRAIL_MUST_CHECK;
grail_status run_shortcut(execution *e, const node *n) GRAIL_MUST_CHECK;
grail_status run_patches(execution *e, const node *n) GRAIL_MUST_CHECK;
grail_status run_class_token(execution *e, const node *n, const node_entries *p) GRAIL_MUST_CHECK;
grail_status run_first_token(execution *e, const node *n) GRAIL_MUST_CHECK;
grail_status run_positions(execution *e, int index, const node_entries *p) GRAIL_MUST_CHECK;

#endif
