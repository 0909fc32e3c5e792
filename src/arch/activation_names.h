/* The names of activations in configurations. */
#ifndef GRAIL_ARCH_ACTIVATION_NAMES_H
#define GRAIL_ARCH_ACTIVATION_NAMES_H

#include "base/json.h"
#include "graph/attributes.h"

/** The activation that object[key] names, `fallback` where the key is absent. An unknown name is
 * GRAIL_ERROR_UNSUPPORTED; the message lists the known names. */
grail_status read_activation(const char *source, const json_t *object, const char *key,
                             activation_kind fallback, activation_kind *out) GRAIL_MUST_CHECK;

/** The name that Hugging Face configurations use, else that of its row in activation_list.h. */
const char *activation_name(activation_kind kind);

#endif
