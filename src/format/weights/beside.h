/* Files beside weights: those of their directory, or the documents of a model in memory. */
#ifndef GRAIL_FORMAT_WEIGHTS_BESIDE_H
#define GRAIL_FORMAT_WEIGHTS_BESIDE_H

#include "format/weights/checkpoint.h"

/** Reads the file `name` of at most `maximum` bytes. *place, owned, is what messages call it, and
 * stays NULL where there is none. The caller frees both, even after a failure. */
grail_status beside_read(const checkpoint *c, const char *name, size_t maximum, char **place,
                         buffer *out) GRAIL_MUST_CHECK;

/** The same for JSON; *out is owned: json_decref. */
grail_status beside_read_json(const checkpoint *c, const char *name, size_t maximum, char **place,
                              json_t **out) GRAIL_MUST_CHECK;

#endif
