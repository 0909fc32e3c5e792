/* What is known of networks that grail cannot open (refusals.json, which is compiled in):
 *   families  "model_type": [the known family that is nearest or null, in what they differ]
 *   keys      a key of config.json: what it shows of a family without a row
 *   parts     components of the names of tensors: what they show of an image network
 * Reasons continue the messages that quote them. */
#ifndef GRAIL_ARCH_REFUSALS_H
#define GRAIL_ARCH_REFUSALS_H

#include "base/json.h"

/** NULL where memory is short: then a refusal gives no reason. Owned: json_decref. */
json_t *refusals_read(void);

#endif
