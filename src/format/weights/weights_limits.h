/* Ceilings of weights files, besides those of every JSON text (base/json_extent.h) and of every
 * file of tensors (format/tensor_limits.h). docs/formats.md has them in its table. */
#ifndef GRAIL_FORMAT_WEIGHTS_WEIGHTS_LIMITS_H
#define GRAIL_FORMAT_WEIGHTS_WEIGHTS_LIMITS_H

enum {
    /* A limit of the reference reader, which this reader enforces and the writer keeps. */
    SAFETENSORS_LARGEST_HEADER = 100000000,
    SAFETENSORS_DEEPEST = 3, /* header, entry, shape */
    CHECKPOINT_LARGEST_INDEX = 100000000
};

#endif
