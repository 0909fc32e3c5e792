/* Limits for GGUF files, in addition to those for every file of tensors (format/tensor_limits.h).
 * The table in docs/formats.md lists them. */
#ifndef GRAIL_FORMAT_GGUF_GGUF_LIMITS_H
#define GRAIL_FORMAT_GGUF_GGUF_LIMITS_H

enum {
    GGUF_MOST_KEYS = 65536,
    GGUF_LONGEST_KEY = 65535,
    GGUF_MOST_DIMENSIONS = 4,
    GGUF_USUAL_ALIGNMENT = 32
};

#endif
