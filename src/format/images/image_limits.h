/* Limits for images, checked against the header before pixels are decoded. The table in
 * docs/formats.md lists them. */
#ifndef GRAIL_FORMAT_IMAGES_IMAGE_LIMITS_H
#define GRAIL_FORMAT_IMAGES_IMAGE_LIMITS_H

#include "format/images/image.h"

/** The most pixels that Pillow opens: twice its MAX_IMAGE_PIXELS. */
#define IMAGE_MOST_PIXELS ((int64_t)178956970)

/** Pixels of all scans of a progressive JPEG together: a scan may have only a few bytes, but
 * decoding it walks over the entire image. */
#define IMAGE_MOST_SCANNED ((int64_t)1 << 32)

enum {
    IMAGE_LONGEST_SIDE = 65535, /* the longest that JPEG can store */

    /* Bytes that a decoded image may take: this many times the bytes of its file, plus a fixed
     * allowance. Photographs take up to fifty times. */
    IMAGE_MOST_RATIO = 200,
    IMAGE_FREE_BYTES = 1 << 26,

    IMAGE_MOST_SCANS = 500, /* encoders write about ten */
    IMAGE_LARGEST_FILE = 1 << 30,
    IMAGE_LARGEST_LABELS = 1 << 28 /* bytes of a CSV */
};

/** Refuses an image without pixels, or with more than `most_pixels`. */
grail_status image_check_size(int64_t width, int64_t height, int64_t most_pixels) GRAIL_MUST_CHECK;

/** Facts from the header of a file of `file_size` bytes, known before anything is decoded. */
typedef struct image_header {
    image_mode mode;
    int64_t width;
    int64_t height;
    size_t file_size;
} image_header;

/** Refuses an image beyond the limits, and allocates its pixels. */
grail_status image_new_checked(const image_header *header, int64_t most_pixels,
                               image *out) GRAIL_MUST_CHECK;

#endif
