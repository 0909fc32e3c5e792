/* Finds the configuration that belongs to the weights being opened. */
#ifndef GRAIL_ARCH_MODEL_CONFIG_H
#define GRAIL_ARCH_MODEL_CONFIG_H

#include "format/weights/checkpoint.h"

#define MODEL_CONFIG_NAME "config.json"
#define MODEL_GRAIL_NAME "grail.json"
#define OPEN_CLIP_CONFIG_NAME "open_clip_config.json"
/* What grail writes beside a result for timm's adapt_model_from_string. */
#define TIMM_WIDTHS_NAME "timm-widths.txt"
#define PREPROCESSOR_CONFIG_NAME "preprocessor_config.json"
#define PROCESSOR_CONFIG_NAME "processor_config.json"

/** All members are NULL if there is no configuration. */
typedef struct model_config {
    const char *name; /* MODEL_CONFIG_NAME or MODEL_GRAIL_NAME, static */
    char *path;       /* owned */
    json_t *document; /* an object, owned */
} model_config;

/**
 * Reads the configuration of a directory: config.json, or else grail.json, which grail writes for a
 * narrowed checkpoint that had no config.json. A weights file uses the configuration of its
 * directory only if opening the directory would open this file. It uses a config.json only if the
 * file has a name that Hugging Face gives to weights and the config.json names a family: other
 * programs also leave a config.json beside their checkpoints. A GGUF file has its configuration
 * inside, so *out is empty. That of a model in memory (NULL: of `path`) is among its documents.
 * *out is owned: model_config_fini.
 */
grail_status model_config_read(const checkpoint *memory, const char *path,
                               model_config *out) GRAIL_MUST_CHECK;
void model_config_fini(model_config *config);

/** *out, owned, is the directory whose files belong to the weights at `path`: the directory itself,
 * or that of a weights file which opening the directory would open, or which open_clip named. NULL
 * for a file that only lies beside others. */
grail_status model_config_directory(const char *path, char **out) GRAIL_MUST_CHECK;

/** Whether a file beside weights belongs to the model, by the ending of its name: what readers of
 * configurations, tokenizers and chat templates look for. */
bool model_config_is_beside(const char *name);

/** The JSON object of that name (static) in `directory`, or among the documents of a model in
 * memory; all members of *out are NULL if there is none, or no directory. *out is owned:
 * model_config_fini. */
grail_status model_config_read_beside(const checkpoint *weights, const char *directory,
                                      const char *name, model_config *out) GRAIL_MUST_CHECK;

#endif
