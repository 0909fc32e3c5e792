/* Limits for torch checkpoints and other pickles: the memory and the time of reading stay within a
 * small multiple of the file's size, whatever the file claims. The table in docs/formats.md lists
 * them. */
#ifndef GRAIL_FORMAT_TORCH_TORCH_LIMITS_H
#define GRAIL_FORMAT_TORCH_TORCH_LIMITS_H

enum {
    ZIP_MOST_MEMBERS = 1 << 20,
    ZIP_LONGEST_NAME = 4096,

    /* Bytes of data.pkl. */
    TORCH_LARGEST_PICKLE = 1 << 27,

    /* A tensor takes some 25 values of 32 bytes. */
    PICKLE_MOST_VALUES = 1 << 22,
    PICKLE_MOST_MEMORY = 1 << 29, /* of values and lists of them */
    PICKLE_MOST_GROWTH = 128,     /* bytes of memory per byte of pickle */
    PICKLE_MOST_MARKS = 1 << 16,  /* open at once */
    PICKLE_DEEPEST = 200,         /* levels of values: bounds the recursion of all walks */
    PICKLE_LONGEST_GLOBAL = 1024, /* bytes of a module or name */

    /* Bytes that contiguous copies of strided tensors may take: this many times the file's size,
     * plus a fixed allowance. A file of shared storages could ask for any amount. */
    TORCH_MOST_COPIES = 8,
    TORCH_FREE_COPIES = 1 << 26,

    TORCH_MOST_VISITS = 1 << 22 /* values of dictionaries, which may be shared */
};

#endif
