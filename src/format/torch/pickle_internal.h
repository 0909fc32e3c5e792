/* Shared by the parts of the pickle reader: memory, new values, and the results of calls. */
#ifndef GRAIL_FORMAT_TORCH_PICKLE_INTERNAL_H
#define GRAIL_FORMAT_TORCH_PICKLE_INTERNAL_H

#include "format/torch/pickle.h"
#include "format/torch/torch_limits.h"

typedef struct pickle_chunk pickle_chunk;

struct pickle {
    pickle_chunk *chunks; /* the memory of all values, freed at once */
    pickle_value *root;
    int64_t value_count;
    size_t allocated;
    size_t most_allocated; /* the most that the bytes read so far can need in an honest file */
};

/** `bytes` zeroed bytes, aligned for any value, that live as long as `p`. */
grail_status pickle_allocate(pickle *p, size_t bytes, void *out) GRAIL_MUST_CHECK;

/** A zeroed value of that kind. */
grail_status pickle_new(pickle *p, pickle_kind kind, pickle_value **out) GRAIL_MUST_CHECK;

/** Appends to a LIST, TUPLE, SET or the items of a DICT. */
grail_status pickle_append(pickle *p, pickle_value *list, pickle_value *item) GRAIL_MUST_CHECK;

/** Refuses values that contain themselves or nest deeper than PICKLE_DEEPEST. If only the state of
 * an opaque object does, the state is dropped. */
grail_status pickle_check_nesting(pickle_value *root) GRAIL_MUST_CHECK;

/** Makes a GLOBAL; refuses globals that act on the machine. */
grail_status pickle_new_global(pickle *p, pickle_span module, pickle_span name,
                               pickle_value **out) GRAIL_MUST_CHECK;

/** Calls `function` with the tuple `arguments`. *out is the result if the function is known,
 * otherwise a CALL. */
grail_status pickle_new_call(pickle *p, pickle_value *function, pickle_value *arguments,
                             pickle_value **out) GRAIL_MUST_CHECK;

/** LIST, TUPLE, SET or DICT. */
bool pickle_has_items(const pickle_value *value);

#endif
