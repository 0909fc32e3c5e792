/* What was decided at a site, and how well its consumers fit. */
#ifndef GRAIL_PIPELINE_NETWORK_SITE_RESULT_H
#define GRAIL_PIPELINE_NETWORK_SITE_RESULT_H

#include "reduce/plan.h"
#include "reduce/reducer.h"
#include "solve/ridge.h"

#include <grail/compress.h>

/** The fallback of a site, such as the width of an expert, that no calibration row came to: it is
 * cut by its weights alone, without a fit. */
#define SITE_NOT_REACHED "not reached"

typedef struct site_result {
    grail_site_report report;
    grail_reducer *reducer; /* owned; NULL until decided, and for sites that keep everything */
    int64_t *removed, *unreached; /* owned, of experts; the report borrows them */
    grail_fit *fits;              /* owned, [report.fit_count]; report.fits borrows it */
} site_result;

/** Results with the planned widths of every site, of which facts[sites] tell, nothing decided yet.
 * *out is [sites], owned: site_results_free. Names are borrowed from the facts. */
grail_status site_results_create(const grail_site_facts *facts, const plan *p,
                                 site_result **out) GRAIL_MUST_CHECK;
void site_results_free(site_result *results, int count); /* NULL is allowed */

/** Takes a decision over; of experts it lists those that go. */
grail_status site_result_decide(site_result *result, site_kind kind,
                                grail_reducer *reducer) GRAIL_MUST_CHECK;

/** The parameter name that identifies a consumer in fits. */
const char *site_consumer_name(const graph *g, const site *s, int consumer);

/** The fit of the consumer with this name. */
grail_fit site_fit_of(const char *consumer, const ridge_result *result, double dense_share,
                      bool bias);
/** Adds a fit to the site's report and to the means over its consumers. */
grail_status site_result_add_fit(site_result *result, const grail_fit *fit) GRAIL_MUST_CHECK;

/** The static string equal to `name`; "none" for NULL and for anything that is not a fallback. */
const char *site_fallback_name(const char *name);

#endif
