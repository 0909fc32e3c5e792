/* Masks of attention: which keys a query sees, where that follows from their positions alone. ONNX
 * Runtime computes the mask, or the file has it as a constant. What is added to scores may also be
 * their biases (onnx_biases.h). */
#ifndef GRAIL_ARCH_ONNX_MASKS_H
#define GRAIL_ARCH_ONNX_MASKS_H

#include "arch/onnx_nodes.h"

/* What a score is lowered by at least where its key is hidden: exp(-1e4) is 0 in f64. */
#define ONNX_LEAST_HIDDEN (-1e4)

/** A mask that is known: of the value `value` of the file. */
typedef struct onnx_mask {
    int64_t value;
    int64_t behind, ahead; /* as onnx_known says */
    bool shows_true;       /* truths that it is made of are 1 where a query sees a key */
    int64_t length;        /* of samples that it was computed for, perhaps the most; 0: any */
    double *biases; /* a table for an attention node (graph/attributes.h), owned; NULL: none */
    int64_t heads, positions;
    int64_t windows; /* that `heads` are of, as many of each; 0: those of all are alike */
    bool by_distance;
    bool is_tensor; /* of the file, of finite biases for each query and key of each head */
    char *refusal;  /* why it is none, owned; NULL: it is one */
} onnx_mask;

/** Has scores `y` hidden by input `mask`, which is added to them, or truths that are `shows_true`
 * where they are seen. */
grail_status onnx_hide(onnx_reading *r, int mask, bool are_truths, bool shows_true,
                       onnx_known *y) GRAIL_MUST_CHECK;
/** Has an attention node add the biases that its scores have. */
grail_status onnx_bias_attention(const onnx_reading *r, const onnx_known *scores, int64_t heads,
                                 node *n) GRAIL_MUST_CHECK;
/** Whether the node at hand hides scores, or adds biases to them. */
bool onnx_hides_scores(const onnx_reading *r);
grail_status onnx_hide_scores(onnx_reading *r) GRAIL_MUST_CHECK;

#endif
