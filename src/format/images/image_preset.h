/* The published preprocessing pipelines, by name. */
#ifndef GRAIL_FORMAT_IMAGES_IMAGE_PRESET_H
#define GRAIL_FORMAT_IMAGES_IMAGE_PRESET_H

#include "format/images/image_resize.h"

#include <grail/images.h>

/** The steps from an image to the network's input: resize the shorter side to `resize`, crop the
 * central side x side, convert to RGB, and look every byte up in `table`. */
typedef struct image_rule {
    const char *preset;
    int64_t side;
    int64_t resize; /* 0 = not resized, and the file's size must be side x side */
    image_filter filter;
    bool own_mode;       /* resize in the file's mode, then convert to RGB; else convert first */
    float table[3][256]; /* [channel][byte]: (byte / 255 - mean) / deviation in f32 */
} image_rule;

/** The rule of a source; `preset` is used if the source names none. A message about an unknown
 * preset lists the known ones. */
grail_status image_rule_resolve(const grail_image_source *source, const char *preset,
                                image_rule *out) GRAIL_MUST_CHECK;

#endif
