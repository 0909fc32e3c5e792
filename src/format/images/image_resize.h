/* Resizing as Pillow 9.4 does it, bit by bit: separable filters over the source pixels that a
 * result pixel covers (so enlarging interpolates and shrinking averages), weights in 22 fractional
 * bits, each pass rounded to the mode's own integers (Pillow's Resample.c; docs/numerics.md,
 * Images). */
#ifndef GRAIL_FORMAT_IMAGES_IMAGE_RESIZE_H
#define GRAIL_FORMAT_IMAGES_IMAGE_RESIZE_H

#include "format/images/image.h"

typedef enum image_filter {
    IMAGE_BILINEAR,
    IMAGE_BICUBIC /* Keys' with a = -1/2 */
} image_filter;

/** A part of the resized image; only it is computed. */
typedef struct image_window {
    int64_t left;
    int64_t top;
    int64_t width;
    int64_t height;
} image_window;

/**
 * *out <- the window of `source` resized to width x height, in the same mode. Palette and bilevel
 * images take the nearest pixel whatever the filter; alpha is multiplied in for filtering and
 * divided out after. *out is owned: image_fini.
 */
grail_status image_resize(const image *source, int64_t width, int64_t height, image_filter filter,
                          image_window window, image *out) GRAIL_MUST_CHECK;

#endif
