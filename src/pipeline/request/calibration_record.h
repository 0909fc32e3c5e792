/* What report.json beside a narrowed model records of its calibration set. */
#ifndef GRAIL_PIPELINE_REQUEST_CALIBRATION_RECORD_H
#define GRAIL_PIPELINE_REQUEST_CALIBRATION_RECORD_H

#include "arch/model.h"
#include "base/hash.h"

/* The file beside report.json that keeps the hashes of a calibration set. */
#define CALIBRATION_HASHES_NAME "calibration.hashes"

/* Keys of a record: what is known of statistics that a run took from a file, and in that, or in a
 * record itself, the records of the parts that it consists of. */
#define CALIBRATION_STATISTICS_KEY "statistics"
#define CALIBRATION_PARTS_KEY "parts"

/* True where the network drew the samples itself; the hash is then of what decided them. */
#define CALIBRATION_DRAWN_KEY "drawn"

/* How many documents, each of which is a window, have all tokens of the context. */
#define CALIBRATION_FULL_KEY "full_documents"

/* What is to be said of the samples, a text for people; missing where there is nothing to say. */
#define CALIBRATION_NOTICE_KEY "notice"

/** *out is the caller's reference; NULL where the model has no report or names no calibration set.
 */
grail_status calibration_record_read(const grail_model *model, json_t **out) GRAIL_MUST_CHECK;

/** Whether `hash` is what the record, or one of those before it, has under `key`; false without a
 * record. */
bool calibration_record_is(const json_t *record, const char *key, const char *hash);

/** The hashes of the calibration set, in the file beside the record; in a result of an older grail,
 * in the record itself. Empty where there are none: no record, or no file. A file that is not the
 * one that the record names is GRAIL_ERROR_FORMAT. hash_set_fini frees *out. */
grail_status calibration_record_hashes(const grail_model *model, const json_t *record,
                                       hash_set *out) GRAIL_MUST_CHECK;

/** Adds what the model itself was calibrated on earlier, where it was: its hashes to `hashes`, and
 * its record to `description` under "before". */
grail_status calibration_record_inherit(const grail_model *model, hash_set *hashes,
                                        json_t *description) GRAIL_MUST_CHECK;

#endif
