/* A faster way to run the same network when no value inside it is needed: batch norm is folded into
 * the weights of the convolution before it, and convolution, addition and relu run in one pass. */
#ifndef GRAIL_EXEC_FUSE_H
#define GRAIL_EXEC_FUSE_H

#include "exec/parameters.h"

/** A graph and store that replace those of the network in an execution. */
typedef struct fused_network fused_network;

/**
 * Fuses the network as `store` has it now, which may be narrow. The store must outlive the fused
 * network, and its parameters may not change meanwhile. Convolutions whose output, or whose batch
 * norm's output, has other readers stay as they are. *out is owned, even after a
 * failure: fused_network_free.
 */
grail_status fused_network_create(parameter_store *store, fused_network **out) GRAIL_MUST_CHECK;
void fused_network_free(fused_network *f); /* NULL is allowed */

/** Input and output are those of the network's own graph; some values between them are missing. */
const graph *fused_network_graph(const fused_network *f);
parameter_store *fused_network_store(fused_network *f);

#endif
