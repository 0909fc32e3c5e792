/* Maps that read one value which has drifted from the dense network's.
 *
 * X[T, H] is the value in the dense network, Z[T, H] the same in the narrowed one, and D = X - Z
 * the drift. A map W[O, H] that was not cut has the target Y = X W^T (its bias stays where it is),
 * so what it lacks over Z is D W^T, and all sums of its regression follow from those of the input:
 *
 *   A = Z^T Z        F = D^T Z        R = D^T D        s = Z^T 1        d = D^T 1
 *   E = (Y - Z W^T)^T Z = W F         |y_o - Z w_o|^2 = w_o R w_o^T
 *   |y_o|^2 = w_o (A + F + F^T + R) w_o^T
 *
 * A target mixed with a share beta of the dense output (mixed_target.h) has beta D in place of D.
 * The ridge of ridge.h is linear in W too: W' = W T with the fit T[H, H] of X over Z, whose
 * right-hand sides are H, however many outputs read the value. So a map costs three products with
 * its weights, and no sums over rows of its own.
 * Source: ours; docs/numerics.md, Refit of what reads the drifting stream. */
#ifndef GRAIL_SOLVE_DRIFT_H
#define GRAIL_SOLVE_DRIFT_H

#include "solve/ridge.h"
#include "stats/chunk_sums.h"

#include <grail/ridge.h>

typedef struct drift_sums {
    grail_statistics *input; /* of Z, with D as the target: A, s, F, d; owned */
    matrix square;           /* R, lower triangle; f64, owned */
} drift_sums;

struct grail_drift {
    drift_sums sums;
};

/** H = width. The caller calls drift_sums_fini, even after a failure. */
grail_status drift_sums_create(backend *b, int64_t width, drift_sums *out) GRAIL_MUST_CHECK;
void drift_sums_fini(drift_sums *s); /* works on a zeroed one */

/** Adds rows Z[rows, H] and X[rows, H] of the instance's values; X is overwritten with D. NaN or
 * infinity is GRAIL_ERROR_NUMERIC naming row and feature. */
grail_status drift_sums_accumulate(drift_sums *s, matrix z, matrix x) GRAIL_MUST_CHECK;

/** The sums of a chunk beside those of all. */
chunk_sums drift_chunk_sums(drift_sums *part, drift_sums *total);

/** After the last rows, once: fills both triangles, makes sums of constant features exact
 * (stats/constant_features.h). Sums that are not finite are GRAIL_ERROR_NUMERIC. */
grail_status drift_sums_settle(drift_sums *s) GRAIL_MUST_CHECK;

/**
 * Fits W[O, H], in f32 on the instance of the sums, to the dense network's output of its map on
 * both parts, which have been settled and stay as they are; `held` may be without rows. With
 * `mixes` the target is mixed, by the share of both parts. options->judged is by output. fitted[O,
 * H], as W, bias_change[O] (when options->bias) and *share are the outputs; where *result says that
 * W stays as it is (RIDGE_FALLBACK_PLAIN), fitted is W.
 */
grail_status drift_solve(const drift_sums *fit, const drift_sums *held, matrix weight, bool mixes,
                         const ridge_options *options, matrix fitted, double *bias_change,
                         double *share, ridge_result *result) GRAIL_MUST_CHECK;

#endif
