/* How images become a network's input: the published pipelines by name, and what a checkpoint
 * describes. */
#ifndef GRAIL_FORMAT_IMAGES_IMAGE_PRESET_H
#define GRAIL_FORMAT_IMAGES_IMAGE_PRESET_H

#include "format/images/image_resize.h"

#include <grail/images.h>

enum { IMAGE_LARGEST_SIDE = 8192 };

/** The edges whose length is given before the crop. */
typedef enum image_edges {
    IMAGE_NOT_RESIZED, /* the file's size must be side x side */
    IMAGE_SHORTER_EDGE,
    IMAGE_BOTH_EDGES
} image_edges;

/** From an image to the network's input: resize `edges` to floor(side * numerator / denominator),
 * crop the central side x side, convert to RGB, and scale every byte to
 * (byte * rescale - mean) / deviation. */
typedef struct image_preparation {
    const char *name; /* static: that of a preset, or IMAGE_OF_CHECKPOINT */
    int64_t side;
    image_edges edges;
    double numerator, denominator;
    image_filter filter;
    bool own_mode;   /* resize in the file's mode, then convert to RGB; else convert first */
    bool crops_down; /* half a pixel of the crop's place is rounded down, else to the even number */
    double rescale;
    double mean[3], deviation[3];
} image_preparation;

#define IMAGE_OF_CHECKPOINT "checkpoint"

/** The preset of that name; a message about an unknown one lists the known ones. */
grail_status image_preset_find(const char *name, const image_preparation **out) GRAIL_MUST_CHECK;

/** The length that `edges` of images have after resizing, where the input has this side. */
int64_t image_resized_length(const image_preparation *p, int64_t side);

/** The values of a source's mean or deviation; where it has none the usual ones, which may be
 * NULL. */
const double *image_values(const grail_colour *given, const double *usual);

/** What is wrong with the values of a preparation, NULL if nothing is; static. */
const char *image_preparation_fault(const image_preparation *p);

/** A preparation at one size, with a look-up table for bytes. */
typedef struct image_rule {
    const char *preset;
    int64_t height, width;
    int channels;  /* 3, or 1: the grey value, scaled as the first of the three */
    bool is_exact; /* resized to height x width, without a crop */
    image_edges edges;
    int64_t resize; /* of these edges, where not */
    image_filter filter;
    bool own_mode, crops_down;
    float table[3][256]; /* [channel][byte]: (byte * rescale - mean) / deviation in f32 */
} image_rule;

/** The rule of a source: its preset if it names one, else `usual`, else, where that is NULL,
 * `preset`; the source's size, mean and deviation take precedence. */
grail_status image_rule_make(const grail_image_source *source, const image_preparation *usual,
                             const char *preset, image_rule *out) GRAIL_MUST_CHECK;

/** The same for a network that reads height x width of so many channels, where that is no square
 * of 3: then the picture is resized to exactly that, unless the preset resizes nothing. 0 x 0: the
 * rule's own size. */
grail_status image_rule_fit(image_rule *rule, int64_t height, int64_t width,
                            int64_t channels) GRAIL_MUST_CHECK;

/** out[height, width, channels] <- `picture`, prepared as the rule says; `picture` is overwritten.
 * A size that the rule does not accept is GRAIL_ERROR_SHAPE; messages do not name the file. */
grail_status image_prepare(const image_rule *rule, image *picture, float *out) GRAIL_MUST_CHECK;

#endif
