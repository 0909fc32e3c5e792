/* CIFAR-10 batches: binary records and Python pickles. Pixels are read in place, plane by plane. */
#ifndef GRAIL_FORMAT_IMAGES_CIFAR_H
#define GRAIL_FORMAT_IMAGES_CIFAR_H

#include "base/file.h"
#include "format/torch/pickle.h"

enum {
    CIFAR_SIDE = 32,
    CIFAR_PLANE = CIFAR_SIDE * CIFAR_SIDE,
    CIFAR_BYTES = 3 * CIFAR_PLANE, /* of an image */
    CIFAR_CLASSES = 10
};

/** One file. Image i is [3, 32, 32] bytes, red first, at pixels + i * stride. */
typedef struct cifar_batch {
    char *path;
    file_map map;     /* empty when the bytes are the caller's */
    pickle *document; /* of a Python batch; NULL for a binary batch */
    int64_t count;
    const unsigned char *pixels;
    size_t stride;
    unsigned char *labels; /* [count], each below CIFAR_CLASSES */
} cifar_batch;

typedef struct cifar_set {
    cifar_batch *batches;
    int64_t batch_count;
    int64_t count; /* of images, over all batches */
} cifar_set;

/** Whether `path` is a file, or is a directory that holds batches. */
grail_status cifar_recognise(const char *path, bool *out) GRAIL_MUST_CHECK;

/** Maps a directory's batches of a split ("train", "test"; NULL = test), or one file, for which
 * `split` must be NULL. A label above 9, or a size that is not a multiple of the record size, is
 * GRAIL_ERROR_FORMAT. */
grail_status cifar_open(const char *path, const char *split, cifar_set *out) GRAIL_MUST_CHECK;
void cifar_close(cifar_set *set); /* works on a zeroed one */

/** Reads one batch of either kind from memory. The bytes must outlive the batch; `name` is for
 * messages. */
grail_status cifar_batch_read(const char *name, const void *bytes, size_t size,
                              cifar_batch *out) GRAIL_MUST_CHECK;
void cifar_batch_close(cifar_batch *batch); /* works on a zeroed one */

/** The batch that holds image i of the set; *index is its index there. */
const cifar_batch *cifar_find(const cifar_set *set, int64_t i, int64_t *index);

#endif
