/* An image in memory, in the mode of its file. The modes are those in which Pillow 9.4 opens JPEG
 * and PNG files; how they resize and become RGB depends on them. */
#ifndef GRAIL_FORMAT_IMAGES_IMAGE_H
#define GRAIL_FORMAT_IMAGES_IMAGE_H

#include "base/memory.h"

typedef enum image_mode {
    IMAGE_BILEVEL,    /* 0 or 255 */
    IMAGE_GREY,       /* L */
    IMAGE_GREY_ALPHA, /* LA */
    IMAGE_GREY_WIDE,  /* I: int32, from 16 bits */
    IMAGE_PALETTE,    /* P */
    IMAGE_RGB,
    IMAGE_RGBA,
    IMAGE_CMYK /* 0 means no ink */
} image_mode;

enum { IMAGE_PALETTE_COLOURS = 256 };

/* Limits, checked against the header before pixels are decoded. The table in docs/formats.md lists
 * them. */

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

typedef struct image {
    image_mode mode;
    int64_t width;
    int64_t height;
    unsigned char *pixels; /* [height, width, image_pixel_bytes(mode)], owned */
    unsigned char palette[IMAGE_PALETTE_COLOURS][3];
} image;

/** Bytes of a pixel; int32 in the machine's order for IMAGE_GREY_WIDE. */
size_t image_pixel_bytes(image_mode mode);

/** Allocates unset pixels. */
grail_status image_new(image_mode mode, int64_t width, int64_t height, image *out) GRAIL_MUST_CHECK;
void image_fini(image *picture); /* works on a zeroed one */

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
grail_status image_new_checked(const image_header *h, int64_t most_pixels,
                               image *out) GRAIL_MUST_CHECK;

/** round(a * b / 255) of two bytes, by shifts. */
static inline int image_multiply(int a, int b)
{
    const int product = a * b + 128;
    return ((product >> 8) + product) >> 8;
}

/** Converts an image to RGB in place, as Pillow's convert("RGB") does: alpha is dropped, wide grey
 * is clipped to 0 .. 255. */
grail_status image_to_rgb(image *picture) GRAIL_MUST_CHECK;

#endif
