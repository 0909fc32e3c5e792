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
