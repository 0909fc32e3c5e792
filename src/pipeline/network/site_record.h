/* A site's result as JSON: in report.json, and in the record of a finished block. */
#ifndef GRAIL_PIPELINE_NETWORK_SITE_RECORD_H
#define GRAIL_PIPELINE_NETWORK_SITE_RECORD_H

#include "base/json.h"
#include "pipeline/network/site_result.h"
#include "pipeline/request/request.h"

/** Adds the report, with the kept units or labels. */
grail_status site_result_to_json(const site_result *result, json_t *object) GRAIL_MUST_CHECK;

/** Restores the result of a site that is not decided yet from its record. */
grail_status site_result_restore(const compression_request *request, int site, const json_t *record,
                                 site_result *result) GRAIL_MUST_CHECK;

#endif
