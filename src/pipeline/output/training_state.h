/* Where the training of the whole network stands, on disk beside the records of the run: every
 * weight, moment and best value, so that a continued run goes on with the same bytes. */
#ifndef GRAIL_PIPELINE_OUTPUT_TRAINING_STATE_H
#define GRAIL_PIPELINE_OUTPUT_TRAINING_STATE_H

#include "base/record.h"
#include "heal/training.h"

/** Whether a state was saved. */
bool training_is_saved(const run_record *directory);

/** Writes the file that does not hold the last state, then a record that names it. The file is on
 * disk before the record. */
grail_status training_save(run_record *directory, const optimizer *o,
                           const training_state *state) GRAIL_MUST_CHECK;

/** Restores the state saved last; leaves *state alone where there is none. GRAIL_ERROR_FORMAT when
 * the file is not what the record says. */
grail_status training_restore(run_record *directory, optimizer *o,
                              training_state *state) GRAIL_MUST_CHECK;

#endif
