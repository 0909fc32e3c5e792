/* The weights of one axis of a resize: which source pixels a result pixel is made of, and in what
 * proportion (Pillow's Resample.c). */
#ifndef GRAIL_FORMAT_IMAGES_IMAGE_WEIGHTS_H
#define GRAIL_FORMAT_IMAGES_IMAGE_WEIGHTS_H

#include "format/images/image_resize.h"

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
