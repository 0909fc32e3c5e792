/* A set of images, perhaps labelled, prepared as the network's input: decoded, resized and cropped
 * as Pillow 9.4 and torchvision 0.14 do it, bit by bit, then scaled to (x / 255 - mean) / deviation
 * in f32. Layout is [count, height, width, channels], channel last. Arrays, in memory and in .npy
 * files, are the network's input as they are. */
#ifndef GRAIL_FORMAT_IMAGES_IMAGE_SET_H
#define GRAIL_FORMAT_IMAGES_IMAGE_SET_H

#include "base/memory.h"
#include "format/images/image_arrays.h"
#include "format/images/image_preset.h"

typedef grail_images image_set;

/** Whether a source names images at all; it may be NULL. */
bool image_source_is_given(const grail_image_source *source);
/** Whether they are the network's input as they are: pixels in memory, and arrays. */
grail_status image_source_is_unprepared(const grail_image_source *source,
                                        bool *out) GRAIL_MUST_CHECK;
/** Where they lie, for records and messages: the path, or "memory". */
const char *image_source_place(const grail_image_source *source);

/** Lists the images; nothing is decoded yet, except CIFAR batches, which are mapped. Images have a
 * fixed order: that of the batches, or of the sorted paths. *out is owned: image_set_close. */
grail_status image_set_open(const grail_image_source *source, image_set **out) GRAIL_MUST_CHECK;
/** The same with the preparation that is used if the source names no preset; copied. NULL: chosen
 * by the data. `layouts`: what the arrays of several inputs must be, in the order in which the path
 * names them; else NULL. */
grail_status image_set_open_as(const grail_image_source *source, const image_preparation *usual,
                               const array_layout *layouts, image_set **out) GRAIL_MUST_CHECK;
/** Class folders get the indices of the classes that they are named after, as
 * image_folder_name_classes does it; other data keep their labels. */
grail_status image_set_name_classes(image_set *set, const char *const *names,
                                    int64_t count) GRAIL_MUST_CHECK;
const char *image_set_class_notice(const image_set *set); /* that of image_folder */
/** Checks the sizes of arrays; `in_row`: of a network that reads [samples, channels, positions];
 * `last` channels where its file reads [samples, height, width, channels], else 0: arrays may be
 * such, too. */
grail_status image_set_settle(image_set *set, const grail_image_source *source, bool in_row,
                              int64_t last) GRAIL_MUST_CHECK;

/** Prepares the images for a network of that input (image_rule_fit); pixels in memory are as they
 * are. */
grail_status image_set_fit(image_set *set, int64_t height, int64_t width,
                           int64_t channels) GRAIL_MUST_CHECK;
void image_set_close(image_set *set); /* NULL is allowed */

int64_t image_set_count(const image_set *set);
/** How images are prepared: height, width and channels of the network's input among it. */
const image_rule *image_set_rule(const image_set *set);
/** Class index of image i, or -1 when it has none. */
int64_t image_set_label(const image_set *set, int64_t i);
/** Number of classes that the labels are indices of, 0 when there are no labels. */
int64_t image_set_classes(const image_set *set);
/** File (and index in it) of image i, for messages; borrowed until the next call on this thread. */
const char *image_set_name(const image_set *set, int64_t i);
/** IMAGE_UNPREPARED of pixels in memory and of arrays. */
const char *image_set_preset(const image_set *set);
/** sha256 over the names, sizes and labels of all images (of CIFAR batches: over their bytes), in
 * hex. */
const char *image_set_hash(const image_set *set);

/** out[count, height, width, channels] <- images indices[0..count); decoded in parallel. An image
 * that cannot be decoded is GRAIL_ERROR_FORMAT; the message names it. */
grail_status image_set_load(const image_set *set, int64_t count, const int64_t *indices,
                            float *out) GRAIL_MUST_CHECK;

/** digests[count] <- 64 bits of the SHA-256 of images indices[0..count), of the bytes of its file
 * or of its pixels in a CIFAR batch: equal for copies under other names and labels. Nothing is
 * decoded.
 */
grail_status image_set_digests(const image_set *set, int64_t count, const int64_t *indices,
                               uint64_t *digests) GRAIL_MUST_CHECK;

/** indices[count]: `count` different images drawn at random, ascending; all of them in order when
 * count equals the set's. */
grail_status image_set_sample(const image_set *set, int64_t count, uint64_t seed,
                              int64_t *indices) GRAIL_MUST_CHECK;

/* Loading ahead: one batch is decoded while the caller works on the previous one. */
typedef struct image_loader image_loader;

/** Batches of `batch` images over indices[count] (borrowed until close), in order. */
grail_status image_loader_open(const image_set *set, int64_t count, const int64_t *indices,
                               int64_t batch, image_loader **out) GRAIL_MUST_CHECK;
/** The next batch: *pixels [*loaded, height, width, channels], borrowed until the next call;
 * *loaded 0 at the end. */
grail_status image_loader_next(image_loader *loader, const float **pixels,
                               int64_t *loaded) GRAIL_MUST_CHECK;
void image_loader_close(image_loader *loader); /* NULL is allowed; waits for the decoder */

#endif
