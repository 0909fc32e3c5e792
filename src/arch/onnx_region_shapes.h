/* The shapes of what opaque nodes make (onnx_regions.h): as the file declares them, or as ONNX
 * Runtime tells them when it is asked. */
#ifndef GRAIL_ARCH_ONNX_REGION_SHAPES_H
#define GRAIL_ARCH_ONNX_REGION_SHAPES_H

#include "arch/onnx_masks.h"
#include "arch/onnx_places.h"
#include "arch/onnx_rotations.h"

enum { ONNX_REASON_SIZE = 1024 };

/** What is known of the nodes that no row reads, and the search at hand. */
struct onnx_barriers {
    const onnx_file *file;
    const char *path;
    bool *is_opaque;    /* of nodes */
    char **reasons;     /* of those nodes, owned */
    bool *follows;      /* of values: from the images */
    bool *is_wanted;    /* of values that opaque nodes make: a row reads it */
    onnx_place *places; /* of values: where their channels are */
    ort_tensor *asked;  /* of values: shapes out of a trial, NULL before it */
    ort_tensor *more;   /* the same with one image more, where their number is open */
    onnx_mask *masks;   /* [mask_count] that were computed */
    int64_t mask_count;
    onnx_rotation *rotations; /* [rotation_count] likewise */
    int64_t rotation_count;
    int64_t input;  /* the images */
    int64_t *marks; /* of nodes: the last search that came there */
    int64_t *stack; /* [nodes] of that search */
    int64_t search, steps, readings;
    bool has_grown; /* in this reading */
    bool has_size;  /* the images have one, and so has what follows from them */
    bool is_last;   /* reading, which makes regions */
};

/** The node at hand becomes the first one that no row reads; false: there is none. */
bool onnx_first_opaque(onnx_reading *r);
/** *out <- rank and width of a value as one of a graph; a width of 0: it cannot be one. */
grail_status onnx_shape_of(onnx_reading *r, int64_t value, onnx_known *out) GRAIL_MUST_CHECK;
/** *out <- whether a value is of FLOAT16, as the file declares or ONNX Runtime tells. */
grail_status onnx_is_half(onnx_reading *r, int64_t value, bool *out) GRAIL_MUST_CHECK;
/** Notes the positions of what a region makes, 0 x 0 where they are not known: nodes behind it ask
 * for them, and need not run it. */
grail_status onnx_note_positions(onnx_reading *r, int64_t value,
                                 const onnx_known *k) GRAIL_MUST_CHECK;
/** Refuses the node at hand where values that it reads have other positions than each other, and
 * more than one: what makes them may be any operator. Known are those that the file declares, or
 * that were asked for. */
grail_status onnx_check_positions(const onnx_reading *r) GRAIL_MUST_CHECK;
/** Whether an opaque node makes a value that the graph has not. */
bool onnx_is_inner(const onnx_reading *r, int64_t value);
/** out->items[ONNX_MAX_RANK] <- the sizes of such a value, where those of the images are known;
 * false: they are not known. */
bool onnx_inner_sizes(const onnx_reading *r, int64_t value, onnx_numbers *out);

#endif
