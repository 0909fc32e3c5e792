/* What is known of networks that grail cannot open (refusals.json, which is compiled in):
 *   families  "model_type": [the known family that is nearest or null, in what they differ]
 *   keys      a key of config.json: what it shows of a family without a row
 *   parts     components of the names of tensors: what they show of an image network
 * Reasons continue the messages that quote them. */
#ifndef GRAIL_ARCH_REFUSALS_H
#define GRAIL_ARCH_REFUSALS_H

#include "base/json.h"
#include "format/weights/checkpoint.h"

/** NULL where memory is short: then a refusal gives no reason. Owned: json_decref. */
json_t *refusals_read(void);

/** Appends to the recorded error why the family `type` is unknown, if that is known: by its
 * "model_type", otherwise by a key of its configuration. Does nothing for others. */
void unknown_family_explain(const char *type, const json_t *config);

/**
 * If an image network did not open with `status`, and its tensors show why: records this reason
 * instead, and returns GRAIL_ERROR_UNSUPPORTED. Otherwise returns `status` and leaves the message
 * as it is; so with checkpoints without a tensor of four dimensions, which are no image networks.
 */
grail_status foreign_parts_explain(const checkpoint *weights, grail_status status);

/** Refuses a "quantization_config" that says that weights are quantised, but for forms that are
 * read, MXFP4 (format/weights/checkpoint.c) and pack-quantized ones of compressed-tensors
 * (packed_groups.h): it is taken out, since what is written is not quantised. `source` names the
 * configuration, which may be NULL. */
grail_status read_quantisation(const char *source, json_t *config) GRAIL_MUST_CHECK;

/** Refuses tensors that only quantised checkpoints and adapters have; the message names one. */
grail_status refuse_stored_form(const checkpoint *weights) GRAIL_MUST_CHECK;

#endif
