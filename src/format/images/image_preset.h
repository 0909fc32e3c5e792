/* How images become a network's input: the published preprocessing pipelines by name. */
#ifndef GRAIL_FORMAT_IMAGES_IMAGE_PRESET_H
#define GRAIL_FORMAT_IMAGES_IMAGE_PRESET_H

#include "format/images/image_resize.h"

#include <grail/images.h>

/** Everything a pixel goes through: resized so that the shorter side is `resize`, cropped to the
 * central side x side, made RGB, and looked up in `table`. */
typedef struct image_rule {
    const char *preset;
    int64_t side;
    int64_t resize; /* 0 = not resized, and the file's size must be side x side */
    image_filter filter;
    bool own_mode; /* resized in the file's mode and made RGB after; else the other way round */
    float table[3][256]; /* [channel][byte]: (byte / 255 - mean) / deviation in f32 */
} image_rule;

/** The rule of a source; `preset` is used where the source names none. Messages list what is
 * known. */
grail_status image_rule_resolve(const grail_image_source *source, const char *preset,
                                image_rule *out) GRAIL_MUST_CHECK;

#endif
