/* Which configuration belongs to the weights that are opened. */
#ifndef GRAIL_ARCH_MODEL_CONFIG_H
#define GRAIL_ARCH_MODEL_CONFIG_H

#include "base/json.h"

#define MODEL_CONFIG_NAME "config.json"
#define MODEL_GRAIL_NAME "grail.json"

/** All NULL where there is no configuration. */
typedef struct model_config {
    const char *name; /* MODEL_CONFIG_NAME or MODEL_GRAIL_NAME, static */
    char *path;       /* owned */
    json_t *document; /* an object, owned */
} model_config;

/**
 * Reads the configuration of a directory: config.json, or else grail.json, which is written beside
 * what was narrowed from a checkpoint without config.json. A weights file has that of the directory
 * it is in when it is what opening the directory would read, and config.json only under a name that
 * Hugging Face gives to weights and when it names a family: other programs leave files of that name
 * beside their checkpoints. *out is owned: model_config_fini.
 */
grail_status model_config_read(const char *path, model_config *out) GRAIL_MUST_CHECK;
void model_config_fini(model_config *config);

#endif
