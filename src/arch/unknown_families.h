/* What is known of the families that grail cannot open: the known one that is nearest, and in what
 * they differ. */
#ifndef GRAIL_ARCH_UNKNOWN_FAMILIES_H
#define GRAIL_ARCH_UNKNOWN_FAMILIES_H

#include "base/json.h"

/** Appends to the recorded error why the family `type` is unknown, if that is known: by its
 * "model_type", otherwise by a key of its configuration. Does nothing for others. */
void unknown_family_explain(const char *type, const json_t *config);

#endif
