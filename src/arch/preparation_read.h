/* Reads what libraries write of how images are prepared. `source` names the document in messages.
 * A value that is missing is what the library takes for it; one that is wrong is
 * GRAIL_ERROR_FORMAT, one that grail cannot follow GRAIL_ERROR_UNSUPPORTED; the message names the
 * key. */
#ifndef GRAIL_ARCH_PREPARATION_READ_H
#define GRAIL_ARCH_PREPARATION_READ_H

#include "base/json.h"
#include "format/images/image_preset.h"

/** Hugging Face's preprocessor_config.json. `usual` is the image processor of a document that names
 * none, such as "ViT". */
grail_status preparation_of_huggingface(const char *source, const json_t *document,
                                        const char *usual, image_preparation *out) GRAIL_MUST_CHECK;

/** timm's config.json: its "pretrained_cfg", or the document itself as older versions wrote it.
 * *found is false, and *out unchanged, for a document without both. */
grail_status preparation_of_timm(const char *source, const json_t *document, bool *found,
                                 image_preparation *out) GRAIL_MUST_CHECK;

/** open_clip's open_clip_config.json: "preprocess_cfg", and the size in "model_cfg". */
grail_status preparation_of_open_clip(const char *source, const json_t *document,
                                      image_preparation *out) GRAIL_MUST_CHECK;

#endif
