/* The records of a run, in the order in which they are written:
 *
 *   {fingerprint of the run..., "keep_activations": bool}
 *   {"laid_out": true}                                 weight files and companions
 *   {"block": b, "sites": [...], "refits": [...], "tensors": {name: CRC-32}}
 *                                                      b is -1 outside all blocks
 *   {"fitted": true, "sites": [...], "refits": [...], "healed": [...], "tensors": {...}}
 *                                                      all at once, before the network is healed
 *   {"training": {"file": 0 or 1, "steps": n, ..., "checksums": [...]}}
 *                                                      where that stands
 *   {"weights": true, "sites": [...], "refits": [...], "tensors": {...}}
 *                                                      all at once, at the end */
#ifndef GRAIL_PIPELINE_OUTPUT_RUN_RECORDS_H
#define GRAIL_PIPELINE_OUTPUT_RUN_RECORDS_H

#include "base/record.h"
#include "heal/training.h"
#include "pipeline/network/network.h"

#define RECORD_BLOCK "block"
#define RECORD_WEIGHTS "weights"
#define RECORD_FITTED "fitted"
#define RECORD_TRAINING "training"
#define RECORD_SITES "sites"
#define RECORD_TENSORS "tensors"

/** Adds the results of every decided site and of every refit of a block to its record; with
 * `every`, of all blocks. */
grail_status record_put_results(const calibration_network *network, int block, bool every,
                                json_t *record) GRAIL_MUST_CHECK;
/** Restores results[sites] from a record, for every cut site of a block, or with `every` of all
 * blocks. A record that lacks one of them is GRAIL_ERROR_FORMAT; the message names `place`. */
grail_status record_restore_sites(const json_t *record, const cutting *cut, int block, bool every,
                                  const char *place, site_result *results) GRAIL_MUST_CHECK;
/** The same, with the results of refits and of healings. */
grail_status record_restore(const json_t *record, int block, bool every, const char *place,
                            calibration_network *network) GRAIL_MUST_CHECK;

/** Whether the record says where the training of the whole network stands: every weight, moment and
 * best value, so that a continued run goes on with the same bytes. */
bool training_is_saved(const run_record *r);
/** Writes the file beside the record `r` that does not hold the last state, then an entry that
 * names it. The file is on disk before the entry. */
grail_status training_save(void *r, const optimizer *o,
                           const training_state *state) GRAIL_MUST_CHECK;
/** Restores the state saved last; leaves *state alone where there is none. GRAIL_ERROR_FORMAT when
 * the file is not what the entry says. */
grail_status training_restore(void *r, optimizer *o, training_state *state) GRAIL_MUST_CHECK;

#endif
