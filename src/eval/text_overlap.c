#include "eval/text_overlap.h"

#include "pipeline/request/calibration_record.h"

grail_status text_overlap_find(const grail_model *model, const token_windows *windows,
                               text_overlap *out)
{
    grail_status status = GRAIL_OK;
    json_t *record = NULL;
    hash_set set = {0};
    TRY(calibration_record_read(model, &record));
    TRY(calibration_record_hashes(model, record, &set));
    *out = (text_overlap){.recorded = set.count,
                          .found = shingles_found(&set, windows),
                          .is_calibration =
                              calibration_record_is(record, "text_sha256", windows->text_hash)};
out:
    hash_set_fini(&set);
    json_decref(record);
    return status;
}
