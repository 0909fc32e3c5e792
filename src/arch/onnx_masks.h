/* Masks of attention in networks that read sequences: which keys a query sees, where that follows
 * from their positions alone. ONNX Runtime computes the mask, or the file has it as a constant. */
#ifndef GRAIL_ARCH_ONNX_MASKS_H
#define GRAIL_ARCH_ONNX_MASKS_H

#include "arch/onnx_nodes.h"

/** A mask that is known: of the value `value` of the file. */
typedef struct onnx_mask {
    int64_t value;
    int64_t behind, ahead; /* as onnx_known says */
    bool shows_true;       /* truths that it is made of are 1 where a query sees a key */
    int64_t length;        /* of samples that it was computed for, perhaps the most; 0: any */
    char *refusal;         /* why it is none, owned; NULL: it is one */
} onnx_mask;

/** Has scores `y` hidden by input `mask`, which is added to them, or truths that are `shows_true`
 * where they are seen. */
grail_status onnx_hide(onnx_reading *r, int mask, bool are_truths, bool shows_true,
                       onnx_known *y) GRAIL_MUST_CHECK;
/** Whether the node at hand hides scores. */
bool onnx_hides_scores(const onnx_reading *r);
grail_status onnx_hide_scores(onnx_reading *r) GRAIL_MUST_CHECK;

#endif
