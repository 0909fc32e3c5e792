/* A tape: runs some nodes of a graph forward and keeps what the way back needs, then runs them
 * backward and makes the gradients of their parameters and of the values that they began with. What
 * a caller does not keep between two runs of nodes is computed again by the next tape_forward. */
#ifndef GRAIL_EXEC_TAPE_H
#define GRAIL_EXEC_TAPE_H

#include "exec/execution.h"
#include "exec/parameters.h"

/* Gradients of parameters: one matrix for each parameter that is to be trained. */

typedef struct gradient_store {
    int count; /* of the graph's parameters */
    backend *backend;
    matrix *gradients; /* [count], owned; no matrix for a parameter that is not wanted */
    bool *cleared;     /* [count] zero, whatever lies in its memory yet; owned */
    bool of_tape;      /* tape_backward alone writes them; set by the owner */
} gradient_store;

/** A store that wants no gradient yet. *out is owned, even after a failure: gradient_store_free. */
grail_status gradient_store_create(const graph *g, backend *b,
                                   gradient_store **out) GRAIL_MUST_CHECK;
void gradient_store_free(gradient_store *s); /* NULL is allowed */

/** Makes room for the gradient of a parameter, with the shape that it has in `parameters`: zeros.
 */
grail_status gradient_store_want(gradient_store *s, parameter_store *parameters,
                                 int parameter) GRAIL_MUST_CHECK;

/** The gradient of a parameter, or no matrix when it is not wanted or is GRAPH_NONE. Borrowed. */
matrix gradient_of(const gradient_store *s, int parameter);

/** Makes all gradients zero. In a store that tape_backward alone writes, zeros are put only where
 * the way back does not write over what is there: others call gradient_store_settle before they
 * look at it. */
grail_status gradient_store_clear(gradient_store *s) GRAIL_MUST_CHECK;
grail_status gradient_store_settle(gradient_store *s) GRAIL_MUST_CHECK;

/* -- the tape ---------------------------------------------------------------------------------- */

/** What looks at gradients of values on the way back, each once it is complete. Those of values
 * with wanted[value] are made whatever else is needed. */
typedef struct gradient_visitor {
    const bool *wanted; /* [value_count] made by a node; borrowed, NULL: none */
    grail_status (*visit)(void *user, int value, matrix gradient);
    void *user;
} gradient_visitor;

typedef struct tape {
    execution *execution;     /* owned; the caller begins batches in it and puts values in */
    int begin, end;           /* nodes of the last pass forward */
    bool *pinned;             /* [value_count] needed on the way back */
    bool *reached;            /* [value_count] their gradients are needed */
    matrix *gradients;        /* [value_count] of the pool; no matrix where there is none (yet) */
    gradient_visitor visitor; /* set by the caller */
} tape;

/** *out is owned, even after a failure: tape_free. */
grail_status tape_create(const graph *g, backend *b, matrix_pool *pool,
                         tape **out) GRAIL_MUST_CHECK;
void tape_free(tape *t); /* NULL is allowed */

/** The execution of the tape, for execution_begin, execution_make and execution_value. Borrowed. */
execution *tape_execution(tape *t);

/** Gives all values and gradients back, as after a run that failed. */
grail_status tape_drop(tape *t) GRAIL_MUST_CHECK;

/** Runs nodes [begin, end) on what the execution holds. The way back will make the gradients that
 * `wanted` has room for and, with `inputs_too`, those of the values made before `begin`. */
grail_status tape_forward(tape *t, parameter_store *store, const gradient_store *wanted,
                          bool inputs_too, int begin, int end) GRAIL_MUST_CHECK;

/** Gives the gradient of a value that the nodes made and that is read behind them: it is copied,
 * and added to one that was given before. */
grail_status tape_seed(tape *t, int value, matrix gradient) GRAIL_MUST_CHECK;

/** The same of a matrix of the pool, which the tape takes over. */
grail_status tape_give(tape *t, int value, matrix *gradient) GRAIL_MUST_CHECK;

/** Runs the nodes of tape_forward backward with the same parameters. Adds to `gradients`. NaN and
 * infinity pass: the caller looks at the loss. */
grail_status tape_backward(tape *t, parameter_store *store,
                           gradient_store *gradients) GRAIL_MUST_CHECK;

/** The gradient of a value that was live at `begin`; no matrix where it has none. Borrowed until
 * the next tape_forward. */
matrix tape_gradient(const tape *t, int value);

#endif
