/* The loss curves of all sites, from one pass of the dense network: what is left of each site's
 * output when it keeps K units, relative to the energy of what it is added to (docs/numerics.md,
 * Budgets). */
#ifndef GRAIL_PLANNING_LOSS_CURVES_H
#define GRAIL_PLANNING_LOSS_CURVES_H

#include "pipeline/network/network.h"
#include "reduce/selector.h"

typedef struct loss_curve {
    double *errors; /* [units + 1]; falls to 0 at `units`; NULL without a consumer */
    double *scores; /* [units]: FLAP's, standardised; NULL for channels */
} loss_curve;

typedef struct loss_curves {
    loss_curve *of;  /* [sites], owned */
    double *numbers; /* [count] of all curves, owned */
    size_t count;    /* at most 2 for each unit and one more */
} loss_curves;

typedef struct loss_times {
    double pass;   /* of the dense network, with statistics */
    double curves; /* taken from them */
} loss_times;

/** Room for the curves of all sites; loss_curves_fini frees, even after a failure. */
grail_status loss_curves_init(const site_list *sites, loss_curves *out) GRAIL_MUST_CHECK;
void loss_curves_fini(loss_curves *c); /* works on a zeroed one */

/** Runs the dense network block by block, or reads the statistics that the request has from a file:
 * statistics of a block's consumers, then the curves of the sites that end there. Nothing may be
 * cut in the request's plan. */
grail_status loss_curves_collect(calibration_network *network, loss_times *times,
                                 const loss_curves *out) GRAIL_MUST_CHECK;

/** The selector whose losses are taken of a site: that of the plan, or obs where that one knows
 * none. */
const selector *loss_curve_rule(const plan_site *planned);

#endif
