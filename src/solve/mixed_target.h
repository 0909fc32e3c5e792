/* Mixed targets: how far a fit trusts the dense network's output.
 *
 * Behind earlier cuts a consumer's input Z has lost part of what the dense network's output Y
 * depends on. A fit to Y alone makes up for it with whatever still correlates and shrinks the rest,
 * which later blocks take badly. The mixed target
 *
 *   Y_m = Z W^T + beta (Y - Z W^T),   beta = min(1, max(0, 1 - |Y - Z W^T|^2 / |Y|^2))
 *
 * is the dense output while it agrees with what the dense weights W make of Z, and the local one
 * where the two no longer have anything in common. In the sums of Y over Z:
 *
 *   C <- beta C + (1 - beta) W G        t <- beta t + (1 - beta) W s
 *   q_o <- beta^2 q_o + (1 - beta) (beta C_o w_o^T + C_mo w_o^T),  C_m the new C
 *
 * Source: ours; the damping of error propagation in quantisation (QEP, GPTAQ) is a relative with a
 * constant beta. */
#ifndef GRAIL_SOLVE_MIXED_TARGET_H
#define GRAIL_SOLVE_MIXED_TARGET_H

#include "stats/statistics.h"

/** Squared sums over rows and outputs; those of several parts are added. */
typedef struct target_gap {
    double gap;    /* |Y - Z W^T|^2 */
    double target; /* |Y|^2 */
} target_gap;

/** beta, from 0 to 1; 1 where the target is zero. */
double target_gap_share(const target_gap *g);

/** Adds the gap of statistics with a target; consumer W[O, H] in f32 on their instance. Where there
 * are many outputs, only those are measured that regressions measure (ridge.h). Fills the upper
 * triangle of the Gram matrix. */
grail_status target_gap_add(const grail_statistics *s, matrix consumer,
                            target_gap *into) GRAIL_MUST_CHECK;

/** The sums of Y become those of Y_m, with W[O, H] as above. The Gram matrix has both triangles. */
grail_status statistics_mix_target(grail_statistics *s, matrix consumer,
                                   double share) GRAIL_MUST_CHECK;

/** The same of both parts of the rows, by the share of both, whose gaps are added to *gap. */
grail_status statistics_mix_targets(grail_statistics *fit, grail_statistics *held, matrix consumer,
                                    target_gap *gap) GRAIL_MUST_CHECK;

/** Y[rows, O] becomes the mixed target of these rows by their own share, and L = Z W^T of the same
 * shape stays. The rows count as root[t]^2 each, root[1, rows]; missing: all alike. Adds to sums[1,
 * 2], the gap and the target, which target_gap_read adds to numbers on the host. */
grail_status target_mix_rows(matrix root, matrix local, matrix y, matrix sums) GRAIL_MUST_CHECK;
grail_status target_gap_read(matrix sums, target_gap *into) GRAIL_MUST_CHECK;

#endif
