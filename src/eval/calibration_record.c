#include "eval/calibration_record.h"

#include "base/file.h"

#include <string.h>

enum { REPORT_MAXIMUM = 256 << 20 };

grail_status calibration_record_read(const grail_model *model, json_t **out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    json_t *report = NULL;
    *out = NULL;
    TRY(path_join(&path, checkpoint_directory(model->checkpoint), "report.json"));
    if (file_exists(path)) {
        TRY(json_read_file(path, REPORT_MAXIMUM, &report));
        *out = json_incref(json_object_get(report, "calibration"));
    }
out:
    json_decref(report);
    memory_free(path);
    return status;
}

bool calibration_record_is(const json_t *record, const char *key, const char *hash)
{
    const char *recorded = json_string_value(json_object_get(record, key));
    return recorded != NULL && strcmp(recorded, hash) == 0;
}
