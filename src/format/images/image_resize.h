/* Resizing as Pillow 9.4 does it, bit by bit: separable filters over the source pixels that a
 * result pixel covers (so enlarging interpolates and shrinking averages), weights in 22 fractional
 * bits, each pass rounded to the mode's own integers (Pillow's Resample.c). */
#ifndef GRAIL_FORMAT_IMAGES_IMAGE_RESIZE_H
#define GRAIL_FORMAT_IMAGES_IMAGE_RESIZE_H

#include "format/images/image.h"

typedef enum image_filter {
    IMAGE_BILINEAR,
    IMAGE_BICUBIC, /* Keys' with a = -1/2 */
    IMAGE_NEAREST, /* the source pixel under the middle of the result pixel, without averaging */
    IMAGE_BOX,
    IMAGE_HAMMING,
    IMAGE_LANCZOS /* of 3 lobes */
} image_filter;

enum { IMAGE_FILTERS = IMAGE_LANCZOS + 1 };

/** The name that Pillow, torchvision and timm give to a filter, such as "bicubic". */
const char *image_filter_name(image_filter filter);

/** The part of the resized image that is computed. */
typedef struct image_window {
    int64_t left;
    int64_t top;
    int64_t width;
    int64_t height;
} image_window;

/**
 * *out <- the window of `source` resized to width x height, in the same mode. Palette and bilevel
 * images take the nearest pixel with every filter. Colours are multiplied by alpha before filtering
 * and divided by it after. *out is owned: image_fini.
 */
grail_status image_resize(const image *source, int64_t width, int64_t height, image_filter filter,
                          image_window window, image *out) GRAIL_MUST_CHECK;

/* Fractional bits of a fixed weight. With 22 of them a sum of weighted bytes stays below 2^31: the
 * weights of a row add up to 1, and the negative weights of a filter to more than -1/2. */
enum { IMAGE_WEIGHT_BITS = 22 };

/** Result pixel begin + i is the sum over t < taps[i] of weight[i * span + t] times source pixel
 * first[i] + t. */
typedef struct image_weights {
    int64_t count;
    int64_t span;
    int64_t *first;
    int64_t *taps;
    double *exact;  /* [count, span] */
    int32_t *fixed; /* the same in IMAGE_WEIGHT_BITS */
} image_weights;

/** Weights of any filter but the nearest pixel, for the result pixels begin .. begin + count - 1 of
 * `in` pixels resized to `out`. */
grail_status image_weights_new(image_filter filter, int64_t in, int64_t out, int64_t begin,
                               int64_t count, image_weights *weights) GRAIL_MUST_CHECK;
void image_weights_fini(image_weights *weights); /* works on a zeroed one */

#endif
