/* A network's input from numpy's .npy files: arrays that nothing prepares. */
#ifndef GRAIL_FORMAT_IMAGES_IMAGE_ARRAYS_H
#define GRAIL_FORMAT_IMAGES_IMAGE_ARRAYS_H

#include "base/file.h"
#include "base/hash.h"
#include "format/text/npy.h"

typedef struct array_file {
    char *path;
    file_map map;
    npy_array array;
    int64_t first, count; /* samples */
} array_file;

/** What the array of one of several inputs must be. */
typedef struct array_layout {
    char name[96];      /* of the input, for messages */
    int rank;           /* dimensions, of which that of the samples comes first */
    bool channels_last; /* behind positions */
    bool of_integers;
    int64_t least, most; /* of integers */
} array_layout;

/** Samples of one shape, in one file or in those of a folder, in the order of their names. */
typedef struct image_arrays {
    struct image_arrays *parts; /* [part_count] of several inputs, side by side; owned */
    int64_t part_count;
    array_file *files; /* [file_count] */
    int64_t file_count, count;
    int64_t channels, height, width;
    array_layout layout;       /* of one of several inputs; rank 0: of the only one */
    char hash[HASH_TEXT_SIZE]; /* of the names and bytes of all files */
} image_arrays;

/** Whether the path is an .npy file, or a folder that holds one, or both by names of several
 * inputs: NAME=PATH,NAME=PATH. */
grail_status image_arrays_recognise(const char *path, bool *out) GRAIL_MUST_CHECK;

/** Maps the files: [samples, channels, height, width] or [samples, channels], or one sample without
 * the first dimension; those of several inputs, with a layout for each, as one position of so many
 * channels. `layouts` may be NULL where the path names no inputs. Errors name the file.
 * image_arrays_close frees, even after a failure. */
grail_status image_arrays_open(const char *path, const array_layout *layouts,
                               image_arrays *out) GRAIL_MUST_CHECK;
/** The same of one input alone. */
grail_status image_arrays_open_part(const char *path, const array_layout *layout,
                                    image_arrays *out) GRAIL_MUST_CHECK;
/** Takes [a, b, c] as a samples [channels, positions], and [b, c] as one: images of width 1. */
grail_status image_arrays_lay_in_row(image_arrays *arrays) GRAIL_MUST_CHECK;
/** Takes [a, b, c] as images [height, width, channels], where c is so many. */
void image_arrays_lay_last(image_arrays *arrays, int64_t channels);
void image_arrays_close(image_arrays *arrays); /* works on a zeroed one */

/** out[height, width, channels] <- sample i, as f32; those of uint8 are 0 to 255. NaN, infinity and
 * integers outside their layout's bounds are GRAIL_ERROR_NUMERIC. */
grail_status image_arrays_load(const image_arrays *arrays, int64_t i, float *out) GRAIL_MUST_CHECK;

/** 64 bits of the SHA-256 of the bytes of sample i. */
uint64_t image_arrays_digest(const image_arrays *arrays, int64_t i);

/** Its file; *index is its number there. */
const char *image_arrays_place(const image_arrays *arrays, int64_t i, int64_t *index);

#endif
