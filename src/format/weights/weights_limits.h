/* Limits for weights files, in addition to those for every JSON text (base/json_extent.h) and every
 * file of tensors (format/tensor_limits.h). The table in docs/formats.md lists them. */
#ifndef GRAIL_FORMAT_WEIGHTS_WEIGHTS_LIMITS_H
#define GRAIL_FORMAT_WEIGHTS_WEIGHTS_LIMITS_H

enum {
    /* A limit of the reference reader, which this reader enforces and the writer keeps. */
    SAFETENSORS_LARGEST_HEADER = 100000000,
    SAFETENSORS_DEEPEST = 3, /* header, entry, shape */
    CHECKPOINT_LARGEST_INDEX = 100000000
};

#endif
