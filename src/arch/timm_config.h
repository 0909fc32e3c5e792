/* timm's config.json, which names a function of timm and the arguments that it gets. Source: timm
 * 1.0.31, models/_hub.py and _factory.py. */
#ifndef GRAIL_ARCH_TIMM_CONFIG_H
#define GRAIL_ARCH_TIMM_CONFIG_H

#include "base/json.h"

bool timm_config_is(const json_t *config);

/** An argument that create_model gives to the function when it opens the directory; `value` is
 * taken, also where this fails. */
grail_status timm_config_set_argument(json_t *config, const char *name,
                                      json_t *value) GRAIL_MUST_CHECK;

#endif
