/* Sublayers: the attention or FFN of a block, which reads a residual stream and is added to it. A
 * network without one is the same network whose consumer gives zeros. */
#ifndef GRAIL_GRAPH_SUBLAYER_H
#define GRAIL_GRAPH_SUBLAYER_H

#include "graph/site.h"

/** Nodes [begin, add) read no other value than `input`, and node `add` alone reads what they make:
 * output = input + what they make. */
typedef struct sublayer {
    int begin, add;
    int input, output; /* values */
} sublayer;

/** Whether the nodes around a site are a sublayer of one block: it has one consumer, whose output
 * goes into an Add, straight or through a norm that keeps zeros, and no parameter is shared with
 * other nodes. */
bool sublayer_of(const graph *g, const site *s, sublayer *out);

/** Takes a sublayer out: what read its output reads its input. Indices of later nodes fall. Its
 * parameters keep their indices and have no elements (graph_parameter_is_gone). */
grail_status graph_drop_sublayer(graph *g, const sublayer *s) GRAIL_MUST_CHECK;

#endif
