/* The loss curves of all sites, from one pass of the dense network: what is left of each site's
 * output when it keeps K units, relative to the energy of what it is added to (docs/numerics.md,
 * Budgets). */
#ifndef GRAIL_PLANNING_LOSS_CURVES_H
#define GRAIL_PLANNING_LOSS_CURVES_H

#include "pipeline/network/network.h"
#include "reduce/selector.h"

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

/** The selector whose losses are taken of a site: that of the plan, or obs where that one knows
 * none. */
const selector *loss_curve_rule(const compression_request *request, int index);

/** How many numbers the curves of all sites consist of, at most 2 for each unit and one more. */
size_t loss_curves_size(const compression_request *request);
/** numbers[loss_curves_size], which unpack turns into curves again. */
void loss_curves_pack(const compression_request *request, const loss_curve *curves,
                      double *numbers);
/** curves[sites] are owned: loss_curves_free. */
grail_status loss_curves_unpack(const compression_request *request, const double *numbers,
                                loss_curve **out) GRAIL_MUST_CHECK;

#endif
