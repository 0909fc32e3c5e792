/* Nodes of an ONNX file that no network needs: those that compute weights from constants alone (the
 * norm and direction of weight norm, standardised kernels, what a node scales or turns), and those
 * whose values nothing reads. */
#ifndef GRAIL_ARCH_ONNX_FOLDS_H
#define GRAIL_ARCH_ONNX_FOLDS_H

#include "format/weights/checkpoint.h"

/** Has such weights as tensors of the checkpoint, by the names of the values that its nodes make,
 * and without those nodes and what they alone read, which ONNX Runtime computes once. Where it is
 * missing or refuses them, they stay as they are. The others go, since what they read may be cut;
 * *useless <- their number. Where there are none, or the weights are of another format, nothing is
 * done. */
grail_status onnx_fold_nodes(checkpoint *c, int64_t *useless) GRAIL_MUST_CHECK;

#endif
