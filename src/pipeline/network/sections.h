/* A network that is run forward and back in sections of nodes. Forward, only what lies between them
 * is kept; on the way back each section but the last is run again. */
#ifndef GRAIL_PIPELINE_NETWORK_SECTIONS_H
#define GRAIL_PIPELINE_NETWORK_SECTIONS_H

#include "exec/tape.h"

typedef struct section {
    int begin, end; /* nodes */
    int *live;      /* [count] values made before `begin` that it or a later one reads; owned */
    int count;
    matrix *kept; /* [count] of the pool; their gradients on the way back */
} section;

typedef struct sections {
    parameter_store *parameters; /* borrowed */
    matrix_pool *pool;           /* borrowed */
    tape *tape;                  /* owned */
    gradient_store *none;        /* of no parameter; owned */
    gradient_store *own; /* of the section at hand, whose gradients go to host memory; owned */
    section *of;         /* [count], owned */
    int count;
    int first;     /* the way back ends with this one, whose inputs get no gradients: 0 */
    bool releases; /* parameters of a section are dropped once it has run, since all do not fit;
                      gradients may be wanted in host memory then */
} sections;

/** One section of all nodes, or else one for the nodes before the blocks, one for each block, one
 * for those behind. sections_fini frees, even after a failure. */
grail_status sections_init(const graph *g, parameter_store *parameters, matrix_pool *pool,
                           bool in_one, sections *out) GRAIL_MUST_CHECK;
void sections_fini(sections *s); /* works on a zeroed one */

/** Gives the memory back that a run which failed holds. */
grail_status sections_drop(sections *s) GRAIL_MUST_CHECK;

/** Runs the batch that the tape's execution has begun; the way back will make the gradients that
 * `wanted` has room for. */
grail_status sections_forward(sections *s, const gradient_store *wanted) GRAIL_MUST_CHECK;

/** The same without a way back; all values that nothing reads any more are dropped. */
grail_status sections_forward_alone(sections *s) GRAIL_MUST_CHECK;

/** The way back of this batch, once the outputs have got their gradients (tape_seed). Adds to
 * `gradients`, those that were wanted, which may lie in host memory. The input is put before the
 * first section again. */
grail_status sections_back(sections *s, batch_shape shape, batch_input input,
                           gradient_store *gradients) GRAIL_MUST_CHECK;

#endif
