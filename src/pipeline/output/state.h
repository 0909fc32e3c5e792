/* The state of a run on disk: grail-state.jsonl in OUTPUT.partial, a record a line, each written
 * after what it records. A torn last line is ignored. The run that writes it holds a lock on it,
 * which ends with the program however that ends. */
#ifndef GRAIL_PIPELINE_OUTPUT_STATE_H
#define GRAIL_PIPELINE_OUTPUT_STATE_H

#include "base/json.h"

typedef struct run_state {
    const char *directory; /* OUTPUT.partial, borrowed */
    int lock;              /* descriptor that keeps other runs out; -1 without */
} run_state;

/** Keeps other runs out of the directory; GRAIL_ERROR_EXISTS where one is in it. Without `create` a
 * missing state is let be. */
grail_status state_lock(run_state *s, bool create) GRAIL_MUST_CHECK;
void state_unlock(run_state *s);

/** Appends a record, on disk when it returns. */
grail_status state_append(const run_state *s, const json_t *record) GRAIL_MUST_CHECK;
/** Appends to `records` what was recorded, nothing where there is no state; cuts a torn tail off.
 */
grail_status state_read(const run_state *s, json_t *records) GRAIL_MUST_CHECK;

/** From a finished output. */
grail_status state_remove(const char *directory) GRAIL_MUST_CHECK;
/** From an output that has only begun; what cannot be removed stays. */
void state_discard(const run_state *s);

#endif
