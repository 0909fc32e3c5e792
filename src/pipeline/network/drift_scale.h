/* How a change behind the norm or scale that follows a consumer is converted to one of the
 * consumer's output (docs/numerics.md, Dense target with drift). */
#ifndef GRAIL_PIPELINE_NETWORK_DRIFT_SCALE_H
#define GRAIL_PIPELINE_NETWORK_DRIFT_SCALE_H

#include "exec/parameters.h"
#include "exec/pool.h"
#include "graph/graph.h"

typedef struct drift_scale {
    matrix of;        /* [1, width] factors of channels, before those of rows; none: as it is */
    matrix forward;   /* [1, width] what a scale of channels multiplies by; none without one */
    const node *norm; /* of rows, borrowed, or NULL */
    float *gains;     /* [width] of that norm, owned */
    int64_t width;
    double damping; /* of such a norm: mu in mean(gains^2), below 0 until it is chosen */
} drift_scale;

/** The norm or scale behind a consumer whose output is added to a residual stream, if there is one.
 * *out may not move; drift_scale_fini frees, even after a failure. */
grail_status drift_scale_init(const graph *g, parameter_store *current, int consumer,
                              drift_scale *out) GRAIL_MUST_CHECK;
void drift_scale_fini(drift_scale *s); /* works on a zeroed one */

/** Whether the damping is still to be chosen. */
bool drift_scale_is_open(const drift_scale *s);
/** Chooses it by the rows of a batch: the dense outputs y of the consumer, the drift[rows, width]
 * behind the norm, and the residual stream[rows, width] that it is relative to. It is the one of
 * 1e-6 to 1, or the limit in which no drift is added, with which the norm makes of the target
 * what comes nearest to norm(y) + drift. */
grail_status drift_scale_choose(drift_scale *s, matrix_pool *pool, matrix y, matrix drift,
                                matrix stream) GRAIL_MUST_CHECK;
/** Sets one that was chosen before. */
grail_status drift_scale_set(drift_scale *s, backend *b, double damping) GRAIL_MUST_CHECK;

/** drift <- the change of the consumer's output y that makes it, to first order. */
grail_status drift_scale_apply(const drift_scale *s, matrix y, matrix drift) GRAIL_MUST_CHECK;

#endif
