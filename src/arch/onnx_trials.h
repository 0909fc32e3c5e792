/* What a network of ids makes of its positions alone, or of one value beside them, found out by
 * ONNX Runtime on one sample. */
#ifndef GRAIL_ARCH_ONNX_TRIALS_H
#define GRAIL_ARCH_ONNX_TRIALS_H

#include "arch/onnx_nodes.h"

enum {
    ONNX_LONGEST_TRIED = 2048, /* positions, where the file leaves their number open */
    ONNX_SHORTEST_TRIED = 7
};

/** Positions of a short sample: those of all where the file states their number. */
int64_t onnx_short_length(const onnx_reading *r);

/** Notes that samples of the network are known to be right up to so many positions; 0: all are. */
void onnx_note_longest(onnx_reading *r, int64_t length);

/** A trial of `length` positions. Masks are 1, and ids none that marks padding. */
typedef struct onnx_trial {
    int64_t value; /* of the file */
    int64_t length;
    bool alternates;   /* ids are not all the same */
    int64_t given;     /* a value that takes part as it is; -1: none */
    region_value form; /* of it */
    region_positions at;
    const float *values; /* of it */
} onnx_trial;

/** *out <- the value as F32, whose data is owned (memory_free), or no data where it is of no such
 * type. GRAIL_ERROR_UNSUPPORTED where ONNX Runtime is missing or refuses it, or where other values
 * of the graph lead to it. */
grail_status onnx_try(const onnx_reading *r, const onnx_trial *t,
                      tensor_view *out) GRAIL_MUST_CHECK;

/** The same of what depends on no sample, of as many positions as there can be up to `most` and
 * ONNX_LONGEST_TRIED, where the file leaves their number open: *length. */
grail_status onnx_try_long(const onnx_reading *r, int64_t value, int64_t most, int64_t *length,
                           tensor_view *out) GRAIL_MUST_CHECK;

#endif
