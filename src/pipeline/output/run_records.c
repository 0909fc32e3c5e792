#include "pipeline/output/run_records.h"

#include "pipeline/network/fit_record.h"
#include "pipeline/network/site_record.h"

#include <string.h>

grail_status record_put_flag(run_record *r, const char *key)
{
    grail_status status = GRAIL_OK;
    json_t *entry = json_object();
    TRY(json_put(entry, key, json_true()));
    TRY(record_put(r, entry));
out:
    json_decref(entry);
    return status;
}

grail_status record_put_results(const calibration_network *network, int block, bool every,
                                json_t *record)
{
    json_t *list = json_array();
    const compression_request *request = network->request;
    CHECK(json_put(record, RECORD_SITES, list));
    for (int i = 0; i < request->plan.count; i++) {
        if ((every || site_at(request, i)->block == block) && network->results[i].reducer != NULL) {
            json_t *one = json_object();
            CHECK(json_push(list, one));
            CHECK(site_result_to_json(&network->results[i], one));
        }
    }
    if (network->refits.count > 0) {
        CHECK(refits_to_json(&network->refits, block, every, record));
    }
    return healings_to_json(&network->healings, block, every, record);
}

static const json_t *site_of(const json_t *record, const char *name)
{
    const json_t *list = json_object_get(record, RECORD_SITES);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const char *found = json_string_value(json_object_get(one, "site"));
        if (found != NULL && strcmp(found, name) == 0) {
            return one;
        }
    }
    return NULL;
}

static grail_status restore_site(const json_t *record, const compression_request *request,
                                 int index, const char *place, site_result *result)
{
    const char *name = request->sites->facts[index].name;
    const json_t *one = site_of(record, name);
    if (one == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "'%s' has no record of site '%s'; delete this directory and run again",
                         place, name);
    }
    return site_result_restore(request, index, one, result);
}

grail_status record_restore_sites(const json_t *record, const compression_request *request,
                                  int block, bool every, const char *place, site_result *results)
{
    for (int i = 0; i < request->plan.count; i++) {
        if ((every || site_at(request, i)->block == block) && site_is_cut(&request->plan, i)) {
            CHECK(restore_site(record, request, i, place, &results[i]));
        }
    }
    return GRAIL_OK;
}

grail_status record_restore(const json_t *record, int block, bool every, const char *place,
                            calibration_network *network)
{
    CHECK(record_restore_sites(record, network->request, block, every, place, network->results));
    CHECK(refits_restore(network->request, record, &network->refits));
    return healings_restore(record, &network->healings);
}
