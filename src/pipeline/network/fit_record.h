/* Fits as JSON: in report.json, and in the records of finished blocks. */
#ifndef GRAIL_PIPELINE_NETWORK_FIT_RECORD_H
#define GRAIL_PIPELINE_NETWORK_FIT_RECORD_H

#include "base/json.h"
#include "pipeline/network/refits.h"
#include "pipeline/request/request.h"

/** Everything of a fit but the name of the map. */
grail_status fit_to_json(const grail_fit *fit, json_t *object) GRAIL_MUST_CHECK;
grail_fit fit_from_json(const json_t *object);

/** Adds the list "refits" of a block; with `every`, of all blocks. */
grail_status refits_to_json(const refit_list *list, int block, bool every,
                            json_t *object) GRAIL_MUST_CHECK;
/** Adds the refits of a record to the list. */
grail_status refits_restore(const compression_request *request, const json_t *record,
                            refit_list *list) GRAIL_MUST_CHECK;

#endif
