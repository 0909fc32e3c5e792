/* Tensors that lie in two of a checkpoint: NAME_blocks U8 [matrices, out, in / 32, 16] and
 * NAME_scales U8 [matrices, out, in / 32]. They are seen as one, NAME [matrices, in, out], packed
 * as MXFP4 (tensor/packed.h). */
#ifndef GRAIL_FORMAT_WEIGHTS_PACKED_PAIRS_H
#define GRAIL_FORMAT_WEIGHTS_PACKED_PAIRS_H

#include "format/name_index.h"
#include "tensor/tensor.h"

typedef struct packed_pairs {
    tensor_view *views; /* [count] with owned names */
    int64_t count;
} packed_pairs;

/** Puts the view of a pair in the place of its blocks in tensors[*count], and takes its scales out
 * of both lists. `index` finds tensors by name. Scales that are missing, or do not fit the blocks:
 * GRAIL_ERROR_FORMAT. *out is released with packed_pairs_fini, also after a failure. */
grail_status packed_pairs_join(const name_index *index, const tensor_view *tensors[], int file_of[],
                               int64_t *count, packed_pairs *out) GRAIL_MUST_CHECK;
void packed_pairs_fini(packed_pairs *pairs); /* works on a zeroed one */

#endif
