/* Gradients of parameters: one matrix for each parameter that is to be trained. */
#ifndef GRAIL_EXEC_GRADIENT_STORE_H
#define GRAIL_EXEC_GRADIENT_STORE_H

#include "exec/parameters.h"

typedef struct gradient_store {
    int count; /* of the graph's parameters */
    backend *backend;
    matrix *gradients; /* [count], owned; no matrix for a parameter that is not wanted */
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

/** Makes all gradients zero. */
grail_status gradient_store_clear(gradient_store *s) GRAIL_MUST_CHECK;

#endif
