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

/* Values that all descriptions have in common. A missing key or null leaves *out as it is. */

/** object[key], which must be an object. */
grail_status read_object(const char *source, const json_t *object, const char *key,
                         const json_t **out) GRAIL_MUST_CHECK;

/** A length in pixels, 1 to IMAGE_LARGEST_SIDE: an integer. `key` names `value` in messages. */
grail_status read_length(const char *source, const char *key, const json_t *value,
                         int64_t *out) GRAIL_MUST_CHECK;

/** The length of both edges, from [length, length], or {"height": length, "width": length}, or one
 * number. Edges of different lengths are GRAIL_ERROR_UNSUPPORTED. */
grail_status read_square(const char *source, const char *key, const json_t *value,
                         int64_t *out) GRAIL_MUST_CHECK;

/** Which edges are resized: the shorter one where the word is `shorter`, which is the usual one, or
 * both where it is "squash". Others are GRAIL_ERROR_UNSUPPORTED. */
grail_status read_edges(const char *source, const json_t *object, const char *key,
                        const char *shorter, image_edges *out) GRAIL_MUST_CHECK;

/** A number above 0. */
grail_status read_positive(const char *source, const json_t *object, const char *key,
                           double *out) GRAIL_MUST_CHECK;

/** Three numbers, or one for all colours, also as an array of one. Deviations must be above 0. */
grail_status read_mean(const char *source, const json_t *object, const char *key,
                       double out[3]) GRAIL_MUST_CHECK;
grail_status read_deviation(const char *source, const json_t *object, const char *key,
                            double out[3]) GRAIL_MUST_CHECK;

/** The name of a filter; an unknown one is GRAIL_ERROR_UNSUPPORTED. */
grail_status read_filter_name(const char *source, const json_t *object, const char *key,
                              image_filter *out) GRAIL_MUST_CHECK;

/** What open_clip and timm have in common where their descriptions are silent: the shorter edge is
 * resized to 224 by bicubic interpolation, and values are divided by 255. */
image_preparation preparation_usual(const double mean[3], const double deviation[3]);

/** Refuses a preparation whose values do not fit together. */
grail_status preparation_check(const char *source, const image_preparation *p) GRAIL_MUST_CHECK;

extern const double imagenet_mean[3], imagenet_deviation[3];
extern const double clip_mean[3], clip_deviation[3];

/** to[3] <- from[3] */
void copy_triple(const double from[3], double to[3]);

#endif
