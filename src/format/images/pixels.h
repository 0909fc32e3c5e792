/* Images that a program hands over as the network's input. */
#ifndef GRAIL_FORMAT_IMAGES_PIXELS_H
#define GRAIL_FORMAT_IMAGES_PIXELS_H

#include "base/hash.h"
#include "format/images/image_preset.h"

/* What records call the place of such images, and the preset of what nothing prepares. */
#define PIXELS_PLACE "memory"
#define IMAGE_UNPREPARED "none"

enum { IMAGE_FILE_CHANNELS = 3 };

/** What a preparation would need, such as a preset, is GRAIL_ERROR_ARGUMENT. */
grail_status unprepared_check(const grail_image_source *source) GRAIL_MUST_CHECK;

int64_t pixels_channels(const grail_pixels *p);

/** Checks the source, and every value of its pixels: `side` is that of the network's input. NaN and
 * infinity are GRAIL_ERROR_NUMERIC naming the image. *classes becomes one more than the largest
 * label, 0 without labels. */
grail_status pixels_check(const grail_image_source *source, int64_t side,
                          int64_t *classes) GRAIL_MUST_CHECK;
/** That of all values and labels. */
void pixels_hash(const grail_pixels *p, char hash[HASH_TEXT_SIZE]);

/** out[side, side, channels] <- image i. */
void pixels_copy(const grail_pixels *p, int64_t i, float *out);
/** 64 bits of the SHA-256 of the values of image i. */
uint64_t pixels_digest(const grail_pixels *p, int64_t i);

#endif
