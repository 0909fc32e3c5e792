/* The loss curves of all sites, from one pass of the dense network: what is left of each site's
 * output when it keeps K units, relative to the energy of what it is added to (docs/numerics.md,
 * Budgets). */
#ifndef GRAIL_PLANNING_LOSS_CURVES_H
#define GRAIL_PLANNING_LOSS_CURVES_H

#include "pipeline/network/network.h"

typedef struct loss_curve {
    double *errors; /* [units + 1], owned; falls to 0 at `units` */
    double *scores; /* [units], owned: FLAP's, standardised; NULL for channels */
} loss_curve;

typedef struct loss_times {
    double pass;   /* of the dense network, with statistics */
    double curves; /* taken from them */
} loss_times;

/** Runs the dense network block by block, or reads the statistics that the request has from a file:
 * statistics of a block's consumers, then the curves of the sites that end there. Nothing may be
 * cut in the request's plan. curves[sites] are owned: loss_curves_free. */
grail_status loss_curves_collect(calibration_network *network, loss_times *times,
                                 loss_curve **out) GRAIL_MUST_CHECK;
void loss_curves_free(loss_curve *curves, int count); /* NULL is allowed */

#endif
