/* The tensors that hold one of a checkpoint where it is written: itself, or three with names of
 * their own for a matrix of groups (packed_groups.h). */
#ifndef GRAIL_FORMAT_WEIGHTS_WRITTEN_PARTS_H
#define GRAIL_FORMAT_WEIGHTS_WRITTEN_PARTS_H

#include "format/weights/checkpoint.h"
#include "format/weights/packed_groups.h"

typedef struct written_parts {
    int count;
    tensor_view of[PACKED_PARTS];
    char *names[PACKED_PARTS]; /* owned where there are three */
} written_parts;

/** Those of tensor i of `like` in its written shape. The caller calls written_parts_fini, even
 * after a failure. */
grail_status written_parts_find(const checkpoint *like, int64_t i, const tensor_view *shape,
                                written_parts *out) GRAIL_MUST_CHECK;
void written_parts_fini(written_parts *w); /* works on a zeroed one */

/** Memory for what the parts hold. The caller calls written_parts_free, even after a failure. */
grail_status written_parts_new(const written_parts *parts,
                               void *data[PACKED_PARTS]) GRAIL_MUST_CHECK;
void written_parts_free(void *data[PACKED_PARTS]); /* NULL is allowed */
/** The same, filled from the blocks of a matrix of groups. */
grail_status written_parts_split(written_parts *parts, const tensor_view *shape, const void *blocks,
                                 void *data[PACKED_PARTS]) GRAIL_MUST_CHECK;

#endif
