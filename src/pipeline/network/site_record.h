/* Results of sites and of refits as JSON: in report.json, and in the records of finished blocks. */
#ifndef GRAIL_PIPELINE_NETWORK_SITE_RECORD_H
#define GRAIL_PIPELINE_NETWORK_SITE_RECORD_H

#include "base/json.h"
#include "pipeline/network/refits.h"
#include "pipeline/network/site_result.h"

/** Adds the report, with the kept units or labels. */
grail_status site_result_to_json(const site_result *result, json_t *object) GRAIL_MUST_CHECK;

/** Restores the result of a site that is not decided yet from its record. */
grail_status site_result_restore(const graph *g, const site *s, int64_t kept, const json_t *record,
                                 site_result *result) GRAIL_MUST_CHECK;

/** Adds the list "refits" of a block; with `every`, of all blocks. */
grail_status refits_to_json(const refit_list *list, int block, bool every,
                            json_t *object) GRAIL_MUST_CHECK;
/** Adds the refits of a record to the list. */
grail_status refits_restore(const graph *g, const json_t *record,
                            refit_list *list) GRAIL_MUST_CHECK;

#endif
