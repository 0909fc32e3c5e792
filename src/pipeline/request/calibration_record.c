#include "pipeline/request/calibration_record.h"

#include "format/weights/beside.h"

#include <stdlib.h>
#include <string.h>

enum { REPORT_MAXIMUM = 256 << 20 };

static const char before_key[] = "before";
static const char listed_key[] = "shingles"; /* of version 1 */

grail_status calibration_record_read(const grail_model *model, json_t **out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    json_t *report = NULL;
    *out = NULL;
    TRY(beside_read_json(model->checkpoint, "report.json", REPORT_MAXIMUM, &path, &report));
    *out = json_incref(json_object_get(report, "calibration"));
out:
    json_decref(report);
    memory_free(path);
    return status;
}

static bool any_part_is(const json_t *record, const char *key, const char *hash)
{
    const json_t *parts = json_object_get(record, CALIBRATION_PARTS_KEY);
    bool found = false;
    for (size_t i = 0; i < json_array_size(parts) && !found; i++) {
        found = calibration_record_is(json_array_get(parts, i), key, hash);
    }
    return found;
}

/* A document is at most as deep as its reader allows. */
bool calibration_record_is(const json_t *record, const char *key, const char *hash)
{
    for (; record != NULL; record = json_object_get(record, before_key)) {
        const char *recorded = json_string_value(json_object_get(record, key));
        if ((recorded != NULL && strcmp(recorded, hash) == 0) || any_part_is(record, key, hash) ||
            any_part_is(json_object_get(record, CALIBRATION_STATISTICS_KEY), key, hash)) {
            return true;
        }
    }
    return false;
}

static grail_status read_hashes(const grail_model *model, const char *sha256, hash_set *out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    buffer bytes = {0};
    status =
        beside_read(model->checkpoint, CALIBRATION_HASHES_NAME, HASH_SET_LARGEST, &path, &bytes);
    if (status == GRAIL_OK && path != NULL) {
        status = hash_set_read(path, &bytes, sha256, out);
    }
    if (status != GRAIL_OK) {
        error_append("; put back the file that was written with report.json, or delete it, and no "
                     "overlap with the calibration set is looked for");
    }
    buffer_fini(&bytes);
    memory_free(path);
    return status;
}

/* As written with report.json of version 1: {"shingles": [16 hexadecimal digits, ...]}. */
static grail_status take_listed(const json_t *record, hash_set *out)
{
    const json_t *list = json_object_get(record, listed_key);
    CHECK(hash_set_init(out));
    for (size_t i = 0; i < json_array_size(list) && i < HASH_SET_MOST; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        out->hashes[out->count++] = text == NULL ? 0 : strtoull(text, NULL, 16);
    }
    hash_set_settle(out);
    return GRAIL_OK;
}

grail_status calibration_record_hashes(const grail_model *model, const json_t *record,
                                       hash_set *out)
{
    const json_t *sha256 = json_object_get(record, "hashes_sha256");
    *out = (hash_set){0};
    return json_is_string(sha256) ? read_hashes(model, json_string_value(sha256), out)
                                  : take_listed(record, out);
}

/* A record without samples says nothing by itself. */
static const json_t *telling(const json_t *record)
{
    const bool has_samples = json_integer_value(json_object_get(record, "samples")) > 0 ||
                             json_object_get(record, CALIBRATION_STATISTICS_KEY) != NULL;
    return has_samples ? record : json_object_get(record, before_key);
}

grail_status calibration_record_inherit(const grail_model *model, hash_set *hashes,
                                        json_t *description)
{
    grail_status status = GRAIL_OK;
    json_t *record = NULL;
    json_t *kept = NULL;
    hash_set before = {0};
    TRY(calibration_record_read(model, &record));
    if (telling(record) != NULL) {
        TRY(calibration_record_hashes(model, record, &before));
        TRY(hash_set_add(hashes, &before));
        kept = json_deep_copy(telling(record));
        (void)json_object_del(kept, listed_key);
        status = json_put(description, before_key, kept);
    }
out:
    hash_set_fini(&before);
    json_decref(record);
    return status;
}
