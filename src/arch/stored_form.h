/* Checkpoints whose weights are stored in a form that cannot be narrowed. */
#ifndef GRAIL_ARCH_STORED_FORM_H
#define GRAIL_ARCH_STORED_FORM_H

#include "format/weights/checkpoint.h"

/** Refuses a "quantization_config" that says that weights are quantised, but for forms that are
 * read, MXFP4 (format/weights/packed_pairs.h) and pack-quantized ones of compressed-tensors
 * (packed_groups.h): it is taken out, since what is written is not quantised. `source` names the
 * configuration, which may be NULL. */
grail_status read_quantisation(const char *source, json_t *config) GRAIL_MUST_CHECK;

/** Refuses tensors that only quantised checkpoints and adapters have; the message names one. */
grail_status refuse_stored_form(const checkpoint *weights) GRAIL_MUST_CHECK;

#endif
